"""Mechanisms whose message is one bit per cell: each bit is a yes or no about one cell."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import ProtocolFault
from recordwise.privacy.noise import Noise, Real, bernoulli
from recordwise.protocols.local.indicator import Indicator
from recordwise.protocols.local.matching import Engine
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.votes.ballot import NOBODY, Votes


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
        estimate = (ones[:cells].astype(np.float64) - len(bodies) * float(indicator.miss)) / indicator.gap
        return estimate.reshape(self.ballot.num_queries, self.ballot.num_classes)

    def variance(self, *, queried: bool, labelled: bool) -> float:
        return self.indicator.variance(queried and labelled)

    @property
    def reach(self) -> tuple[float, float]:
        return self.indicator.reach


def independent_bits(votes: Votes, hit: Real, miss: Real, noise: Noise) -> NDArray[np.uint8]:
    """Packed bits, each set on its own: with probability `hit` where there is a vote, else `miss`."""
    cells = votes.cells()
    bits = bernoulli(miss, (len(votes), votes.ballot.num_cells), noise)
    rows, columns = np.nonzero(cells != NOBODY)
    bits[rows, cells[rows, columns]] = bernoulli(hit, len(rows), noise)
    return np.packbits(bits, axis=1)
