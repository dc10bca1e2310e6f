"""Waiting times: how many steps of an exponentially falling staircase lie above a uniform real.

Discrete Laplace, geometric and log-series draws are all this: K is the largest k with U < P(K >= k), and P(K >= k) is
exp((offset - k) / stretch), so K is offset - stretch·log(U), rounded down.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.noise.real import Real, less
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import SMALL_WORD, Uniform

AtLeast = Callable[[int, int], Real]  # from a draw's position and k >= 1 to P(K >= k) for that draw


def staircase(
    firsts: NDArray[np.uint64],
    bits: int,
    offset: float,
    stretch: float | NDArray[np.float64],
    at_least: AtLeast,
    noise: Noise,
    *,
    trusted: NDArray[np.bool_] | bool = True,
) -> NDArray[np.int64]:
    """For uniform reals U, the largest k with U < at_least(position, k), or 0: exact whatever the floats say.

    Args:
      firsts: The first `bits` bits of each U; more are revealed where they do not settle k.
      offset: With `stretch`, at_least(i, k) = exp((offset - k) / stretch); off by at most stretch·2^-44.
      stretch: One for all or one for each draw; off by at most a relative 2^-44 where it is `trusted`.
    """
    x = offset - stretch * np.log((firsts + 0.5) * 2.0**-bits)
    # The logarithm is off by 2^-44 where the first bits are not small; a few roundings add 2^-50 of x.
    sure = (np.abs(x - np.rint(x)) > stretch * 2.0**-42 + x * 2.0**-42) & (firsts >= SMALL_WORD) & trusted
    steps: NDArray[np.int64] = x.astype(np.int64)
    for i in np.flatnonzero(~sure):
        steps[i] = _count(int(i), int(steps[i]), at_least, Uniform(int(firsts[i]), bits, noise))
    return steps


def _count(position: int, guess: int, at_least: AtLeast, uniform: Uniform) -> int:
    """The steps above `uniform`, starting from a float's guess, which may be any number."""
    while less(uniform, at_least(position, guess + 1)):
        guess += 1
    while guess > 0 and not less(uniform, at_least(position, guess)):
        guess -= 1
    return guess
