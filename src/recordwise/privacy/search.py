"""The least value of a parameter that is good enough, where more of it is never worse: doubling, then halving."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from recordwise.errors import OutOfRegime

Number = TypeVar("Number", float, Fraction)


def least(
    enough: Callable[[Number], bool],
    low: Number,
    high: Number,
    *,
    within: Number,
    most: float = 1e300,
    beyond: str = "no value is enough",
) -> Number:
    """The least value above `low` that is enough, or up to `within` times as much more: it is always enough.

    Args:
      enough: Whether a value is; none above one that is enough may fail.
      high: Where to begin; doubled until it is enough.
      beyond: What `OutOfRegime` says where no value up to `most` is enough.
    """
    while not enough(high):
        low, high = high, 2 * high
        if high > most:
            raise OutOfRegime(beyond)
    while high - low > within * high and low < (middle := (low + high) / 2) < high:  # floats end next to zero
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def least_noise(affordable: Callable[[float], bool], *, epsilon: float, delta: float, within: float = 1e-3) -> float:
    """The least noise that keeps (epsilon, delta), or up to `within` times as much more."""
    beyond = f"no amount of noise reaches epsilon {epsilon:g} at delta {delta:g}"
    return least(affordable, 0.0, 1.0, within=within, most=2**30, beyond=beyond)
