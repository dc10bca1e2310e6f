"""Shuffled batches of small mechanisms, enumerated: the oracle for every accountant in this folder."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
import pytest
from exact_laws import Walk, every_vote, exact_law
from numpy.typing import NDArray

from recordwise.protocols.local import LocalMechanism
from recordwise.protocols.local.hashing import HashFamily
from recordwise.votes.ballot import Ballot

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


def client_channel(kind: type[LocalMechanism], ballot: Ballot, epsilon0: Fraction) -> Channel:
    """What the real client sends, for every record there is: all its draws walked through."""
    mechanism = kind(ballot=ballot, epsilon=epsilon0)
    return sent_channel(
        [lambda walk, votes=votes: mechanism.client(votes, walk).bodies for votes in every_vote(ballot)]
    )


def sent_channel(records: list[Callable[[Walk], NDArray[np.uint8]]]) -> Channel:
    """The messages of each record, by real code that draws from a walk.

    Hash keys are drawn from a family of which every function is equally likely: real ones are as independent as the
    mechanism asks for (`tests/protocols/local/test_local_hashing.py`), and small enough to list here.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HashFamily, "draw", _any_function)
        patch.setattr(HashFamily, "apply", _looked_up)
        laws = [exact_law(lambda walk, send=send: send(walk).tobytes()) for send in records]
    messages = sorted(set().union(*laws))
    channel = np.array([[float(law.get(message, 0)) for message in messages] for law in laws])
    return np.unique(channel, axis=0)  # records that vote alike, or not at all, send alike


def _any_function(family: HashFamily, count: int, noise: Any) -> NDArray[np.int64]:
    keys = np.zeros((count, family.independence), dtype=np.int64)
    keys[:, 0] = noise.uniform_below(family.buckets**family.domain, count)
    return keys


def _looked_up(family: HashFamily, keys: NDArray[np.int64], points: NDArray[np.int64]) -> NDArray[np.int64]:
    """A function from points to buckets, read off the digits of its number."""
    return keys[:, :1] // family.buckets ** np.asarray(points, dtype=np.int64) % family.buckets
