"""The exponential mechanism over matchings: one class per query, all different, chosen privately in one stroke.

A matching scores the votes its pairs got, and is chosen with probability proportional to exp(score / scale). There are
C! of them, but the sums over those that begin alike are permanents, which dynamic programming over the 2^C sets of
classes finds; so the matching is drawn query by query, each class with its exact conditional probability.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.errors import InvalidInput, positive, whole
from recordwise.privacy.noise.real import Enclosure, Real, exp, less
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import Uniform

MOST_CLASSES = 16  # 2^16 sets of classes: a fraction of a second, and doubling with every class


def exponential_matching(counts: NDArray[np.int64], scale: Fraction, noise: Noise) -> NDArray[np.int64]:
    """One class per query, all different: a matching with probability proportional to exp(its votes / scale).

    Guarantees:
      - counts that move every matching's votes by 0 or 1, all in one direction, change any matching's probability by a
        factor of at most exp(1 / scale), and by at most exp(2 / scale) where directions differ;
      - the choice has exactly the law described: no float decides an outcome.

    Args:
      counts: (C, C) integers, 1 <= C <= 16. Private.

    Returns:
      (C,) classes.
    """
    positive(scale=scale)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or not 1 <= len(counts) <= MOST_CLASSES:
        raise InvalidInput(f"counts must have shape (C, C) with 1 <= C <= {MOST_CLASSES}, got {counts.shape}")
    weights = _Weights(counts, scale)
    free = list(range(len(counts)))
    chosen = np.empty(len(counts), dtype=np.int64)
    for query in range(len(counts)):
        chosen[query] = _draw(weights, query, free, noise)
        free.remove(int(chosen[query]))
    return chosen


def chance_of_the_matching(lead: ArrayLike, num_classes: int) -> NDArray[np.float64]:
    """The least probability that the exponential mechanism over matchings chooses the one in which every query has a
    class that leads each of its others by at least `lead` scales.

    It is exact when all trail by just that: a matching that is wrong at j queries weighs exp(-j·lead), and there are
    (C choose j) times the derangements of j of them.
    """
    whole(num_classes=num_classes)
    wrong = np.exp(-np.maximum(np.asarray(lead, dtype=np.float64), 0.0))
    total, derangements = np.ones_like(wrong), 1
    for j in range(1, num_classes + 1):
        derangements = j * derangements + (-1) ** j
        total = total + math.comb(num_classes, j) * derangements * wrong**j
    return np.asarray(1 / total)


def _draw(weights: _Weights, query: int, free: list[int], noise: Noise) -> int:
    """A class for the query, given that those before it left the `free` ones."""
    if len(free) > 1:
        threshold = Uniform(0, 0, noise) * weights.of(query, free, free)
        for last in range(1, len(free)):
            if less(threshold, weights.of(query, free[:last], free)):
                return free[last - 1]
    return free[-1]


class _Weights:
    """What all matchings of the last queries weigh together, to any precision. Private."""

    def __init__(self, counts: NDArray[np.int64], scale: Fraction) -> None:
        self._deficits = _deficits(counts).tolist()
        self._factors = {deficit: exp(-deficit / scale) for row in self._deficits for deficit in row}
        self._known: dict[int, tuple[list[list[Enclosure]], list[Enclosure]]] = {}

    def of(self, query: int, classes: list[int], free: list[int]) -> Real:
        """Of the matchings of this and later queries with the free classes, those that give it one of `classes`.

        Up to a constant: the number of matchings of the later queries.
        """
        all_free = sum(1 << c for c in free)
        rests = [(c, all_free ^ (1 << c)) for c in classes]

        def enclose(bits: int) -> Enclosure:
            factors, means = self._at(bits)
            low = sum(factors[query][c][0] * means[rest][0] for c, rest in rests)
            high = sum(factors[query][c][1] * means[rest][1] for c, rest in rests)
            return low >> bits, -(-high >> bits)

        return Real(enclose)

    def _at(self, bits: int) -> tuple[list[list[Enclosure]], list[Enclosure]]:
        if bits not in self._known:
            bounds = {deficit: factor.bounds(bits) for deficit, factor in self._factors.items()}
            factors = [[bounds[deficit] for deficit in row] for row in self._deficits]
            self._known[bits] = factors, _means(factors, bits)
        return self._known[bits]


def _deficits(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers that weigh matchings as the counts do: votes a pair lacks, none on a best matching.

    Every matching has one pair in each row and each column, so a constant taken from a row or a column scales all
    weights alike. The constants are the prices of an optimal assignment's dual, found by the longest paths in it: no
    pair then weighs more than one and a best matching weighs just that, so no precision is lost to magnitudes.
    """
    from scipy.optimize import linear_sum_assignment

    best = linear_sum_assignment(counts, maximize=True)[1]
    lead = counts - np.take_along_axis(counts, best[:, None], axis=1)
    prices = np.zeros(len(counts), dtype=np.int64)
    for _ in range(len(counts)):
        prices = (prices[best][:, None] + lead).max(axis=0)
    return np.asarray(prices - prices[best][:, None] - lead)


def _means(factors: list[list[Enclosure]], bits: int) -> list[Enclosure]:
    """For every set of classes, the mean weight of the matchings of as many last queries with them.

    Means instead of sums stay below one, and each step adds at most four units of rounding to their enclosures.
    """
    means = [(1 << bits, 1 << bits)]
    for classes in range(1, 1 << len(factors)):
        many = classes.bit_count()
        low = high = 0
        for c, (least, most) in enumerate(factors[len(factors) - many]):
            if classes >> c & 1:
                rest = means[classes ^ (1 << c)]
                low += least * rest[0]
                high += most * rest[1]
        means.append((low // many >> bits, -(-high // (many << bits))))
    return means
