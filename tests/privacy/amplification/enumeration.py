"""Shuffled batches of small mechanisms, enumerated: the oracle for every accountant in this folder."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import cache
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


def one_more(law: dict[Histogram, float], sent: NDArray[np.float64]) -> dict[Histogram, float]:
    """The law of a multiset of messages to which one more is added."""
    longer: dict[Histogram, float] = defaultdict(float)
    messages = [(message, chance) for message, chance in enumerate(sent.tolist()) if chance]
    for histogram, weight in law.items():
        for message, chance in messages:
            longer[(*histogram[:message], histogram[message] + 1, *histogram[message + 1 :])] += weight * chance
    return longer


def merged(channel: Channel) -> Channel:
    """Messages with the same likelihood ratios taken for one: nothing about the records is lost."""
    shapes = np.round(channel / channel.sum(axis=0), 9)
    _, group = np.unique(shapes, axis=1, return_inverse=True)
    return np.array([np.bincount(group.ravel(), weights=row) for row in channel])


def batches(channel: Channel, senders: int) -> list[NDArray[np.float64]]:
    """For all that the other senders can hold, (records, batches): the law of the batch by the one record that changes.

    Any two rows of a table are the laws of neighbours.
    """
    channel = merged(channel)

    @cache
    def law(records: tuple[int, ...]) -> dict[Histogram, float]:
        return one_more(law(records[1:]), channel[records[0]]) if records else {(0,) * channel.shape[1]: 1.0}

    tables = []
    for others in combinations_with_replacement(range(len(channel)), senders - 1):
        laws = [one_more(law(others), row) for row in channel]
        outcomes = list(set().union(*laws))
        tables.append(np.array([[one.get(outcome, 0.0) for outcome in outcomes] for one in laws]))
    return tables


def exact_delta(tables: list[NDArray[np.float64]], epsilon: float) -> float:
    """The smallest delta at `epsilon`, over all neighbouring data sets."""
    factor = math.exp(epsilon)
    return max(float(np.maximum(p - factor * table, 0).sum(axis=1).max()) for table in tables for p in table)


def exact_epsilon(tables: list[NDArray[np.float64]], delta: float) -> float:
    """The smallest epsilon at `delta`, over all neighbouring data sets, to ten digits."""
    low, high = 0.0, 20.0
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_delta(tables, middle) > delta else (low, middle)
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
