"""What events cost together: exact sums for pure privacy, numerical privacy-loss distributions for the rest.

Composition never under-reports. Pure losses are added as fractions. Where delta > 0, each event is replaced by a
pair of distributions that dominates it, the pairs' privacy-loss distributions are convolved (Koskela et al. 2020;
Google's dp-accounting, rounding pessimistically), and the better of this and the plain sum is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache, singledispatch
from typing import TYPE_CHECKING

from recordwise.errors import InvalidInput, OutOfRegime, probability
from recordwise.privacy.events import Approximate, DiscreteGaussianTally, DiscreteLaplaceTally, Event, Pure
from recordwise.privacy.guarantee import exact

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

GRID = 1e-4  # discretisation of privacy losses; rounding is outward, so a coarser grid only costs tightness


@singledispatch
def pure_epsilon(event: object) -> Fraction | None:
    """The event's epsilon at delta = 0, or None where it has none."""
    raise InvalidInput(f"no accounting rule for {type(event).__name__}")


@pure_epsilon.register
def _(event: Pure) -> Fraction | None:
    return event.epsilon


@pure_epsilon.register
def _(event: DiscreteLaplaceTally) -> Fraction | None:
    return event.cells_changed / event.scale


@pure_epsilon.register
def _(event: DiscreteGaussianTally) -> Fraction | None:
    return None


@pure_epsilon.register
def _(event: Approximate) -> Fraction | None:
    return None


@singledispatch
def loss_distribution(event: object) -> PrivacyLossDistribution:
    """A privacy-loss distribution that dominates the event's."""
    raise InvalidInput(f"no accounting rule for {type(event).__name__}")


@loss_distribution.register
def _(event: Pure) -> PrivacyLossDistribution:
    return _library().from_privacy_parameters(_parameters(event.epsilon, Fraction(0)), GRID)


@loss_distribution.register
def _(event: Approximate) -> PrivacyLossDistribution:
    return _library().from_privacy_parameters(_parameters(event.epsilon, event.delta), GRID)


@loss_distribution.register
def _(event: DiscreteLaplaceTally) -> PrivacyLossDistribution:
    # Cells carry independent noise and each changes by at most one, so the worst pair is a product of unit shifts.
    cell = _library().from_discrete_laplace_mechanism(
        _above(1 / event.scale), sensitivity=1, value_discretization_interval=GRID
    )
    return cell.self_compose(event.cells_changed)


@loss_distribution.register
def _(event: DiscreteGaussianTally) -> PrivacyLossDistribution:
    cell = _library().from_discrete_gaussian_mechanism(
        math.nextafter(math.sqrt(event.sigma2), 0), sensitivity=1, value_discretization_interval=GRID
    )
    return cell.self_compose(event.cells_changed)


def total_epsilon(events: Sequence[Event], delta: Fraction | float = 0) -> Fraction:
    """The smallest epsilon this accountant can vouch for, at `delta`, for all events together.

    Guarantees:
      - at delta = 0 the answer is the exact sum, and events without a pure epsilon are refused;
      - at delta > 0 the answer is at most that sum where it exists;
      - the order of the events does not matter, and repeating an event is counting it.
    """
    if not events:
        return Fraction(0)
    delta = exact(delta)
    pure = [pure_epsilon(event) for event in events]
    added = None if None in pure else sum((e for e in pure if e is not None), Fraction(0))
    if delta == 0:
        if added is None:
            raise OutOfRegime("delta must be > 0 to account for an event that is only approximately private, got 0")
        return added
    probability(delta=delta)
    # The same multiset is always convolved in the same order, so that a sum asked for twice is the same number.
    (first, repeats), *others = sorted(Counter(events).items(), key=lambda item: repr(item[0]))
    together = _distribution(first).self_compose(repeats)
    for event, count in others:
        together = together.compose(_distribution(event).self_compose(count))
    numerical = together.get_epsilon_for_delta(float(delta))
    if math.isinf(numerical):
        if added is None:
            raise OutOfRegime(f"delta {float(delta):.3g} is smaller than the events' own delta: no epsilon bounds them")
        return added
    upper = Fraction(numerical)
    return upper if added is None else min(upper, added)


def calibrate(make: Callable[[Fraction], Sequence[Event]], epsilon: Fraction, delta: Fraction) -> Fraction:
    """The smallest noise parameter x for which `make(x)` costs at most (epsilon, delta), to one part in 2^12.

    `make` must get cheaper as x grows. The answer errs on the private side.
    """
    low, high = Fraction(0), Fraction(1)
    while total_epsilon(make(high), delta) > epsilon:
        low, high = high, 2 * high
        if high > 2**60:
            raise OutOfRegime(f"no amount of noise reaches epsilon {float(epsilon):.4g} at delta {float(delta):.3g}")
    if low == 0:
        while total_epsilon(make(high / 2), delta) <= epsilon:
            high /= 2
        low = high / 2
    while high - low > high / 2**12:
        middle = (low + high) / 2
        low, high = (low, middle) if total_epsilon(make(middle), delta) <= epsilon else (middle, high)
    return high


@cache
def _distribution(event: Event) -> PrivacyLossDistribution:
    return loss_distribution(event)


def _above(value: Fraction) -> float:
    return math.nextafter(float(value), math.inf)  # a loss is rounded up on its way into floating point


def _parameters(epsilon: Fraction, delta: Fraction):  # type: ignore[no-untyped-def]
    from dp_accounting.pld import common

    return common.DifferentialPrivacyParameters(_above(epsilon), _above(delta) if delta else 0.0)


def _library():  # type: ignore[no-untyped-def]
    from dp_accounting.pld import privacy_loss_distribution  # slow to import, and pure privacy never needs it

    return privacy_loss_distribution
