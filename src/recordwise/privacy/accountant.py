"""What events cost together: exact sums for pure privacy, numerical privacy-loss distributions for the rest.

Composition never under-reports. Pure losses are added as fractions. Where delta > 0, each event is replaced by a
pair of distributions that dominates it (`losses`), the pairs' privacy losses are convolved (Koskela, Jälkö, Honkela
2020; by Google's dp-accounting), every rounding goes outward, and the better of this and the plain sum is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

from recordwise.errors import InvalidInput, OutOfRegime, positive
from recordwise.privacy.events import Event, Filtered
from recordwise.privacy.guarantee import exact
from recordwise.privacy.losses import Pair, TwoPoints, worst_case
from recordwise.privacy.search import least

STEPS = 2**13  # grid steps between zero and the total epsilon, at least: the grid costs about one part in 10^4 of it
ROUNDING = Fraction(1, 2**30)  # relative; covers the floating-point steps other than convolution
HOPELESS = 10**6  # zero-concentrated loss beyond which nothing is worth computing
CONVOLUTION = 1e-15  # absolute error of delta per convolved cell, plus a thousand; 30 times the largest one seen


def total_epsilon(events: Sequence[Event], delta: Fraction | float = 0) -> Fraction:
    """The smallest epsilon this accountant can vouch for, at `delta`, for all events together.

    Guarantees:
      - all events together, in any order and each chosen after seeing the others' outcomes, are (answer, delta)-DP;
      - at delta = 0 the answer is the exact sum, and events without a pure epsilon are refused;
      - at delta > 0 the answer is at most the sum, where the events' own deltas leave one;
      - the order of the events does not matter, and repeating an event is counting it;
      - one more event never makes the answer smaller, nor does a smaller scale of Laplace noise;
      - releases guarded by one record filter cost its cap once.
    """
    delta = exact(delta)
    if not 0 <= delta < 1:
        raise InvalidInput(f"delta must lie in [0, 1), got {float(delta)!r}")
    epsilon = _bound(events, delta)
    if epsilon is not None:
        return epsilon
    if delta == 0:
        raise OutOfRegime("delta must be > 0 to account for an event that is only approximately private, got 0")
    raise OutOfRegime(f"delta {float(delta):.3g} is too small for these events: no epsilon bounds them at it")


def calibrate(make: Callable[[Fraction], Sequence[Event]], epsilon: Fraction, delta: Fraction) -> Fraction:
    """The smallest noise parameter x for which `make(x)` costs at most (epsilon, delta), to one part in 2^12.

    `make` must get cheaper as x grows. The answer errs on the private side; it does so too where discrete Gaussian
    noise breaks that rule a little, at variances near one.
    """
    positive(epsilon=epsilon)

    def affordable(noise: Fraction) -> bool:
        cost = _bound(make(noise), delta)
        return cost is not None and cost <= epsilon

    beyond = f"no amount of noise reaches epsilon {float(epsilon):.4g} at delta {float(delta):.3g}"
    return least(affordable, Fraction(0), Fraction(1), within=Fraction(1, 2**12), most=2**60, beyond=beyond)


def _bound(events: Sequence[Event], delta: Fraction) -> Fraction | None:
    """As `total_epsilon`, or None where no epsilon bounds the events."""
    pairs: Counter[Pair] = Counter()
    intact = Fraction(1)  # the probability that no event gives everything away
    for event in _once(events):
        pair, copies, failure = worst_case(event)
        pairs[pair] += copies
        intact *= 1 - failure
    if 1 - intact > delta:
        return None
    # With probability 1 - intact all is lost; for the rest to be (epsilon, d)-DP is for the whole to be
    # (epsilon, 1 - intact + intact · d)-DP.
    d = (delta - (1 - intact)) / intact
    sums = [pair.loss * count if isinstance(pair, TwoPoints) else None for pair, count in pairs.items()]
    added = None if None in sums else sum((loss for loss in sums if loss is not None), Fraction(0))
    numerical = _numerical(frozenset(pairs.items()), d) if d > 0 and pairs else None
    return min((bound for bound in (added, numerical) if bound is not None), default=None)


def _once(events: Sequence[Event]) -> list[Event]:
    """The events, with all the releases that one record filter guards taken as one."""
    filters = {event.guard: event for event in events if isinstance(event, Filtered)}
    for event in events:
        if isinstance(event, Filtered) and event != filters[event.guard]:
            raise InvalidInput(f"record filter {event.guard!r} has one cap, got {event.epsilon} and another")
    return [event for event in events if not isinstance(event, Filtered)] + list(filters.values())


@lru_cache(maxsize=1024)
def _numerical(pairs: frozenset[tuple[Pair, int]], delta: Fraction) -> Fraction | None:
    """An epsilon at which the pairs' composition has hockey-stick divergence at most `delta`, near the smallest one."""
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution  # slow, and pure privacy needs none

    cells = sum(count for _, count in pairs)
    spare = float(delta) * (1 - float(ROUNDING)) - CONVOLUTION * (1000 + cells)
    if not spare > 0 or any(pair.rho > HOPELESS for pair, _ in pairs):
        return None
    step = _step(pairs, float(delta))
    together = None
    # In one fixed order, so that a sum asked for twice is the same number.
    for pair, count in sorted(pairs, key=lambda item: (type(item[0]).__name__, item)):
        lowest, masses = pair.on_grid(step)
        losses = {lowest + int(i): float(mass) for i, mass in enumerate(masses) if mass > 0}
        one = PrivacyLossDistribution.create_from_rounded_probability(losses, 0.0, step)
        many = one.self_compose(count)
        together = many if together is None else together.compose(many)
    assert together is not None
    epsilon = together.get_epsilon_for_delta(spare)
    return Fraction(epsilon) * (1 + ROUNDING) if math.isfinite(epsilon) else None


def _step(pairs: frozenset[tuple[Pair, int]], delta: float) -> float:
    """The grid for a composition: fine beside its total epsilon.

    Steps are powers of two and grow with the pairs' losses. So the coarser of two grids is part of the finer, what is
    split on it dominates, and neither less noise nor one more event can make a total smaller through its grid.
    """
    rho = float(sum(pair.rho * count for pair, count in pairs))
    size = rho + 2 * math.sqrt(rho * math.log(1 / delta))  # Bun and Steinke 2016, Proposition 1.3
    if all(isinstance(pair, TwoPoints) for pair, _ in pairs):
        size = min(size, float(sum(pair.loss * count for pair, count in pairs if isinstance(pair, TwoPoints))))
    return math.ldexp(1.0, math.floor(math.log2(size))) / STEPS
