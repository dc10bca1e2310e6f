"""Generated worlds: pools and records of which everything is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recordwise.arrays import Floats, Ints
from recordwise.randomness import seeded


@dataclass(frozen=True, eq=False)
class World:
    pool: Floats
    pool_labels: Ints
    records: Floats
    labels: Ints
    test: Floats
    test_labels: Ints

    def some_labels(self, count: int) -> Ints:
        """The classes of the first samples of the pool, -1 for the others."""
        known = np.full(len(self.pool), -1)
        known[:count] = self.pool_labels[:count]
        return known


def blobs(
    classes: int,
    apart: float,
    *,
    pool: int = 400,
    records: int = 3000,
    shares: list[float] | None = None,
    seed: int = 0,
) -> World:
    """Two bell curves for each class in six dimensions."""
    rng = seeded(seed, "planner", "test world")
    centres = apart * rng.normal(size=(classes, 2, 6))

    def drawn(size: int) -> tuple[Floats, Ints]:
        labels = rng.choice(classes, size, p=shares)
        return centres[labels, rng.integers(2, size=size)] + rng.normal(size=(size, 6)), labels

    return World(*drawn(pool), *drawn(records), *drawn(2000))
