"""Vectors made ready for clipping, by what is public: the pool's mean and spectrum, and each record's own length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import sum_in_order
from recordwise.baselines.estimator import Vectors
from recordwise.encoders.exact import ExactLinear
from recordwise.encoders.vectors import REACH


@dataclass(frozen=True, eq=False)
class PublicScale:
    """Centre, flatten the spectrum, shorten to length one, append a one and make the whole of length one.

    Guarantees:
      - a record's row is a function of that record and of the public pool, to the last bit, and no longer than one.

    Attributes:
      turn: None leaves vectors as they are.
    """

    centre: NDArray[np.float64]
    turn: ExactLinear | None

    @classmethod
    def of(cls, pool: Vectors | None, dim: int, *, whiten: float) -> Self:
        """From the pool; without one, vectors are only shortened.

        Args:
          whiten: 0 keeps the pool's spectrum, 1 makes all directions equal but for the smallest.
        """
        if pool is None:
            return cls(np.zeros(dim), None)
        vectors = pool.astype(np.float64)
        centre = vectors.mean(axis=0)
        spread, axes = np.linalg.eigh(np.cov((vectors - centre).T).reshape(dim, dim))
        spread = np.maximum(spread, 0)
        floor = 1e-3 * max(float(spread.max()), 1e-30)  # directions in which the pool hardly varies say nothing
        turn = axes * (spread + floor) ** (-whiten / 2)
        size = np.median(np.linalg.norm((vectors - centre) @ turn, axis=1))
        farthest = float(np.abs(vectors - centre).max())
        return cls(centre, ExactLinear.of(turn / max(float(size), 1e-12), limit=REACH * farthest))

    def __call__(self, vectors: Vectors) -> NDArray[np.float64]:
        centred = vectors.astype(np.float64) - self.centre
        turned = centred if self.turn is None else self.turn(centred)
        turned /= np.maximum(1.0, np.sqrt(sum_in_order(turned * turned)))[:, None]
        return np.asarray(np.hstack([turned, np.ones((len(turned), 1))]) / np.sqrt(2 * (1 + 2**-40)))
