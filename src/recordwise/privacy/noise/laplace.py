"""The discrete Laplace law: P(Z = z) proportional to exp(-|z| / scale)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise.real import Real, exp, less
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import SMALL_WORD, Size, Uniform, chunks

LARGEST = 1 << 40  # beyond it floats no longer single out the two candidates between which the bits decide
SMALLEST = Fraction(1, LARGEST)


@dataclass(frozen=True)
class DiscreteLaplace:
    """Symmetric integer noise; one cell that changes by one costs epsilon = 1 / scale.

    Guarantees:
      - `sample` draws from exactly this law: no float decides an outcome.
    """

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
        return min(1.0, 2 * math.exp(-rate * steps) / (1 + math.exp(-rate)) * (1 + 1e-12 * (1 + rate * steps)))

    def sample(self, size: Size, noise: Noise) -> NDArray[np.int64]:
        """Exact draws. One word each: its last bit is the sign, the others begin a uniform real U.

        |Z| >= k means U < 2·a^k / (1 + a), that is k < x for x = scale·(log(2 / (1 + a)) - log U): |Z| is x rounded
        down. Where the float evaluation of x comes too close to a whole number, U itself is compared with the bound.
        """
        result = np.empty(size, dtype=np.int64)
        flat = result.reshape(-1)
        scale = float(self.scale)
        offset = scale * (math.log(2) - math.log1p(math.exp(-1 / scale)))
        for part in chunks(size):
            words = noise.words(part.stop - part.start)
            firsts = words >> np.uint64(1)
            x = offset - scale * np.log((firsts + 0.5) * 2.0**-63)
            magnitude = x.astype(np.int64)
            # The logarithm errs by 2^-44 where the first bits are not small, everything else by a few 2^-52 of x.
            close = np.abs(x - np.rint(x)) <= scale * 2.0**-42 + x * 2.0**-48
            for i in np.flatnonzero(close | (firsts < SMALL_WORD)):
                magnitude[i] = self._exact_magnitude(int(magnitude[i]), Uniform(int(firsts[i]), 63, noise))
            flat[part] = np.where(words & np.uint64(1), -magnitude, magnitude)
        return result

    def _exact_magnitude(self, guess: int, uniform: Uniform) -> int:
        """The |Z| that `uniform` stands for, starting from a float's guess, which may be any number."""
        while less(uniform, self._at_least(guess + 1)):
            guess += 1
        while guess > 0 and not less(uniform, self._at_least(guess)):
            guess -= 1
        return guess

    def _at_least(self, magnitude: int) -> Real:
        """P(|Z| >= magnitude), for a magnitude of at least one."""
        return 2 * exp(-magnitude / self.scale) / (1 + exp(-1 / self.scale))
