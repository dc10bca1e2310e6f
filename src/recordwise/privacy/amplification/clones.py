"""The pair of distributions every numerical amplification bound comes down to, and how far apart its halves are.

One message falls on side A, on side B, or on neither. Somebody's message: side A with probability `hit` and side B
with `miss` if they hold the first of two neighbouring records, the other way round if they hold the second. Anybody
else's: each side with probability `blanket`. A shuffled batch then shows two counts,

    (A, B) = (Binomial(C, 1/2) + one hit, C - ...),    C ~ Binomial(senders - 1, 2·blanket),

and the neighbours exchange the roles of A and B. Given A + B = t the likelihood ratio grows with A, so the
hockey-stick divergence is, for every t, a difference of binomial tails: a sum over the t that matter, done here with
outward rounding. The two directions are equal, because exchanging A and B exchanges the neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, OutOfRegime, positive, probability, whole

MOST_SENDERS = 10**9  # up to here the rounding errors below have been measured against exact arithmetic
ROUNDING = 1e-9  # charged, relative to every probability summed; measured errors stay below 1e-11
LEFT_OUT = 1e-4  # the part of delta that may be spent on values of C that are not summed


@dataclass(frozen=True)
class Bounds:
    """A number known to lie between `lower` and `upper`."""

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Clones:
    """Where one message falls: see the module.

    Guarantees:
      - `delta` and `epsilon` bracket the exact divergence of the two count distributions, rounding included;
      - scaling hit, miss and blanket down together never increases the divergence: each message is then passed on
        with a fixed probability, which is post-processing.
    """

    hit: float
    miss: float
    blanket: float

    def __post_init__(self) -> None:
        if not (0 <= self.miss <= self.hit and self.hit + self.miss <= 1 + 1e-12):
            raise InvalidInput(f"0 <= miss <= hit and hit + miss <= 1 must hold, got {self.miss!r}, {self.hit!r}")
        if not 0 < self.blanket <= 0.5:
            raise InvalidInput(f"blanket must lie in (0, 1/2], got {self.blanket!r}")

    def delta(self, epsilon: float, *, senders: int, left_out: float = 1e-15) -> Bounds:
        """The smallest delta at `epsilon`; values of C of probability `left_out` or less are bounded, not summed."""
        _check(senders)
        if not epsilon >= 0:
            raise InvalidInput(f"epsilon must be >= 0, got {epsilon!r}")
        probability(left_out=left_out)
        if self.hit == self.miss:
            return Bounds(0.0, 0.0)
        factor = math.exp(epsilon)
        count, weight = _binomial(senders - 1, 2 * self.blanket, left_out)
        total = np.append(count, count[-1] + 1)  # A + B: C itself, or one more
        with_side, without = np.append(0.0, weight), np.append(weight, 0.0)
        neither = max(0.0, 1 - self.hit - self.miss)

        # P > factor·Q holds from this A on; being off by one through rounding costs what ROUNDING covers.
        at_no_side = neither * (senders - total) * self.blanket / (1 - 2 * self.blanket) if neither else 0 * total
        first = (total * (factor * self.hit - self.miss) + (factor - 1) * at_no_side) / (
            (self.hit - self.miss) * (1 + factor)
        )
        first = np.ceil(np.minimum(first, total + 1))
        others = np.maximum(total - 1, 0)
        above, from_first = _tail(others, first - 1), _tail(others, first)
        with_one_more = np.where(total == 0, first <= 0, (above + from_first) / 2)  # the tail of Binomial(total, 1/2)

        p = with_side * (self.hit * above + self.miss * from_first) + without * neither * with_one_more
        q = with_side * (self.miss * above + self.hit * from_first) + without * neither * with_one_more
        divergence = math.fsum(p) - factor * math.fsum(q)
        rounding = ROUNDING * (math.fsum(p) + factor * math.fsum(q))
        return Bounds(
            max(0.0, (1 - left_out) * divergence - factor * left_out - rounding),
            min(1.0, max(0.0, divergence) + left_out + rounding),
        )

    def epsilon(self, delta: float, *, senders: int) -> Bounds:
        """The smallest epsilon at `delta`."""
        probability(delta=delta)
        _check(senders)
        left_out = LEFT_OUT * delta
        if self.delta(0, senders=senders, left_out=left_out).upper <= delta:
            return Bounds(0.0, 0.0)
        most = math.log(self.hit / self.miss) * (1 + 1e-12) if self.miss else math.inf  # no ratio exceeds hit / miss

        def excess(epsilon: float) -> float:
            bounds = self.delta(epsilon, senders=senders, left_out=left_out)
            return surprise(delta) - surprise((bounds.lower + bounds.upper) / 2)

        # About where it is: C is nearly constant, and the counts nearly Gaussian.
        guess = 4 * (self.hit - self.miss) * surprise(delta) / math.sqrt(2 * self.blanket * senders)
        low, high = 0.0, min(most, guess)
        while high < most and excess(high) > 0:
            low, high = high, min(2 * high, most)
        if excess(high) >= 0:
            return Bounds(0.0, most)
        from scipy.optimize import brentq

        root = brentq(excess, low, high, xtol=1e-15, rtol=1e-8)
        # The root is only a guess; what is returned has been checked on its own side.
        lower, upper, step = root, root, 1e-8
        while self.delta(upper, senders=senders, left_out=left_out).upper > delta and upper < most:
            upper, step = min(root * (1 + step), most), 8 * step
        step = 1e-8
        while lower > 0 and self.delta(lower, senders=senders, left_out=left_out).lower < delta:
            lower, step = max(0.0, root * (1 - step)), 8 * step
        return Bounds(lower, upper)


def surprise(delta: float) -> float:
    """A delta on a scale on which it moves almost linearly with epsilon, for root finding."""
    return math.sqrt(-math.log(min(1.0, delta + 1e-300)))


def _check(senders: int) -> None:
    whole(senders=senders)
    if senders > MOST_SENDERS:
        raise OutOfRegime(f"senders must be <= {MOST_SENDERS:,}, where rounding was certified, got {senders:,}")


def _binomial(trials: int, success: float, left_out: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of a binomial variable, all but `left_out` of its probability, and their weights, which add up to one.

    The weights exceed the probabilities by a factor of at most 1 / (1 - left_out). The width is Bernstein's.
    """
    positive(success=success)
    centre, variance = trials * success, trials * success * (1 - success)
    exponent = math.log(2 / left_out)
    width = exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * variance * exponent)
    value = np.arange(max(0, math.floor(centre - width)), min(trials, math.ceil(centre + width)) + 1, dtype=np.float64)
    if success >= 1:
        return np.array([float(trials)]), np.ones(1)
    logarithm = np.append(0.0, np.cumsum(np.log((trials - value[:-1]) / value[1:]) + math.log(success / (1 - success))))
    weight = np.exp(logarithm - logarithm.max())
    return value, weight / math.fsum(weight)


def _tail(trials: NDArray[np.float64], first: NDArray[np.float64]) -> NDArray[np.float64]:
    """P(Binomial(trials, 1/2) >= first)."""
    from scipy.special import betainc

    inside = (first > 0) & (first <= trials)
    tail = np.where(first <= 0, 1.0, 0.0)
    tail[inside] = betainc(first[inside], trials[inside] - first[inside] + 1, 0.5)
    return tail
