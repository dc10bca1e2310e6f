"""How likely a local mechanism's message is for a given record: the density that its own parameters state.

A hash key is drawn before the votes are looked at, so it says nothing about them and is left out of the density.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.audit.neighbours import Record
from recordwise.errors import InvalidInput
from recordwise.protocols.local.bits import BitMechanism
from recordwise.protocols.local.channel import Channel
from recordwise.protocols.local.collision import Collision
from recordwise.protocols.local.concatenation import Concatenation
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.local.separation import Separation
from recordwise.protocols.local.subset_selection import SubsetSelection

Part = tuple[Channel, tuple[int, ...]]  # a channel, and the points that a record sends through it


@singledispatch
def log_density(mechanism: LocalMechanism, bodies: NDArray[np.uint8], record: Record) -> Doubles:
    """(n,) the logarithm of each message's probability, up to a term that is the same for every record."""
    raise InvalidInput(f"no density is known for the messages of {type(mechanism).__name__}")


@log_density.register
def _(mechanism: BitMechanism, bodies: NDArray[np.uint8], record: Record) -> Doubles:
    """Independent bits."""
    hit, miss = float(mechanism.indicator.hit), float(mechanism.indicator.miss)
    bits = bits_of(bodies, sorted(record.cells(mechanism.ballot)))
    evidence: Doubles = np.where(bits, math.log(hit / miss), math.log((1 - hit) / (1 - miss))).sum(axis=1)
    return evidence


@log_density.register
def _(mechanism: SubsetSelection, bodies: NDArray[np.uint8], record: Record) -> Doubles:
    """Sets with the record's cell are alike, and so are those without."""
    hit, share = float(mechanism.indicator.hit), mechanism.subset_size / mechanism.num_bits
    (cell,) = record.cells(mechanism.ballot) or {mechanism.ballot.num_cells}
    return np.where(bits_of(bodies, [cell])[:, 0], math.log(hit / share), math.log((1 - hit) / (1 - share)))


@log_density.register
def _(mechanism: Collision | Separation | Concatenation, bodies: NDArray[np.uint8], record: Record) -> Doubles:
    total, start = np.zeros(len(bodies)), 0
    for channel, points in parts(mechanism, record):
        keys, buckets = channel.unpack(bodies[:, start : start + channel.message_size])
        total += bucket_log_density(channel, points, keys, buckets[:, None])[:, 0]
        start += channel.message_size
    return total


def parts(mechanism: LocalMechanism, record: Record) -> list[Part]:
    """What a record sends through which channel, for the mechanisms that hash."""
    if isinstance(mechanism, Collision):
        return [(mechanism.channel, tuple(sorted(record.cells(mechanism.ballot))))]
    if isinstance(mechanism, Separation):
        queries, classes = mechanism.channels
        return [(queries, record.queries), (classes, record.labels)]
    if isinstance(mechanism, Concatenation):
        classes_after = tuple(label + mechanism.ballot.num_queries for label in record.labels)
        return [(mechanism.channel, record.queries + classes_after)]
    return []


def bucket_log_density(
    channel: Channel, points: tuple[int, ...], keys: NDArray[np.int64], buckets: NDArray[np.int64]
) -> Doubles:
    """(n, m) log-probability of the buckets (n, m) given the keys; -inf where no probability is left over."""
    if not points:
        return np.full(buckets.shape, -math.log(channel.buckets))
    hit = channel.family.apply(keys, np.array([points]))
    num_hit = 1 + (np.diff(np.sort(hit, axis=1), axis=1) != 0).sum(axis=1, keepdims=True)
    each = float(channel.hot) / channel.capacity
    rest = np.maximum(1 - num_hit * each, 0.0) / np.maximum(channel.buckets - num_hit, 1)
    inside = (buckets[:, :, None] == hit[:, None, :]).any(axis=2)
    with np.errstate(divide="ignore"):
        return np.log(np.where(inside, each, rest))


def bits_of(bodies: NDArray[np.uint8], cells: list[int]) -> NDArray[np.bool_]:
    """(n, cells) the bits of some cells."""
    at = np.array(cells, dtype=np.int64)
    return (bodies[:, at // 8] >> (7 - at % 8).astype(np.uint8) & 1).astype(np.bool_)
