"""One class per query by permute-and-flip: no counts, and less noise for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recordwise.arrays import Ints
from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import Noise, permute_and_flip
from recordwise.protocols.central.counts import PureCentral
from recordwise.protocols.registry import register
from recordwise.protocols.release import Choices
from recordwise.votes.ballot import Ballot

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms


@register
@dataclass(frozen=True, kw_only=True)
class CentralPermuteAndFlip(PureCentral):
    """One class per query by permute-and-flip (McKenna and Sheldon 2020), for r = 1: pure epsilon.

    Joint decoding needs counts, so "auto" never takes it.

    Guarantees:
      - all s answers together are epsilon-DP for one record under `neighbours`: a record changes the counts of k
        queries (2k when replaced), each by one in one direction, and acceptance is exp((count - max) / scale) with
        scale = (queries changed) / epsilon;
      - it is *not* bounded-range, so it composes as a plain pure mechanism.
    """

    name: ClassVar[str] = "permute-and-flip"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ballot.labels_per_record != 1:
            raise InvalidInput(
                f"permute-and-flip picks one class per query, so r must be 1, got {self.ballot.labels_per_record}"
            )

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> CentralPermuteAndFlip:
        return cls(ballot=ballot, neighbours=terms.neighbours, epsilon=terms.pure_epsilon())

    @property
    def scale(self) -> Fraction:
        return self.ballot.cells_changed(self.neighbours) / self.epsilon

    def protect(self, counts: Ints, promise: Guarantee, noise: Noise) -> Choices:
        return Choices(self.ballot, promise, permute_and_flip(counts, self.scale, noise), self.scale)

    def blank(self) -> Choices:
        return Choices(self.ballot, self.guarantee, np.zeros(self.ballot.num_queries, dtype=np.int64), self.scale)

    def noise_std(self, num_records: int) -> float:
        return float(self.scale)  # its law is report-noisy-max with exponential noise, whose deviation is its scale

    def shrunk(self) -> CentralPermuteAndFlip:
        return replace(self, ballot=self.ballot.block(every_class=True))
