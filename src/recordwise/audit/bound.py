"""A lower bound on epsilon from draws: an event chosen on one half of them, its probabilities bounded on the other.

If an event E has probability p on one data set and q on its neighbour, (epsilon, delta)-DP demands
p <= e^epsilon·q + delta, so epsilon >= log((p - delta) / q). With p bounded from below and q from above (Clopper and
Pearson 1934), each at half of what the confidence leaves, the bound holds with that confidence whatever the event and
whatever the scores it was found by: clumsy scores give a low bound, never a wrong one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput

THRESHOLDS = 512  # tried per score


@dataclass(frozen=True, kw_only=True)
class ScoreSet:
    """The scores of one kind that reach a threshold, or that do not exceed it."""

    score: int
    threshold: float
    above: bool

    def count(self, scores: NDArray[np.float64]) -> int:
        values = scores[:, self.score]
        return int((values >= self.threshold if self.above else values <= self.threshold).sum())


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What the draws prove: epsilon is at least this, but for a probability of `failure`."""

    epsilon: float
    failure: float
    likely: float  # how often the event was seen on the data set that makes it likely
    unlikely: float
    draws: int  # of each data set, not counting those the event was chosen on


def at_least(successes: NDArray[np.int64] | int, trials: int, failure: float) -> NDArray[np.float64]:
    """Clopper and Pearson's lower bound on a probability."""
    from scipy.special import betaincinv

    k = np.asarray(successes, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), trials - k + 1, failure), 0.0)


def at_most(successes: NDArray[np.int64] | int, trials: int, failure: float) -> NDArray[np.float64]:
    """Clopper and Pearson's upper bound on a probability."""
    return 1 - at_least(trials - np.asarray(successes), trials, failure)


def lower_bound(before: NDArray[np.float64], after: NDArray[np.float64], *, delta: float, failure: float) -> LowerBound:
    """The bound from (n, scores) scores of n independent views of each of two neighbouring data sets.

    Guarantees:
      - it exceeds the true epsilon at `delta` with probability at most `failure`.
    """
    if before.shape != after.shape or before.ndim != 2 or len(before) < 4:
        raise InvalidInput(f"scores must be of at least 4 views of either side, got {before.shape} and {after.shape}")
    half = len(before) // 2
    event, swapped = _choose(before[:half], after[:half], delta, failure, len(before) - half)
    likely, unlikely = (after, before) if swapped else (before, after)
    draws = len(before) - half
    hits, misses = event.count(likely[half:]), event.count(unlikely[half:])
    return LowerBound(
        epsilon=float(_epsilon(hits, misses, draws, delta, failure)),
        failure=failure,
        likely=hits / draws,
        unlikely=misses / draws,
        draws=draws,
    )


def _epsilon(
    hits: NDArray[np.int64] | int, misses: NDArray[np.int64] | int, draws: int, delta: float, failure: float
) -> NDArray[np.float64]:
    likely, unlikely = at_least(hits, draws, failure / 2), at_most(misses, draws, failure / 2)
    return np.log(np.maximum((likely - delta) / unlikely, 1.0))


def _choose(
    before: NDArray[np.float64], after: NDArray[np.float64], delta: float, failure: float, draws: int
) -> tuple[ScoreSet, bool]:
    """The event that would give the largest bound if the other half looked like this one."""
    best, choice = -math.inf, (ScoreSet(score=0, threshold=math.inf, above=True), False)
    for score in range(before.shape[1]):
        values = np.unique(np.concatenate([before[:, score], after[:, score]]))
        if len(values) > THRESHOLDS:
            values = values[np.linspace(0, len(values) - 1, THRESHOLDS).round().astype(int)]
        sides = [np.sort(side[:, score]) for side in (before, after)]
        for above in (True, False):
            b, a = (
                len(side) - np.searchsorted(side, values) if above else np.searchsorted(side, values, side="right")
                for side in sides
            )
            for swapped, (hits, misses) in ((False, (b, a)), (True, (a, b))):
                scaled = [np.round(count * draws / len(before)).astype(np.int64) for count in (hits, misses)]
                found = _epsilon(scaled[0], scaled[1], draws, delta, failure)
                at = int(found.argmax())
                if found[at] > best:
                    best = float(found[at])
                    choice = (ScoreSet(score=score, threshold=float(values[at]), above=above), swapped)
    return choice
