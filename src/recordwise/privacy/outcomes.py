"""The exact epsilon of outcomes whose probabilities are written down: what an audit compares a claim with.

It shares nothing with the accountants, which bound from above; this one bounds from below.
"""

from __future__ import annotations

import math

import numpy as np

from recordwise.arrays import Doubles

FINENESS = 2000  # steps of the grid per epsilon: losses are rounded down to it, so that the bound stays below the truth
MOST_BINS = 1 << 22


def epsilon_below(cells: list[tuple[Doubles, Doubles]], delta: float) -> float:
    """The epsilon at `delta` of independent parts, outcome i having probability p[i] or q[i]; from below.

    Losses are rounded down to a grid, which only makes the two laws look closer.
    """
    if not cells:
        return 0.0
    losses = []
    for p, q in cells:
        seen = p > 0
        with np.errstate(divide="ignore"):
            losses.append((p[seen], np.log(p[seen]) - np.log(q[seen])))
    if delta == 0:
        return float(sum(loss.max() for _, loss in losses))
    finite = [loss[np.isfinite(loss)] for _, loss in losses]
    widest = sum(float(np.abs(loss).max()) for loss in finite)
    spread = math.sqrt(sum(float((mass * np.minimum(np.abs(loss), 50) ** 2).sum()) for mass, loss in losses))
    step = max(spread / FINENESS, widest / MOST_BINS)
    total, lowest, sure = np.ones(1), 0, 1.0
    for mass, loss in losses:
        known = np.isfinite(loss)
        place = np.floor(loss[known] / step).astype(np.int64)
        sure *= 1 - float(mass[~known].sum())  # an outcome that only one side can have gives everything away
        total, lowest = (
            _convolve(total, np.bincount(place - place.min(), mass[known]).astype(np.float64)),
            lowest + int(place.min()),
        )
    grid = (lowest + np.arange(len(total))) * step

    def delta_at(epsilon: float) -> float:
        above = grid > epsilon
        return 1 - sure + float((total[above] * -np.expm1(epsilon - grid[above])).sum()) - 1e-15

    low, high = 0.0, float(grid[-1])
    if delta_at(0.0) < delta:
        return 0.0
    if 1 - sure > delta:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) >= delta else (low, middle)
    return low


def _convolve(one: Doubles, other: Doubles) -> Doubles:
    from scipy.signal import fftconvolve

    return np.maximum(fftconvolve(one, other), 0.0) if min(len(one), len(other)) > 1 else np.convolve(one, other)
