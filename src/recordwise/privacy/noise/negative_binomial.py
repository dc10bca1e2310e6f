"""The negative binomial law, and the shares of discrete Laplace noise that it makes.

NB(shape, a) with a = exp(-1/scale) has P(K = k) = C(k + shape - 1, k)·(1 - a)^shape·a^k. Shapes add up, and
NB(1, a) - NB(1, a) is discrete Laplace: m parties that each add NB(1/m, a) - NB(1/m, a), a Pólya share, together add
discrete Laplace noise of that scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import InvalidInput, positive, shown
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise.laplace import LARGEST, SMALLEST, TINY
from recordwise.privacy.noise.poisson import poisson
from recordwise.privacy.noise.real import Real, exp, log
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.staircase import staircase
from recordwise.privacy.noise.uniform import CHUNK, Size, Uniform, chunks


@dataclass(frozen=True)
class NegativeBinomial:
    """Non-negative integer noise whose shapes add up.

    Guarantees:
      - `sample` draws from exactly this law: no float decides an outcome.
    """

    heavy_tailed: ClassVar[bool] = True

    shape: Fraction
    scale: Fraction

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", exact(self.shape))
        object.__setattr__(self, "scale", exact(self.scale))
        positive(shape=self.shape)
        if not self.shape <= LARGEST:  # more parties than there are: its moments would leave what floats hold
            raise InvalidInput(f"shape must be at most 2^40, got {shown(self.shape)}")
        if not SMALLEST <= self.scale <= LARGEST:
            raise InvalidInput(f"scale must lie in [2^-40, 2^40], got {float(self.scale)!r}")

    @property
    def mean(self) -> float:
        rate = float(1 / self.scale)
        return float(self.shape) * math.exp(-rate) / -math.expm1(-rate)

    @property
    def std(self) -> float:
        rate = float(1 / self.scale)
        return math.sqrt(self.shape) * math.exp(-rate / 2) / -math.expm1(-rate)

    def pmf(self, values: ArrayLike) -> NDArray[np.float64]:
        nothing = -float(self.shape) * _strength(self.scale)  # log P(K = 0)
        return np.exp(self.log_likelihood(values) + nothing)

    def log_likelihood(self, noise: ArrayLike) -> NDArray[np.float64]:
        from scipy.special import gammaln

        k = np.asarray(noise, dtype=np.float64)
        some, shape = np.maximum(k, 0), float(self.shape)
        weight = gammaln(some + shape) - gammaln(some + 1) - gammaln(shape) - some / float(self.scale)
        return np.where(k < 0, -np.inf, weight)

    def two_sided_tail(self, distance: float) -> float:
        """P(K >= distance) by Chernoff's bound, E[z^K]·z^(-distance), at the z that makes it least."""
        steps = math.ceil(distance)
        if steps <= 0:
            return 1.0
        shape, rate = float(self.shape), float(1 / self.scale)
        tilt = -math.log1p(shape / steps)  # log(a·z); at z = 1 or less the bound says nothing
        if tilt <= -rate:
            return 1.0
        moment = -shape * (_strength(self.scale) + math.log(shape / (steps + shape)))
        return min(1.0, math.exp(moment - steps * (tilt + rate)) * (1 + 1e-9) + TINY)

    def sample(self, size: Size, noise: Noise) -> NDArray[np.int64]:
        """Exact draws: a geometric law per whole unit of shape, a Poisson number of log-series draws for the rest."""
        result = np.zeros(size, dtype=np.int64)
        flat = result.reshape(-1)
        whole, rest = divmod(self.shape, 1)
        for part in chunks(size):
            count = part.stop - part.start
            most = max(1, CHUNK // count)  # a large shape is drawn many units at a time
            for done in range(0, whole, most):
                units = min(most, whole - done)
                flat[part] += _geometric(self.scale, units * count, noise).reshape(units, count).sum(axis=0)
            if rest:
                numbers = poisson(rest * _exact_strength(self.scale), count, noise)
                owners = np.repeat(np.arange(part.start, part.stop), numbers)
                np.add.at(flat, owners, _log_series(self.scale, owners.size, noise))
        return result


def _strength(scale: Fraction) -> float:
    """-log(1 - a), without cancellation at either end of the scales."""
    rate = float(1 / scale)
    return -math.log(-math.expm1(-rate)) if rate < math.log(2) else -math.log1p(-math.exp(-rate))


def _exact_strength(scale: Fraction) -> Real:
    return -log(1 - exp(-1 / scale))


def _geometric(scale: Fraction, count: int, noise: Noise) -> NDArray[np.int64]:
    """K with P(K >= k) = a^k."""
    return staircase(noise.words(count), 64, 0.0, float(scale), lambda _, k: exp(-k / scale), noise)


def _log_series(scale: Fraction, count: int, noise: Noise) -> NDArray[np.int64]:
    """K >= 1 with P(K = k) = a^k / (k·strength), as a mixture of geometric laws (Kemp 1981).

    Given a uniform V, P(K - 1 >= k) = q^k with q = 1 - (1 - a)^V.
    """
    words = noise.words(count)
    strength = _exact_strength(scale)
    reals: dict[int, Uniform] = {}

    def at_least(position: int, k: int) -> Real:
        if position not in reals:
            reals[position] = Uniform(int(words[position]), 64, noise)
        return exp(k * log(1 - exp(-(reals[position] * strength))))

    y = (words + 0.5) * 2.0**-64 * _strength(scale)
    with np.errstate(divide="ignore"):  # a strength that underflows to zero ends in the exact comparison
        log_q = np.where(y < math.log(2), np.log(-np.expm1(-y)), np.log1p(-np.exp(-y)))
    # A relative error of V moves log q by a relative 2·max(1, y) times as much, and y < 29: below 2^-44 where V is
    # known to 2^-51.
    fixed = words >= np.uint64(1 << 50)
    return 1 + staircase(noise.words(count), 64, 0.0, -1 / log_q, at_least, noise, trusted=fixed)
