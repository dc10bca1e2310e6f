"""Where privacy noise comes from: the operating system, or, for tests and ablations, a seed.

The two never share a type with experiment randomness (`recordwise.randomness`), and a release drawn from
`SeededNoise` is marked not private wherever it shows.
"""

from __future__ import annotations

import os
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray


class Noise(Protocol):
    """A supply of independent uniform 64-bit words."""

    @property
    def private(self) -> bool: ...

    def words(self, count: int) -> NDArray[np.uint64]: ...


class SystemNoise:
    """Words from the operating system's entropy. It takes no seed."""

    private: ClassVar[bool] = True

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class SeededNoise:
    """Replayable words, for tests and ablations: whoever knows the seed can remove the noise."""

    private: ClassVar[bool] = False

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def __repr__(self) -> str:
        return f"SeededNoise({self.seed})"

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, size=count, dtype=np.uint64)
