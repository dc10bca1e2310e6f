"""Shuffled batches of small mechanisms, enumerated: the oracle for every accountant in this folder."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement, permutations, product

import numpy as np
from numpy.typing import NDArray

Channel = NDArray[np.float64]  # (records, messages) probabilities
Histogram = tuple[int, ...]


def shuffled(channel: Channel, records: tuple[int, ...]) -> dict[Histogram, float]:
    """The law of the multiset of messages."""
    law = {(0,) * channel.shape[1]: 1.0}
    for record in records:
        longer: dict[Histogram, float] = defaultdict(float)
        for histogram, weight in law.items():
            for message in np.flatnonzero(channel[record]):
                more = list(histogram)
                more[message] += 1
                longer[tuple(more)] += weight * channel[record, message]
        law = longer
    return law


def merged(channel: Channel) -> Channel:
    """Messages with the same likelihood ratios taken for one: nothing about the records is lost."""
    shapes = np.round(channel / channel.sum(axis=0), 9)
    _, group = np.unique(shapes, axis=1, return_inverse=True)
    return np.array([np.bincount(group.ravel(), weights=row) for row in channel])


def neighbours(channel: Channel, senders: int) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Both laws, aligned, for every pair of neighbouring data sets."""
    channel = merged(channel)
    for others in combinations_with_replacement(range(len(channel)), senders - 1):
        laws = [shuffled(channel, (first, *others)) for first in range(len(channel))]
        for first, second in permutations(range(len(channel)), 2):
            outcomes = sorted(laws[first].keys() | laws[second].keys())
            yield (
                np.array([laws[first].get(outcome, 0.0) for outcome in outcomes]),
                np.array([laws[second].get(outcome, 0.0) for outcome in outcomes]),
            )


def exact_delta(channel: Channel, senders: int, epsilon: float) -> float:
    """The smallest delta at `epsilon`, over all neighbouring data sets."""
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in neighbours(channel, senders))


def exact_epsilon(channel: Channel, senders: int, delta: float) -> float:
    """The smallest epsilon at `delta`, over all neighbouring data sets, to ten digits."""
    pairs = list(neighbours(channel, senders))
    low, high = 0.0, 20.0
    for _ in range(45):
        middle = (low + high) / 2
        worst = max(float(np.maximum(p - math.exp(middle) * q, 0).sum()) for p, q in pairs)
        low, high = (middle, high) if worst > delta else (low, middle)
    return high


def total_variation(channel: Channel) -> float:
    """The largest total variation distance of two records' messages."""
    return max(float(np.maximum(p - q, 0).sum()) for p, q in permutations(channel, 2))


def k_ary_channel(epsilon0: float, answers: int) -> Channel:
    weights = np.ones((answers, answers)) + (math.exp(epsilon0) - 1) * np.eye(answers)
    return weights / weights.sum(axis=1, keepdims=True)


def collision_channel(epsilon0: float, cells: int, buckets: int, domain: int) -> Channel:
    """All hash functions from the domain to the buckets equally likely; records vote for up to `cells` cells."""
    e = math.exp(epsilon0)
    omega = cells * e + buckets - cells
    hashes = list(product(range(buckets), repeat=domain))
    rows = []
    for votes in subsets(domain, cells):
        row = []
        for hashed in hashes:
            hit = {hashed[cell] for cell in votes}
            elsewhere = (omega - e * len(hit)) / ((buckets - len(hit)) * omega)
            row += [e / omega if bucket in hit else elsewhere for bucket in range(buckets)]
        rows.append(np.array(row) / len(hashes))
    return np.array(rows)


def bits_channel(keep: float, on: float, cells: int, domain: int) -> Channel:
    """Independent bits: a one stays with probability `keep`, a zero turns on with probability `on`."""
    rows = []
    for votes in subsets(domain, cells):
        ones = np.array([keep if cell in votes else on for cell in range(domain)])
        rows.append([math.prod(np.where(bits, ones, 1 - ones)) for bits in product((0, 1), repeat=domain)])
    return np.array(rows)


def subset_channel(epsilon0: float, domain: int, size: int) -> Channel:
    chosen = list(combinations(range(domain), size))
    weights = np.array([[math.exp(epsilon0) if cell in subset else 1.0 for subset in chosen] for cell in range(domain)])
    return weights / weights.sum(axis=1, keepdims=True)


def pair_channel(first: Channel, second: Channel) -> Channel:
    """A record in each channel, two messages sent as one."""
    return np.array([np.outer(p, q).ravel() for p in first for q in second])


def subsets(domain: int, most: int) -> list[tuple[int, ...]]:
    return [votes for size in range(most + 1) for votes in combinations(range(domain), size)]
