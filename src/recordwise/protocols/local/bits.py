"""Mechanisms whose message is one bit per cell: each bit is a yes or no about one cell."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles, Ints
from recordwise.errors import ProtocolFault
from recordwise.privacy.noise import Noise, Real, bernoulli
from recordwise.protocols.local.hits import Engine
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.release import Tally
from recordwise.protocols.views import Exact, change
from recordwise.randomness import seeded
from recordwise.votes.ballot import NOBODY, Votes

if TYPE_CHECKING:
    from recordwise.privacy.amplification.clones import Clones


@dataclass(frozen=True, kw_only=True)
class BitMechanism(LocalMechanism):
    """A message of `num_bits` bits, the first s·C of which speak about the cells."""

    @property
    @abstractmethod
    def indicator(self) -> Indicator:
        """How often a cell's bit is set, with and without a vote."""

    @property
    def num_bits(self) -> int:
        return self.ballot.num_cells

    @property
    def message_size(self) -> int:
        return -(-self.num_bits // 8)

    def check(self, bodies: NDArray[np.uint8]) -> None:
        spare = 8 * self.message_size - self.num_bits
        if spare and (bodies[:, -1] & ((1 << spare) - 1)).any():
            raise ProtocolFault(f"the {spare} bits after bit {self.num_bits} of a message must be zero")

    def estimate(self, bodies: NDArray[np.uint8], engine: Engine) -> NDArray[np.float64]:
        cells, indicator = self.ballot.num_cells, self.indicator
        # Messages of the same byte are counted together: 256 counts per byte of the message, then one matrix product.
        ones = np.zeros(8 * self.message_size, dtype=np.int64)
        bits_of = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)
        for position, column in enumerate(np.ascontiguousarray(bodies.T)):
            ones[8 * position : 8 * position + 8] = np.bincount(column, minlength=256) @ bits_of
        estimate = (ones[:cells].astype(np.float64) - len(bodies) * indicator.chances[0]) / indicator.gap
        return estimate.reshape(self.ballot.num_queries, self.ballot.num_classes)

    def variance(self, *, queried: bool, labelled: bool) -> float:
        return self.indicator.variance(queried and labelled)

    @property
    def reach(self) -> tuple[float, float]:
        return self.indicator.reach


@dataclass(frozen=True, kw_only=True)
class IndependentBits(BitMechanism):
    """Every bit is set on its own: with probability `indicator.hit` where there is a vote, else `indicator.miss`."""

    def randomize(self, votes: Votes, noise: Noise) -> NDArray[np.uint8]:
        return independent_bits(votes, self.indicator.hit, self.indicator.miss, noise)

    def simulate_cohort(self, counts: Ints, *, seed: int) -> Tally:
        """The ones in a cell are a sum of two binomials, and cells are independent, so they are drawn as such."""
        devices, rng, (miss, hit) = int(counts.sum()), seeded(seed, "cohort"), self.indicator.chances
        ones = rng.binomial(counts, hit) + rng.binomial(devices - counts, miss)
        estimate = (ones.astype(np.float64) - devices * miss) / self.indicator.gap
        return Tally(self.ballot, replace(self.guarantee, private=False), estimate, self.law(devices))

    def log_density(self, bodies: NDArray[np.uint8], record: Record) -> Doubles:
        miss, hit = self.indicator.chances
        bits = bits_of(bodies, sorted(record.cells(self.ballot)))
        evidence: Doubles = np.where(bits, math.log(hit / miss), math.log((1 - hit) / (1 - miss))).sum(axis=1)
        return evidence

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        miss, hit = self.indicator.chances
        up = max(math.log(hit / miss), math.log((1 - hit) / (1 - miss)))
        down = max(math.log(miss / hit), math.log((1 - miss) / (1 - hit)))
        changed = change(self.ballot, pair)
        gained, lost = int((changed > 0).sum()), int((changed < 0).sum())
        return max(gained * up + lost * down, gained * down + lost * up), "all settings of the bits that differ"

    def shuffled_sides(self) -> list[Clones]:
        """All bits of one record set, all of the other's clear."""
        from recordwise.privacy.amplification.clones import Clones

        (miss, hit), votes = self.indicator.chances, self.ballot.cells_per_record
        one, other = (hit * (1 - miss)) ** votes, (miss * (1 - hit)) ** votes
        return [Clones(hit=one, miss=other, blanket=(miss * (1 - miss)) ** votes)]


def independent_bits(votes: Votes, hit: Real, miss: Real, noise: Noise) -> NDArray[np.uint8]:
    """Packed bits, each set on its own: with probability `hit` where there is a vote, else `miss`."""
    cells = votes.cells()
    bits = bernoulli(miss, (len(votes), votes.ballot.num_cells), noise)
    rows, columns = np.nonzero(cells != NOBODY)
    bits[rows, cells[rows, columns]] = bernoulli(hit, len(rows), noise)
    return np.packbits(bits, axis=1)


def bits_of(bodies: NDArray[np.uint8], cells: list[int]) -> NDArray[np.bool_]:
    """(n, cells) the bits of some cells."""
    at = np.array(cells, dtype=np.int64)
    return (bodies[:, at // 8] >> (7 - at % 8).astype(np.uint8) & 1).astype(np.bool_)
