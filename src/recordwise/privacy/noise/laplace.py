"""The discrete Laplace law: P(Z = z) proportional to exp(-|z| / scale)."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise.real import Real, exp
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.staircase import staircase
from recordwise.privacy.noise.uniform import Size, chunks

LARGEST = 1 << 40  # beyond it floats no longer single out the two candidates between which the bits decide
SMALLEST = Fraction(1, LARGEST)
TINY = sys.float_info.min  # added to upper bounds, so that one that underflows stays one


@dataclass(frozen=True)
class DiscreteLaplace:
    """Symmetric integer noise; one cell that changes by one costs epsilon = 1 / scale.

    Guarantees:
      - `sample` draws from exactly this law: no float decides an outcome.
    """

    heavy_tailed: ClassVar[bool] = True

    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", exact(self.scale))
        if not SMALLEST <= self.scale <= LARGEST:
            raise InvalidInput(f"scale must lie in [2^-40, 2^40], got {float(self.scale)!r}")

    @property
    def std(self) -> float:
        rate = float(1 / self.scale)
        return math.sqrt(2) * math.exp(-rate / 2) / -math.expm1(-rate)

    def pmf(self, values: ArrayLike) -> NDArray[np.float64]:
        return math.tanh(float(1 / self.scale) / 2) * np.exp(self.log_likelihood(values))

    def log_likelihood(self, noise: ArrayLike) -> NDArray[np.float64]:
        return np.abs(np.asarray(noise, dtype=np.float64)) * -float(1 / self.scale)

    def two_sided_tail(self, distance: float) -> float:
        """P(|Z| >= distance) = 2·a^k / (1 + a) with a = exp(-1/scale), k the distance rounded up; rounded up itself."""
        steps = math.ceil(distance)
        if steps <= 0:
            return 1.0
        rate = float(1 / self.scale)
        tail = 2 * math.exp(-rate * steps) / (1 + math.exp(-rate))
        return min(1.0, tail * (1 + 1e-12 * (1 + rate * steps)) + TINY)

    def sample(self, size: Size, noise: Noise) -> NDArray[np.int64]:
        """Exact draws. One word each: its last bit is the sign, the others begin a uniform real that settles |Z|."""
        result = np.empty(size, dtype=np.int64)
        flat = result.reshape(-1)
        scale = float(self.scale)
        offset = scale * (math.log(2) - math.log1p(math.exp(-1 / scale)))
        for part in chunks(size):
            words = noise.words(part.stop - part.start)
            magnitude = staircase(words >> np.uint64(1), 63, offset, scale, self._at_least, noise)
            flat[part] = np.where(words & np.uint64(1), -magnitude, magnitude)
        return result

    def _at_least(self, position: int, magnitude: int) -> Real:
        """P(|Z| >= magnitude) = 2·a^magnitude / (1 + a) with a = exp(-1/scale), for a magnitude of at least one."""
        return 2 * exp(-magnitude / self.scale) / (1 + exp(-1 / self.scale))
