"""One class per query, all different, chosen together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recordwise.arrays import Ints
from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import Noise, exponential_matching
from recordwise.privacy.noise.matching import MOST_CLASSES
from recordwise.protocols.central.counts import PureCentral
from recordwise.protocols.protocol import check_one_query_per_class
from recordwise.protocols.registry import register
from recordwise.protocols.release import Matched
from recordwise.votes.ballot import Ballot

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms


VIEW_COST = 400.0


@register
@dataclass(frozen=True, kw_only=True)
class CentralMatching(PureCentral):
    """One class per query, all different, by the exponential mechanism over all matchings; s = C, r = 1: pure epsilon.

    A matching scores the votes that its pairs got and is chosen with probability proportional to exp(score / scale).
    Of a record's k votes, all for one class, it counts the one for the query that has this class, if there is one: so
    a record is worth 0 or 1 to any matching, whatever k is. It takes clusters to be the classes, which only the user
    can know, so "auto" never takes it.

    Guarantees:
      - add or remove one record: all scores move by 0 or 1 in one direction, and so does the log of their sum, in
        units of the scale 1 / epsilon: the release is epsilon-DP;
      - replace one record: scores move by at most 1 in either direction, and the scale is 2 / epsilon: epsilon-DP;
      - the noise does not grow with k;
      - it is epsilon-bounded-range (log-ratios of outcomes lie within epsilon of each other), and is charged as a plain
        pure mechanism, which is never too little.
    """

    name: ClassVar[str] = "matching"
    one_query_per_class: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ballot.labels_per_record != 1:
            raise InvalidInput(
                f"matching picks one class per query, so r must be 1, got {self.ballot.labels_per_record}"
            )
        check_one_query_per_class(self.name, self.ballot, MOST_CLASSES)

    @classmethod
    def planned(cls, terms: Terms, ballot: Ballot, num_records: int) -> CentralMatching:
        return cls(ballot=ballot, neighbours=terms.neighbours, epsilon=terms.pure_epsilon())

    @property
    def scale(self) -> Fraction:
        return self.neighbours.records_changed / self.epsilon

    def protect(self, counts: Ints, promise: Guarantee, noise: Noise) -> Matched:
        return Matched(self.ballot, promise, exponential_matching(counts, self.scale, noise), self.scale)

    def blank(self) -> Matched:
        return Matched(self.ballot, self.guarantee, np.arange(self.ballot.num_queries), self.scale)

    def noise_std(self, num_records: int) -> float:
        return float(self.scale) * math.pi / math.sqrt(6)  # as if every score got Gumbel noise and the best one won

    def shrunk(self) -> CentralMatching:
        """On a square of at most three classes, on which two records can speak for different matchings.

        It is what remains of a larger ballot when the other records leave no doubt about the rest of its queries. Votes
        for all of them would speak for every matching alike, so a record casts fewer, and more than one if it may.
        """
        side = min(self.ballot.num_classes, 3)
        votes = max(1, min(self.ballot.votes_per_record, side - 1))
        ballot = replace(self.ballot, num_queries=side, num_classes=side, votes_per_record=votes)
        return replace(self, ballot=ballot)

    def view_cost(self, parties: int | None) -> float:
        return VIEW_COST  # a view is a whole release, and not a block of one
