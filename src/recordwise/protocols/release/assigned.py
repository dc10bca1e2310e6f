"""An assignment of classes to queries, with the probability of every pair: labels that need no decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Guarantee
from recordwise.protocols.release.choices import check_chosen, check_different, whole_numbers
from recordwise.protocols.release.release import Release
from recordwise.votes.ballot import Ballot


@dataclass(frozen=True, eq=False)
class Assigned(Release):
    """One class per query, all different, and how likely each class is for each query; safe to publish.

    Attributes:
      chosen: (s,) classes, s = C.
      probabilities: (s, C) of each label, every row a distribution, under the model by which it was chosen.
      purity: The expected share of a query's records that carry its label.
    """

    chosen: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    purity: float

    decoders: ClassVar[tuple[str, ...]] = ("assigned",)
    shows_purity: ClassVar[bool] = True

    def scores(self) -> NDArray[np.float64]:
        return np.eye(self.ballot.num_classes)[self.chosen]

    def check(self) -> None:
        check_chosen(self.ballot, self.chosen)
        check_different(self.ballot, self.chosen)
        shape = (self.ballot.num_queries, self.ballot.num_classes)
        rows = self.probabilities
        if rows.shape != shape or not (rows >= 0).all() or not np.allclose(rows.sum(axis=1), 1):
            raise InvalidInput(f"probabilities must be {shape[0]} distributions over {shape[1]} classes")
        if not 0 <= self.purity <= 1 + 1e-9:
            raise InvalidInput(f"purity must lie in [0, 1], got {self.purity!r}")

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"purity": self.purity}, {"array": self.chosen, "probabilities": self.probabilities}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        probabilities = arrays["probabilities"].astype(np.float64, casting="safe")
        return cls(ballot, guarantee, whole_numbers(arrays["array"]), probabilities, float(about["purity"]))
