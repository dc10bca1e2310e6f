"""Permute-and-flip: the best class of a row of counts, chosen privately (McKenna and Sheldon 2020)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import InvalidInput, positive, whole
from recordwise.privacy.noise.coins import bernoulli_exp
from recordwise.privacy.noise.integers import uniform_below
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import CHUNK


def permute_and_flip(counts: NDArray[np.int64], scale: Fraction, noise: Noise) -> NDArray[np.int64]:
    """One class per row: walk the classes in random order, accept one with probability exp((count - max) / scale).

    All coins are flipped first. The first accepted class in a random order is then, by symmetry, a uniform choice
    among the accepted ones (a row's best class always is), and no order needs to be drawn.

    Guarantees:
      - a row whose counts move by at most one, all in one direction, changes any class's probability by a factor of
        at most exp(1 / scale);
      - the choice has exactly the law described: no float decides an outcome.

    Args:
      counts: (s, C) integers, C >= 1. Private.

    Returns:
      (s,) classes.
    """
    positive(scale=scale)
    if counts.ndim != 2 or counts.shape[1] < 1:
        raise InvalidInput(f"counts must have shape (s, C) with C >= 1, got {counts.shape}")
    chosen = np.empty(len(counts), dtype=np.int64)
    rows = max(1, CHUNK // counts.shape[1])
    for start in range(0, len(counts), rows):
        some = counts[start : start + rows]
        accepted = bernoulli_exp(some.max(axis=1, keepdims=True) - some, scale, noise)
        rank = accepted.cumsum(axis=1)
        pick = uniform_below(rank[:, -1], len(some), noise)
        chosen[start : start + rows] = (rank > pick[:, None]).argmax(axis=1)
    return chosen


def chance_of_the_best(lead: ArrayLike, num_classes: int) -> NDArray[np.float64]:
    """The least probability that permute-and-flip chooses a class that leads every other by at least `lead` scales.

    It is exact when all rivals trail by just that: each is accepted with probability q = exp(-lead), and the best is
    chosen when the rivals before it in a random order are all rejected: (1 - (1 - q)^C) / (C q).
    """
    whole(num_classes=num_classes)
    lead = np.maximum(np.asarray(lead, dtype=np.float64), 0.0)
    accepted = np.exp(-lead)
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = -np.expm1(num_classes * np.log1p(-accepted)) / (num_classes * accepted)
    few = 1 - (num_classes - 1) / 2 * accepted  # a lower bound too, and free of cancellation where it is used
    return np.asarray(np.where(accepted > 1e-6, np.minimum(chance, 1.0), few))
