"""How many cancelling messages hide a count: the flood of the multi-message shuffle protocol, calibrated numerically.

Per cell the server sees x + Z1 + Z3 positive and Z2 + Z3 negative messages, where over all senders Z1 and Z2 are
geometric, NB(1, q) with q = e^-noise_epsilon, and Z3, the flood, is NB(shape, e^(-1/scale)) (Ghazi et al. 2020, 2021).
The difference of the two numbers is x plus discrete Laplace noise. What else does the pair tell about x?

Write h for the flood's law and F(b) = sum of q^(2(b-z))·h(z) over z <= b. Then for x = 0

    P(a positive, b negative) = (1-q)²·q^|a-b|·F(min(a, b)),

because only Z3 <= min(a, b) is possible. Compared with x = 1 (a shifted by one), the ratio is

    a > b:   e^(-noise_epsilon), exactly;        a <= b:   e^(noise_epsilon)·F(a)/F(a-1).

So with f = e^flood_epsilon the divergence at noise_epsilon + flood_epsilon is, summed over b,

    delta = (1-q)·sum over a of (F(a) - f·F(a-1))+,

and the other direction costs nothing: F(a) >= q²·F(a-1), so no ratio there exceeds e^(noise_epsilon). Both laws in
F are log-concave (shape >= 1), so the terms vanish from the first one on that is not positive: the sum is finite, and
it is done here with outward rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from recordwise.errors import InvalidInput, OutOfRegime, positive, probability
from recordwise.privacy.noise import NegativeBinomial
from recordwise.privacy.search import least

ROUNDING = 1e-8  # charged, relative to every F; thousands of logarithms added up err by less than 1e-10
MOST_STEPS = 1 << 24  # counts tabulated at most


@dataclass(frozen=True)
class Flood:
    """Z3, summed over all senders: NB(shape, e^(-1/scale)), sent once with either sign.

    Attributes:
      shape: At least one, so that the law is log-concave.
    """

    shape: Fraction
    scale: Fraction

    def __post_init__(self) -> None:
        law = NegativeBinomial(self.shape, self.scale)
        object.__setattr__(self, "shape", law.shape)
        object.__setattr__(self, "scale", law.scale)
        if not self.shape >= 1:
            raise InvalidInput(f"shape must be >= 1, got {float(self.shape)!r}")

    @property
    def mean(self) -> float:
        """Expected messages of one sign, per cell, from all senders together."""
        return NegativeBinomial(self.shape, self.scale).mean


def flood_delta(flood: Flood, *, noise_epsilon: Fraction | float, flood_epsilon: Fraction | float) -> float:
    """A certified delta of one cell's two counts at noise_epsilon + flood_epsilon, when x changes by one.

    Guarantees:
      - it is never below the exact divergence of the two-dimensional view, in either direction.
    """
    return _delta(float(flood.shape), float(flood.scale), float(noise_epsilon), float(flood_epsilon))


@lru_cache(maxsize=256)
def calibrate_flood(noise_epsilon: Fraction, flood_epsilon: Fraction, delta: Fraction) -> Flood:
    """The flood with the fewest messages whose certified delta is at most `delta`."""
    positive(noise_epsilon=noise_epsilon, flood_epsilon=flood_epsilon)
    probability(delta=delta)
    from scipy.optimize import minimize_scalar

    target, noise_loss, flood_loss = float(delta) * (1 - 1e-6), float(noise_epsilon), float(flood_epsilon)

    def messages(log_scale: float) -> float:
        scale = math.exp(log_scale)
        return _least_shape(scale, noise_loss, flood_loss, target) / math.expm1(1 / scale)

    # The best success probability is about e^(-0.6·flood_epsilon); the number of messages is flat around it.
    centre = -math.log(0.6 * flood_loss)
    best = minimize_scalar(messages, bounds=(centre - 2, centre + 2), method="bounded", options={"xatol": 0.02})
    scale = Fraction(math.exp(best.x)).limit_denominator(100)
    shape = Fraction(math.ceil(1000 * _least_shape(float(scale), noise_loss, flood_loss, target)), 1000)
    flood = Flood(shape, scale)
    while flood_delta(flood, noise_epsilon=noise_epsilon, flood_epsilon=flood_epsilon) > delta:
        flood = Flood(flood.shape * Fraction(1001, 1000), scale)
    return flood


def _least_shape(scale: float, noise_epsilon: float, flood_epsilon: float, delta: float) -> float:
    """The smallest shape with that delta, to four digits, from above; delta falls as the shape grows."""

    def enough(shape: float) -> bool:
        return _delta(shape, scale, noise_epsilon, flood_epsilon) <= delta

    beyond = f"no flood reaches delta {delta:.3g} at flood_epsilon {flood_epsilon:.4g}"
    return 1.0 if enough(1.0) else least(enough, 1.0, 2.0, within=1e-4, most=1e6, beyond=beyond)


def _delta(shape: float, scale: float, noise_epsilon: float, flood_epsilon: float) -> float:
    rise = math.exp(-1 / scale) * (shape - 1) / (math.exp(flood_epsilon) - math.exp(-1 / scale))
    last = math.ceil(rise + 10 / noise_epsilon) + 2  # about where F stops growing faster than e^flood_epsilon
    while True:
        if last > MOST_STEPS:
            raise OutOfRegime(
                f"flood_epsilon {flood_epsilon:.3g} needs counts beyond {MOST_STEPS:,}, which are not summed"
            )
        step = np.arange(1, last + 1, dtype=np.float64)
        at_zero = shape * math.log(-math.expm1(-1 / scale))
        log_h = at_zero + np.append(0.0, np.cumsum(np.log1p((shape - 1) / step) - 1 / scale))
        tilt = 2 * noise_epsilon * np.arange(last + 1)
        log_f = np.logaddexp.accumulate(log_h + tilt) - tilt
        here = np.exp(log_f) * (1 + ROUNDING)
        before = np.append(0.0, np.exp(log_f[:-1] + flood_epsilon) * (1 - ROUNDING))
        if log_f[-1] - log_f[-2] < flood_epsilon - 4 * ROUNDING:  # and so for every later step
            return -math.expm1(-noise_epsilon) * math.fsum(np.maximum(here - before, 0)) * (1 + ROUNDING) + 1e-300
        last *= 2
