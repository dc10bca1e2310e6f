"""An assignment of classes to queries, with the probability of every pair: labels that need no decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.guarantee import Guarantee
from recordwise.protocols.release.choices import check_chosen, check_different
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

    def scores(self) -> NDArray[np.float64]:
        return np.eye(self.ballot.num_classes)[self.chosen]

    def check(self) -> None:
        check_chosen(self.ballot, self.chosen)
        check_different(self.ballot, self.chosen)

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"purity": self.purity}, {"array": self.chosen, "probabilities": self.probabilities}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        return cls(ballot, guarantee, arrays["array"], arrays["probabilities"], float(about["purity"]))
