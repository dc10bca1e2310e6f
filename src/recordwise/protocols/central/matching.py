"""One class per query, all different, chosen together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recordwise.arrays import Doubles, Ints
from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import Noise, exponential_matching
from recordwise.privacy.noise.matching import MOST_CLASSES
from recordwise.protocols.central.counts import PureCentral
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.protocol import check_one_query_per_class
from recordwise.protocols.registry import register
from recordwise.protocols.release import Matched
from recordwise.protocols.views import DEPTH, MOST_DEPTH, Exact, change, data_set, table, voters
from recordwise.votes.ballot import Ballot

if TYPE_CHECKING:
    from recordwise.protocols.terms import Terms


VIEW_COST = 400.0
MOST_LISTED = 8  # classes: 40,320 matchings


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

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        if self.ballot.num_classes > MOST_LISTED:
            return None
        others = self._divided(-change(self.ballot, pair), level=False)
        before, after = (self._log_probabilities(others + table(self.ballot, side)) for side in pair.sides())
        return float(np.abs(before - after).max()), "all matchings, two of them far ahead of the rest"

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        """Every release is a view: how many votes the record is worth to the matching that was chosen, or its rival."""
        gain, queries = -change(self.ballot, pair), np.arange(self.ballot.num_queries)
        others = voters(self.ballot, self._divided(gain, level=True))
        messages = [self.client(votes, noise) for votes in (data_set(self.ballot, side), others)]
        found = [gain[queries, self.server(messages, noise).scores().argmax(axis=1)].sum() for _ in range(trials)]
        return np.array(found, dtype=np.float64)[:, None]

    def _log_probabilities(self, counts: Ints) -> Doubles:
        """(C!,) of every matching."""
        size = self.ballot.num_classes
        matchings = np.array(list(permutations(range(size))))
        weights = counts[np.arange(size), matchings].sum(axis=1) / float(self.scale)
        return np.asarray(weights - np.logaddexp.reduce(weights))

    def _divided(self, gain: Ints, *, level: bool) -> Ints:
        """(C, C) the other records' votes that make a matching tell most: two rivals far ahead of all others.

        The rival that a record speaks for leads. Far ahead, it is nearly all of the sum of all weights, and the other
        one's probability changes by all of epsilon; but to be seen often, the two are level once the other record has
        voted.

        Args:
          gain: (C, C) what one record adds and the other one takes away.
        """
        from scipy.optimize import linear_sum_assignment

        one = np.eye(len(gain), dtype=np.int64)
        ahead, behind = (one[linear_sum_assignment(gain, maximize=best)[1]] for best in (True, False))
        depth = min(math.ceil(DEPTH * self.scale), MOST_DEPTH)
        counts = depth * np.maximum(ahead, behind)
        alone = np.argwhere((ahead > 0) & (behind == 0))
        if len(alone):  # no rivals: all matchings gain alike, and nothing is told
            counts[tuple(alone[0])] += -int((gain * behind).sum()) if level else depth
        return np.asarray(counts)
