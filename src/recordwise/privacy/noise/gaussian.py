"""The discrete Gaussian law: P(Z = z) proportional to exp(-z² / (2·sigma²)), on the integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise.laplace import TINY, DiscreteLaplace
from recordwise.privacy.noise.real import Real, exp
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import CHUNK, Size, below

LARGEST = 1 << 78  # keeps the proposal's scale within what discrete Laplace accepts
SMALLEST = Fraction(1, 1 << 40)
WIDE = 8.0  # from this sigma on, sums over integers equal integrals to far beyond double precision


@dataclass(frozen=True)
class DiscreteGaussian:
    """Symmetric integer noise; a tally whose cells change by one in m places pays (m / (2·sigma²))-zCDP.

    Guarantees:
      - `sample` draws from exactly this law: no float decides an outcome.
    """

    heavy_tailed: ClassVar[bool] = False

    sigma2: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma2", exact(self.sigma2))
        if not SMALLEST <= self.sigma2 <= LARGEST:
            raise InvalidInput(f"sigma2 must lie in [2^-40, 2^78], got {float(self.sigma2)!r}")

    @property
    def std(self) -> float:
        sigma = math.sqrt(self.sigma2)
        if sigma >= WIDE:
            return sigma
        weights = np.exp(self.log_likelihood(_CORE))
        return math.sqrt(float((_CORE**2 * weights).sum() / weights.sum()))

    def pmf(self, values: ArrayLike) -> NDArray[np.float64]:
        return np.exp(self.log_likelihood(values)) / self._total

    def log_likelihood(self, noise: ArrayLike) -> NDArray[np.float64]:
        return np.asarray(noise, dtype=np.float64) ** 2 / -float(2 * self.sigma2)

    def two_sided_tail(self, distance: float) -> float:
        """The first term and the integral over the rest bound the sum; 1 + 1e-9 covers the roundings."""
        steps = math.ceil(distance)
        if steps <= 0:
            return 1.0
        sigma = math.sqrt(self.sigma2)
        first = math.exp(-(steps**2) / float(2 * self.sigma2))
        rest = sigma * math.sqrt(math.pi / 2) * math.erfc(steps / (sigma * math.sqrt(2)))
        return min(1.0, 2 * (first + rest) / self._total * (1 + 1e-9) + TINY)

    @property
    def _total(self) -> float:
        """The sum of exp(-z² / (2·sigma²)) over all integers z."""
        sigma = math.sqrt(self.sigma2)
        if sigma >= WIDE:
            return sigma * math.sqrt(2 * math.pi)
        return float(np.exp(self.log_likelihood(_CORE)).sum())

    def sample(self, size: Size, noise: Noise) -> NDArray[np.int64]:
        """Exact draws, by rejection from discrete Laplace (Canonne, Kamath and Steinke 2020, Algorithm 3)."""
        result = np.empty(size, dtype=np.int64)
        flat = result.reshape(-1)
        filled = 0
        while filled < flat.size:
            proposals = DiscreteLaplace(Fraction(self._proposal_scale)).sample(
                min(CHUNK, (flat.size - filled) * 3 // 2 + 8), noise
            )
            kept = proposals[self._accept(np.abs(proposals), noise)][: flat.size - filled]
            flat[filled : filled + kept.size] = kept
            filled += kept.size
        return result

    @property
    def _proposal_scale(self) -> int:
        return math.isqrt(math.floor(self.sigma2)) + 1

    def _accept(self, magnitudes: NDArray[np.int64], noise: Noise) -> NDArray[np.bool_]:
        """Coins with probability exp(-(|y| - sigma²/t)² / (2·sigma²)), t the proposal's scale."""
        center = self.sigma2 / self._proposal_scale

        def threshold(position: int) -> Real:
            return exp(-((int(magnitudes[position]) - center) ** 2) / (2 * self.sigma2))

        # With g the exponent, rounding `center` (at most sigma) and the difference moves the probability by less
        # than exp(-g)·(g + sqrt(g))·2^-50: far inside the margin.
        distances = magnitudes - float(center)
        return below(np.exp(distances * distances / -float(2 * self.sigma2)), threshold, noise)


_CORE = np.arange(-100, 101)  # holds all but exp(-78) of a law narrower than WIDE
