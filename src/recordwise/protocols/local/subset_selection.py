"""Subset selection: a random set of cells, likelier when it holds the record's own (Ye and Barg 2018). For c = 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.noise import Noise, Real, bernoulli, exp, uniform_below
from recordwise.protocols.local.bits import BitMechanism, bits_of
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.registry import register
from recordwise.protocols.views import Exact, change
from recordwise.votes.ballot import NOBODY, Ballot, Votes

if TYPE_CHECKING:
    from recordwise.privacy.amplification import LocalMechanism as Amplifiable
    from recordwise.privacy.amplification.clones import Clones


@register
@dataclass(frozen=True, kw_only=True)
class SubsetSelection(BitMechanism):
    """Sends `subset_size` of the s·C cells and one more, which stands for no vote.

    Guarantees:
      - a set that holds the record's cell is e^epsilon times as likely as one that does not;
      - a record that abstains votes for the extra cell, so its message is like any other and adds no bias.
    """

    name: ClassVar[str] = "subset-selection"
    one_vote: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ballot.cells_per_record != 1:
            raise InvalidInput(f"subset selection sends one vote, so k·r must be 1, got {self.ballot.cells_per_record}")

    @classmethod
    def chosen_for(cls, ballot: Ballot) -> bool:
        return ballot.cells_per_record == 1

    @classmethod
    def tells(cls, ballot: Ballot) -> Amplifiable:
        from recordwise.privacy.amplification.mechanisms import subset_selection

        def subset_size(epsilon0: float) -> int:
            return cls(ballot=ballot, epsilon=Fraction(epsilon0)).subset_size

        return subset_selection(ballot.num_cells + 1, subset_size)

    @property
    def num_bits(self) -> int:
        return self.ballot.num_cells + 1

    @cached_property
    def subset_size(self) -> int:
        """The better integer beside num_bits / (e^epsilon + 1), where the variance is least."""
        optimum = math.floor(self.num_bits / (math.exp(min(float(self.epsilon), 700.0)) + 1))
        sizes = [size for size in (optimum, optimum + 1) if 1 <= size < self.num_bits]
        return min(sizes, key=lambda size: self._indicator(size).variance(voted=False))

    @cached_property
    def indicator(self) -> Indicator:
        return self._indicator(self.subset_size)

    def _indicator(self, size: int) -> Indicator:
        raised = size * exp(self.epsilon)
        hit: Real = raised / (raised + (self.num_bits - size))
        return Indicator(hit=hit, miss=(size - hit) / (self.num_bits - 1))

    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        cells = votes.cells()[:, 0].astype(np.int64)
        own = np.where(cells == NOBODY, self.ballot.num_cells, cells)
        included = bernoulli(self.indicator.hit, len(votes), noise)
        bits = np.empty((len(votes), self.num_bits), dtype=np.bool_)
        others = np.arange(self.num_bits - 1)
        np.put_along_axis(bits, others + (others >= own[:, None]), self._other_cells(included, noise), axis=1)
        np.put_along_axis(bits, own[:, None], included[:, None], axis=1)
        return np.packbits(bits, axis=1)

    def _other_cells(self, included: NDArray[np.bool_], noise: Noise) -> NDArray[np.bool_]:
        """A uniformly random subset of the cells that are not the record's own (Floyd's algorithm, all rows at once).

        It has subset_size cells, or one less where the record's own is included.
        """
        count, others = len(included), self.num_bits - 1
        chosen = np.zeros((count, others), dtype=np.bool_)
        rows = np.flatnonzero(~included)  # take part in the first step, everyone in the rest
        for last in range(others - self.subset_size, others):
            pick = uniform_below(last + 1, len(rows), noise)
            chosen[rows, np.where(chosen[rows, pick], last, pick)] = True
            rows = np.arange(count)
        return chosen

    def check(self, bodies: NDArray[np.uint8]) -> None:
        super().check(bodies)
        sizes = np.bitwise_count(bodies).sum(axis=1)
        if (sizes != self.subset_size).any():
            wrong = int(sizes[sizes != self.subset_size][0])
            raise ProtocolFault(f"a message must select {self.subset_size} cells, got {wrong}")

    def log_density(self, bodies: NDArray[np.uint8], record: Record) -> Doubles:
        """Sets with the record's cell are alike, and so are those without."""
        hit, share = float(self.indicator.hit), self.subset_size / self.num_bits
        (cell,) = record.cells(self.ballot) or {self.ballot.num_cells}
        return np.where(bits_of(bodies, [cell])[:, 0], math.log(hit / share), math.log((1 - hit) / (1 - share)))

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        if not change(self.ballot, pair).any():
            return 0.0, "nothing differs"
        hit, others = float(self.indicator.hit), self.num_bits - 1
        with_own = math.log(hit) - _log_choose(others, self.subset_size - 1)  # one set that holds the record's own cell
        without = math.log(1 - hit) - _log_choose(others, self.subset_size)
        return abs(with_own - without), "a set with, and one without"

    def shuffled_sides(self) -> list[Clones]:
        """One cell in the set and not the other."""
        from recordwise.privacy.amplification.clones import Clones

        hit, size, bits = float(self.indicator.hit), self.subset_size, self.num_bits
        if bits <= 2:
            return []
        third = hit * (size - 1) * (bits - size) + (1 - hit) * size * (bits - 1 - size)
        return [
            Clones(
                hit=hit * (bits - size) / (bits - 1),
                miss=(1 - hit) * size / (bits - 1),
                blanket=third / ((bits - 1) * (bits - 2)),
            )
        ]


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
