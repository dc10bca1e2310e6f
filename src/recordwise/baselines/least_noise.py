"""The least noise that a budget buys, found by halving."""

from __future__ import annotations

from collections.abc import Callable

from recordwise.errors import OutOfRegime

MOST = 2**30  # more noise than any release could bear


def least_noise(affordable: Callable[[float], bool], *, epsilon: float, delta: float, within: float = 1e-3) -> float:
    """The least noise that is affordable, or up to `within` times as much more.

    Args:
      affordable: Whether so much noise keeps (epsilon, delta). More noise must never cost more.
    """
    low, high = 0.0, 1.0
    while not affordable(high):
        low, high = high, 2 * high
        if high > MOST:
            raise OutOfRegime(f"no amount of noise reaches epsilon {epsilon:g} at delta {delta:g}")
    while high - low > within * high:
        middle = (low + high) / 2
        low, high = (low, middle) if affordable(middle) else (middle, high)
    return high
