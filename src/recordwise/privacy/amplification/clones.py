"""The pair of distributions every numerical amplification bound comes down to, and how far apart its halves are.

One message falls on side A, on side B, or on neither. The message of whoever holds the first of two neighbouring
records: side A with probability `hit`, side B with `miss`; the other way round for the second record. Anybody else
is, with probability `cloned`, a clone, whose message falls on either side with probability `blanket` each. The
observer is shown the number of clones and the two counts,

    (A, B) = (Binomial(T, 1/2) + one hit, T - ...),    T ~ Binomial(clones, 2·blanket),

and the neighbours exchange the roles of A and B. Given the clones and A + B = t the likelihood ratio grows with A, so
the hockey-stick divergence is, for every t, a difference of binomial tails: a sum over the t that matter, done here
with outward rounding. The two directions are equal, because exchanging A and B exchanges the neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, OutOfRegime, probability, whole

MOST_SENDERS = 10**9  # up to here the rounding errors below have been measured against exact arithmetic
ROUNDING = 1e-9  # charged, relative to every probability summed; measured errors stay below 1e-11
STEEP = 1e6  # e^epsilon from which on one value of A more or less may be worth more than rounding
LEFT_OUT = 1e-4  # the part of delta that may be spent on numbers of clones that are not summed
TERMS = 25_000  # about so many terms are summed; numbers of clones are put into blocks to get there

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """A number known to lie between `lower` and `upper`."""

    lower: float
    upper: float


@dataclass(frozen=True, kw_only=True)
class Clones:
    """Where messages fall: see the module.

    Guarantees:
      - `delta` and `epsilon` bracket the exact divergence of the two laws, rounding and blocks included;
      - more senders never increase the divergence: a clone more can be added by the observer.
    """

    hit: float
    miss: float
    blanket: float
    cloned: float = 1.0

    def __post_init__(self) -> None:
        if not (0 <= self.miss <= self.hit and self.hit + self.miss <= 1 + 1e-12):
            raise InvalidInput(f"0 <= miss <= hit and hit + miss <= 1 must hold, got {self.miss!r}, {self.hit!r}")
        if not 0 < self.blanket <= 0.5:
            raise InvalidInput(f"blanket must lie in (0, 1/2], got {self.blanket!r}")
        if not 0 < self.cloned <= 1:
            raise InvalidInput(f"cloned must lie in (0, 1], got {self.cloned!r}")

    @property
    def neither(self) -> float:
        neither = 1 - self.hit - self.miss
        return neither if neither > 1e-12 else 0.0  # less is rounding

    def delta(self, epsilon: float, *, senders: int, left_out: float = 1e-15) -> Bounds:
        """The smallest delta at `epsilon`; cases of total probability `left_out` are bounded instead of summed."""
        return Bounds(
            self.delta_below(epsilon, senders=senders, left_out=left_out),
            self.delta_above(epsilon, senders=senders, left_out=left_out),
        )

    def delta_above(self, epsilon: float, *, senders: int, left_out: float) -> float:
        clones, weight, size = self._blocks(epsilon, senders, left_out)
        return min(1.0, self._divergence(epsilon, clones[::size], weight, left_out / 2).upper + left_out / 2)

    def delta_below(self, epsilon: float, *, senders: int, left_out: float) -> float:
        clones, weight, size = self._blocks(epsilon, senders, left_out)
        ends = np.minimum(np.arange(size - 1, len(clones) + size - 1, size), len(clones) - 1)
        return self._divergence(epsilon, clones[ends], weight, left_out / 2).lower * (1 - left_out / 2)

    def epsilon(self, delta: float, *, senders: int) -> Bounds:
        """The smallest epsilon at `delta`."""
        return Bounds(self.epsilon_below(delta, senders=senders), self.epsilon_above(delta, senders=senders))

    def epsilon_above(self, delta: float, *, senders: int) -> float:
        def certified(epsilon: float) -> float:
            return self.delta_above(epsilon, senders=senders, left_out=LEFT_OUT * delta)

        low, high, step = 0.0, self._near(delta, senders), 1e-6
        while (spent := certified(high)) > delta:
            # Surprise grows about linearly with epsilon: this lands close, and nearly always on the safe side.
            growth = surprise(delta) / max(surprise(spent), surprise(delta) / 2)
            low, high, step = high, high * (growth + step) + 1e-12, 4 * step
            if high >= min(self._most, 300):
                return self._most
        return _narrowed(high, low, lambda epsilon: certified(epsilon) <= delta)

    def epsilon_below(self, delta: float, *, senders: int) -> float:
        def certified(epsilon: float) -> float:
            return self.delta_below(epsilon, senders=senders, left_out=LEFT_OUT * delta)

        high, low, step = math.inf, self._near(delta, senders), 1e-6
        while (attained := certified(low)) < delta:
            high, low, step = low, low * (surprise(delta) / surprise(attained) - step) - 1e-12, 4 * step
            if low <= 0:
                return 0.0
        return _narrowed(low, high, lambda epsilon: certified(epsilon) >= delta)

    def about(self, epsilon: float, *, senders: int) -> float:
        """Delta for the mean number of clones: nearly right, quick, and no bound; a guide for those who search."""
        clones = np.floor(np.array([(senders - 1) * self.cloned]))
        both = self._divergence(epsilon, clones, np.ones(1), 1e-15)
        return (both.lower + both.upper) / 2

    @property
    def _most(self) -> float:
        return math.log(self.hit / self.miss) * (1 + 1e-12) if self.miss else math.inf  # no ratio exceeds hit / miss

    def _near(self, delta: float, senders: int) -> float:
        """An epsilon that is about right."""
        probability(delta=delta)
        whole(senders=senders)
        if self.about(0.0, senders=senders) <= delta:
            return 0.0
        low, high = (
            0.0,
            2 * (self.hit - self.miss) * surprise(delta) / math.sqrt(2 * self.blanket * self.cloned * senders),
        )
        while high < self._most and self.about(high, senders=senders) > delta:
            low, high = high, 2 * high
            if high > 300:
                return high
        if high >= self._most:
            return self._most
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return surprise(delta) - surprise(self.about(epsilon, senders=senders))

        return float(brentq(excess, low, high, xtol=1e-15, rtol=1e-7))

    def _blocks(self, epsilon: float, senders: int, left_out: float) -> tuple[Numbers, Numbers, int]:
        """Numbers of clones that matter, the weight of every block of them, and the size of a block.

        Fewer clones hide less and more hide more, so a block is bounded by its two ends.
        """
        whole(senders=senders)
        if senders > MOST_SENDERS:
            raise OutOfRegime(f"senders must be <= {MOST_SENDERS:,}, where rounding was certified, got {senders:,}")
        if not epsilon >= 0:
            raise InvalidInput(f"epsilon must be >= 0, got {epsilon!r}")
        probability(left_out=left_out)
        clones, weight = _binomial(senders - 1, self.cloned, left_out / 2)
        spread = 8 * math.log(4 / left_out) * clones[-1] * self.blanket * (1 - 2 * self.blanket)
        size = math.ceil(len(clones) / min(2000, max(8, TERMS / (math.sqrt(spread) + 1))))
        return clones, np.add.reduceat(weight, np.arange(0, len(weight), size)), size

    def _divergence(self, epsilon: float, clones: Numbers, weight: Numbers, left_out: float) -> Bounds:
        """The divergence when there are `clones[i]` clones with probability `weight[i]`, and the observer knows."""
        if self.hit == self.miss:
            return Bounds(0.0, 0.0)
        factor = math.exp(epsilon)
        total, around, with_side, without = self._cases(clones, weight, left_out)

        # P > factor·Q holds from this A on; being off by one through rounding costs what ROUNDING covers.
        off_sides = self.neither * self.blanket / (1 - 2 * self.blanket) if self.blanket < 0.5 else 0.0
        first = total * (factor * self.hit - self.miss) + (factor - 1) * off_sides * (around + 1 - total)
        first = np.ceil(np.minimum(first / ((self.hit - self.miss) * (1 + factor)), total + 1))
        # Where the ratio of P to Q jumps by more than rounding can cover, the neighbours of that A are tried as well:
        # the divergence is the largest over all events, so the best of several is the right one.
        hits, misses = self._event(first, total, with_side, without)
        for shift in (-1, 1) if factor > STEEP else ():
            other_p, other_q = self._event(first + shift, total, with_side, without)
            better = other_p - factor * other_q > hits - factor * misses
            hits, misses = np.where(better, other_p, hits), np.where(better, other_q, misses)
        p, q = math.fsum(hits), math.fsum(misses)
        rounding = ROUNDING * (p + factor * q)
        return Bounds(
            max(0.0, (1 - left_out) * (p - factor * q) - factor * left_out - rounding),
            max(0.0, p - factor * q) + left_out + rounding,
        )

    def _event(self, first: Numbers, total: Numbers, with_side: Numbers, without: Numbers) -> tuple[Numbers, Numbers]:
        """The probabilities, case by case and under either law, that A is at least `first`."""
        others = np.maximum(total - 1, 0)
        above, from_first = _tail(others, first - 1), _tail(others, first)
        with_one_more = np.where(total == 0, first <= 0, (above + from_first) / 2)  # the tail of Binomial(total, 1/2)
        p = with_side * (self.hit * above + self.miss * from_first) + without * with_one_more
        q = with_side * (self.miss * above + self.hit * from_first) + without * with_one_more
        return p, q

    def _cases(self, clones: Numbers, weight: Numbers, left_out: float) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Every A + B = t that matters, for every number of clones.

        Returns:
          t; the number of clones; the probability of T = t - 1; the probability of T = t and of neither side.
        """
        if self.blanket == 0.5:  # every clone falls on a side; where ours does not, nothing is learnt
            return clones + 1, clones, weight, np.zeros(len(clones))
        blocks = []
        for number, chance in zip(clones, weight, strict=True):
            sides, part = _binomial(int(number), 2 * self.blanket, left_out)
            total = np.append(sides, sides[-1] + 1)
            with_side, without = np.append(0.0, part), np.append(self.neither * part, 0.0)
            blocks.append((total, np.full(len(total), number), chance * with_side, chance * without))
        total, around, with_side, without = (np.concatenate(column) for column in zip(*blocks, strict=True))
        return total, around, with_side, without


def surprise(delta: float) -> float:
    """A delta on a scale on which it moves almost linearly with epsilon, for root finding."""
    return math.sqrt(-math.log(min(1.0, delta + 1e-300)))


def _narrowed(good: float, bad: float, holds: Callable[[float], bool]) -> float:
    """A value between the two, still good and, where they were far apart, closer to the bad one."""
    if math.isfinite(bad) and bad > 0:
        while abs(good - bad) > 1e-4 * good:
            middle = (good + bad) / 2
            good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _binomial(trials: int, success: float, left_out: float) -> tuple[Numbers, Numbers]:
    """Values of a binomial variable, all but `left_out` of its probability, and their weights, which add up to one.

    The weights exceed the probabilities by a factor of at most 1 / (1 - left_out). The width is Bernstein's.
    """
    if success == 1:
        return np.array([float(trials)]), np.ones(1)
    centre, variance = trials * success, trials * success * (1 - success)
    exponent = math.log(2 / left_out)
    width = exponent / 3 + math.sqrt(exponent**2 / 9 + 2 * variance * exponent)
    value = np.arange(max(0, math.floor(centre - width)), min(trials, math.ceil(centre + width)) + 1, dtype=np.float64)
    ratios = np.log((trials - value[:-1]) / value[1:]) + math.log(success / (1 - success))
    logarithm = np.append(0.0, np.cumsum(ratios))
    weight = np.exp(logarithm - logarithm.max())
    return value, weight / math.fsum(weight)


def _tail(trials: Numbers, first: Numbers) -> Numbers:
    """P(Binomial(trials, 1/2) >= first)."""
    from scipy.special import betainc

    inside = (first > 0) & (first <= trials)
    tail = np.where(first <= 0, 1.0, 0.0)
    tail[inside] = betainc(first[inside], trials[inside] - first[inside] + 1, 0.5)
    return tail
