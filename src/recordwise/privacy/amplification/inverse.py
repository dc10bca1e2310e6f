"""From a central target back to the mechanism: the largest epsilon0 whose shuffled messages meet (epsilon, delta)."""

from __future__ import annotations

import math
from collections.abc import Callable

from recordwise.errors import positive, probability, whole
from recordwise.privacy.amplification.clones import LEFT_OUT, Clones, surprise
from recordwise.privacy.amplification.closed_form import closed_form, regime
from recordwise.privacy.amplification.fmt_numerical import fmt_clones
from recordwise.privacy.amplification.mechanisms import any_mechanism
from recordwise.privacy.amplification.variation_ratio import LocalMechanism


def largest_epsilon0(epsilon: float, delta: float, *, senders: int, mechanism: LocalMechanism = any_mechanism) -> float:
    """The largest epsilon0 that the variation-ratio accountant vouches for, given `senders` honest senders.

    Guarantees:
      - shuffled messages of `mechanism` at the answer are (epsilon, delta)-DP for replace-one neighbours;
      - the answer is at least epsilon, where shuffling is not even needed.
    """
    return _by_clones(lambda epsilon0: mechanism(epsilon0).clones, epsilon, delta, senders)


def largest_epsilon0_fmt(epsilon: float, delta: float, *, senders: int) -> float:
    """The same by the numerical bound of Feldman, McMillan and Talwar."""
    return _by_clones(fmt_clones, epsilon, delta, senders)


def largest_epsilon0_closed_form(epsilon: float, delta: float, *, senders: int) -> float:
    """The same by the closed form, inside its regime."""
    _check(epsilon, delta, senders)
    most = regime(senders, delta)
    if most <= epsilon or closed_form(senders, most, delta) <= epsilon:
        return max(most, epsilon)
    root = _crossing(lambda epsilon0: closed_form(senders, epsilon0, delta) - epsilon, epsilon, most)
    return _verified(root, epsilon, lambda epsilon0: closed_form(senders, epsilon0, delta) <= epsilon)


def _by_clones(clones: Callable[[float], Clones], epsilon: float, delta: float, senders: int) -> float:
    _check(epsilon, delta, senders)

    def excess(epsilon0: float) -> float:
        return surprise(delta) - surprise(clones(epsilon0).about(epsilon, senders=senders))

    def enough(epsilon0: float) -> bool:
        return clones(epsilon0).delta_above(epsilon, senders=senders, left_out=LEFT_OUT * delta) <= delta

    most = 2 * epsilon + math.log(senders + 1)  # beyond it hardly a sender is a clone
    while excess(most) <= 0:
        most *= 2
    return _verified(_crossing(excess, epsilon, most), epsilon, enough)


def _check(epsilon: float, delta: float, senders: int) -> None:
    positive(epsilon=epsilon)
    probability(delta=delta)
    whole(senders=senders)


def _crossing(excess: Callable[[float], float], low: float, high: float) -> float:
    """About where `excess` becomes positive."""
    from scipy.optimize import brentq

    return float(brentq(excess, low, high, xtol=1e-12, rtol=1e-7)) if excess(low) < 0 else low


def _verified(guess: float, needs_no_proof: float, enough: Callable[[float], bool]) -> float:
    """The guess, or as little less as it takes to be certified."""
    step = 1e-6
    while guess > needs_no_proof:
        if enough(guess):
            return guess
        guess, step = guess * (1 - step), min(4 * step, 1e-3)
    return needs_no_proof
