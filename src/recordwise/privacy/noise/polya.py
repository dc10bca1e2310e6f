"""The law of Pólya shares, one or many: NB(shape, a) - NB(shape, a) with a = exp(-1/scale).

Shape 1/m is one of m parties' shares; shape j/m the sum of j of them; shape 1 is discrete Laplace.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.noise.laplace import TINY
from recordwise.privacy.noise.negative_binomial import NegativeBinomial
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import Size

MOST_STEPS = 1 << 22  # values up to which probabilities are tabulated


@dataclass(frozen=True)
class PolyaDifference:
    """Symmetric integer noise whose shapes add up to 1, where it is discrete Laplace of this scale.

    Guarantees:
      - `sample` draws from exactly this law: no float decides an outcome;
      - the sum of independent draws has the sum of their shapes, at one scale.
    """

    heavy_tailed: ClassVar[bool] = True

    shape: Fraction
    scale: Fraction

    def __post_init__(self) -> None:
        one_side = NegativeBinomial(self.shape, self.scale)
        object.__setattr__(self, "shape", one_side.shape)
        object.__setattr__(self, "scale", one_side.scale)

    @property
    def std(self) -> float:
        return math.sqrt(2) * self._one_side.std

    def pmf(self, values: ArrayLike) -> NDArray[np.float64]:
        return np.exp(self._log_pmf(np.asarray(values, dtype=np.float64)))

    def log_likelihood(self, noise: ArrayLike) -> NDArray[np.float64]:
        return self._log_pmf(np.asarray(noise, dtype=np.float64))

    def two_sided_tail(self, distance: float) -> float:
        """The tabulated probabilities, and Chernoff's bound for what lies beyond the table."""
        steps = math.ceil(distance)
        if steps <= 0:
            return 1.0
        last = _last_step(self.shape, self.scale)
        if steps > last or last > MOST_STEPS:
            return min(1.0, self._chernoff(steps))
        inside = 2 * float(np.exp(_log_table(self.shape, self.scale)[steps:]).sum())
        return min(1.0, inside * (1 + 1e-9) + self._chernoff(last + 1))

    def _chernoff(self, steps: int) -> float:
        """2·E[exp(t·Z)]·exp(-t·steps) at the best t of a grid; E[exp(t·Z)] = ((1-a)²/((1-a·e^t)(1-a·e^-t)))^shape."""
        rate = float(1 / self.scale)
        tilt = rate * np.linspace(0.0, 1.0, 1001)[1:-1]
        moment = 2 * np.log(-np.expm1(-rate)) - np.log(-np.expm1(tilt - rate)) - np.log(-np.expm1(-tilt - rate))
        best = min(0.0, float((float(self.shape) * moment - tilt * steps).min()))  # at t = 0 it is 0
        return 2 * math.exp(best) * (1 + 1e-9) + TINY

    def sample(self, size: Size, noise: Noise) -> NDArray[np.int64]:
        return self._one_side.sample(size, noise) - self._one_side.sample(size, noise)

    @property
    def _one_side(self) -> NegativeBinomial:
        return NegativeBinomial(self.shape, self.scale)

    def _log_pmf(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Between and beyond the tabulated integers, straight lines."""
        table = _log_table(self.shape, self.scale)
        distance = np.abs(values)
        beyond = np.maximum(distance - (len(table) - 1), 0)  # there each further step costs about 1/scale
        log_pmf: NDArray[np.float64] = np.interp(distance, np.arange(len(table)), table) - beyond / float(self.scale)
        return log_pmf


def _last_step(shape: Fraction, scale: Fraction) -> int:
    """Beyond this value hardly anything is left of the law."""
    return 64 + math.ceil(64 * float(scale) * max(1.0, math.sqrt(shape)) + 2 * float(shape))


@lru_cache(maxsize=8)
def _log_table(shape: Fraction, scale: Fraction) -> NDArray[np.float64]:
    """log P(Z = k) for k = 0, 1, ...

    The generating function c·(1 - a·z)^-r·(1 - a/z)^-r gives (1 + a²)·k·p_k = a·(k - 1 + r)·p_{k-1} +
    a·(k + 1 - r)·p_{k+1}, which is stable downwards (Miller's algorithm); the sum, one, sets the constant.
    """
    a, r = math.exp(-1 / float(scale)), float(shape)
    last = _last_step(shape, scale)
    if last > MOST_STEPS:
        raise InvalidInput(f"scale must be at most about {MOST_STEPS // 64} to tabulate its law, got {float(scale)!r}")
    # In ratios q_k = p_k / p_{k-1}, so that nothing under- or overflows: q_k = a(k-1+r) / ((1+a²)k - a(k+1-r)·q_{k+1}).
    log_ratio = np.empty(last)
    q = a
    for k in range(last, 0, -1):
        q = a * (k - 1 + r) / ((1 + a * a) * k - a * (k + 1 - r) * q)
        log_ratio[k - 1] = math.log(q) if q > 0 else -math.inf
    table = np.concatenate([[0.0], np.cumsum(log_ratio)])
    both_sides = np.exp(table)
    return table - math.log(2 * both_sides.sum() - both_sides[0])
