"""One class per query by permute-and-flip: no counts, and less noise for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from recordwise.arrays import Doubles, Ints
from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import Noise, permute_and_flip
from recordwise.protocols.central.counts import PureCentral
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.registry import register
from recordwise.protocols.release import Choices
from recordwise.protocols.views import CELLS, DEPTH, MOST_DEPTH, Exact, blocks, table, voters
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

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        ratios = self._log_ratios(pair)
        worst = max(float(ratios.max(axis=1).sum()), float((-ratios).max(axis=1).sum()))
        return worst, "the law of every query's choice, two classes level or one vote apart"

    def view_scores(self, side: Record | None, pair: Pair, trials: int, parties: int | None, noise: Noise) -> Doubles:
        """Every block of queries is a view: which classes were chosen, two of them being level or nearly so."""
        ballot, others = self.ballot, self._crowd()
        ratio, queries = self._log_ratios(pair), np.arange(ballot.num_queries)
        parts = []
        for wide, victims in blocks(self, side, trials, min(CELLS, CELLS * 8 // int(others.sum()))):
            copies = wide.ballot.num_queries // ballot.num_queries
            rest = voters(wide.ballot, np.tile(others, (copies, 1)))
            release = wide.server([wide.client(votes, noise) for votes in (victims, rest)], noise)
            chosen = release.chosen.reshape(copies, ballot.num_queries)
            parts.append(ratio[queries, chosen].sum(axis=1)[:, None])
        return np.concatenate(parts)

    def _log_ratios(self, pair: Pair) -> Doubles:
        """(s, C) of each query's choice on the two data sets."""
        before, after = (
            choice_log_probabilities(self._crowd() + table(self.ballot, side), float(self.scale))
            for side in pair.sides()
        )
        return before - after

    def _crowd(self) -> Ints:
        """(s, C) the other records' votes that make a choice per query tell most: two classes far ahead of the rest.

        With two classes at a gap g the class behind is chosen with probability e^(-g/scale) / 2, so a vote that opens
        or closes a gap costs exactly 1/scale. The two are one vote apart where the second of two records closes the gap
        (the last queries of the ballot), and level where the first one opens it.
        """
        depth = min(math.ceil(DEPTH * self.scale), MOST_DEPTH)
        counts = np.zeros((self.ballot.num_queries, self.ballot.num_classes), dtype=np.int64)
        counts[:, -1] += depth
        counts[:, 0] = depth
        counts[-self.ballot.votes_per_record :, 0] += 1
        return counts


def choice_log_probabilities(counts: Ints, scale: float) -> Doubles:
    """(s, C) permute-and-flip's law: log of a_c · integral over u in (0, 1) of the product of (1 - a_j·u), j != c.

    Classes come in random order, at uniform times; class c is chosen at time u if it accepts, which it does with
    probability a_c = exp((count - max) / scale), and nobody who came before u did. The integrand is a polynomial of
    degree C - 1, so Gauss and Legendre's rule is exact.
    """
    accept = np.exp((counts - counts.max(axis=1, keepdims=True)) / scale)
    nodes, weights = np.polynomial.legendre.leggauss(counts.shape[1] // 2 + 1)
    refuse = 1 - accept[:, None, :] * ((nodes + 1) / 2)[None, :, None]  # (s, nodes, C), never zero inside (0, 1)
    others = refuse.prod(axis=2, keepdims=True) / refuse
    chance = accept * np.einsum("n,snc->sc", weights / 2, others)
    log_chance: Doubles = np.log(np.maximum(chance, 1e-300))
    return log_chance
