"""Which records are nearest to a query, by a rule that no other record can bend.

A k-NN vote's sensitivity rests on this: the distance of a record to a query is a function of the two, to the last bit.
Sums of floats are not (they depend on how a matrix is cut into blocks), so vectors are put on a public grid and
distances are integers, which a float product holds exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recordwise.baselines.estimator import Vectors
from recordwise.errors import OutOfRegime

STEPS = 2**14  # grid steps in the pool's typical length
FARTHEST = 2**20  # a coordinate beyond is cut off
MOST_DIMS = 2**11  # squares of differences, 2^42 each, add up below 2^53


@dataclass(frozen=True, eq=False)
class Grid:
    """The public grid: centred on the pool, with steps of a part of its typical length."""

    centre: NDArray[np.float64]
    step: float

    @classmethod
    def of(cls, pool: Vectors) -> Self:
        if pool.shape[1] > MOST_DIMS:
            raise OutOfRegime(f"exact neighbours need vectors of at most {MOST_DIMS} dimensions, got {pool.shape[1]}")
        vectors = pool.astype(np.float64)
        centre = vectors.mean(axis=0)
        return cls(centre, max(float(np.median(np.linalg.norm(vectors - centre, axis=1))), 1e-12) / STEPS)

    def __call__(self, vectors: NDArray[np.floating]) -> NDArray[np.float64]:
        return np.clip(np.rint((vectors - self.centre) / self.step), -FARTHEST, FARTHEST)

    def squared_distances(self, records: NDArray[np.floating], queries: NDArray[np.floating]) -> NDArray[np.float64]:
        """(s, n) exact whole numbers, in steps squared."""
        x, q = self(records), self(queries)
        return np.asarray((q * q).sum(axis=1)[:, None] - 2 * (q @ x.T) + (x * x).sum(axis=1))


def nearest(distances: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """The places of the k smallest, earlier ones first among equals; all where there are fewer.

    Guarantees:
      - a record put in anywhere enters and sends one out, or changes nothing.
    """
    if len(distances) <= k:
        return np.arange(len(distances))
    bound = np.partition(distances, k - 1)[k - 1]
    nearer = np.flatnonzero(distances < bound)
    return np.concatenate([nearer, np.flatnonzero(distances == bound)[: k - len(nearer)]])
