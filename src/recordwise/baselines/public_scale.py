"""Vectors made ready for clipping, by what is public: the pool's mean and spectrum, and each record's own length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recordwise.baselines.estimator import Vectors


@dataclass(frozen=True, eq=False)
class PublicScale:
    """Centre, flatten the spectrum, shorten to length one, append a one and make the whole of length one.

    Guarantees:
      - a record's row is a function of that record and of the public pool, and no longer than one.
    """

    centre: NDArray[np.float64]
    turn: NDArray[np.float64]

    @classmethod
    def of(cls, pool: Vectors | None, dim: int, *, whiten: float) -> Self:
        """From the pool; without one, vectors are only shortened.

        Args:
          whiten: 0 keeps the pool's spectrum, 1 makes all directions equal but for the smallest.
        """
        if pool is None:
            return cls(np.zeros(dim), np.eye(dim))
        vectors = pool.astype(np.float64)
        centre = vectors.mean(axis=0)
        spread, axes = np.linalg.eigh(np.cov((vectors - centre).T).reshape(dim, dim))
        spread = np.maximum(spread, 0)
        floor = 1e-3 * max(float(spread.max()), 1e-30)  # directions in which the pool hardly varies say nothing
        turn = axes * (spread + floor) ** (-whiten / 2)
        size = np.median(np.linalg.norm((vectors - centre) @ turn, axis=1))
        return cls(centre, turn / max(float(size), 1e-12))

    def __call__(self, vectors: Vectors) -> NDArray[np.float64]:
        turned = (vectors.astype(np.float64) - self.centre) @ self.turn
        turned /= np.maximum(1.0, np.linalg.norm(turned, axis=1, keepdims=True))
        return np.asarray(np.hstack([turned, np.ones((len(turned), 1))]) / np.sqrt(2 * (1 + 2**-40)))
