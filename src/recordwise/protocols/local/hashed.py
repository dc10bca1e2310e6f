"""Mechanisms whose message is a hash key and a bucket, or two of them: one `Channel` each."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.protocols.local.channel import Channel
from recordwise.protocols.local.mechanism import LocalMechanism
from recordwise.protocols.pairs import Pair, Record
from recordwise.protocols.views import Exact
from recordwise.randomness import seeded

KEYS = 2000  # hash functions that an audit tries: a mechanism must be private for every single one

Sent = tuple[Channel, tuple[int, ...]]  # a channel, and the points that a record sends through it


@dataclass(frozen=True, kw_only=True)
class HashMechanism(LocalMechanism):
    """The messages of its channels, one after the other."""

    @abstractmethod
    def sent(self, record: Record) -> list[Sent]:
        """What a record sends through which channel, in the order of the message."""

    def log_density(self, bodies: NDArray[np.uint8], record: Record) -> Doubles:
        total, start = np.zeros(len(bodies)), 0
        for channel, points in self.sent(record):
            keys, buckets = channel.unpack(bodies[:, start : start + channel.message_size])
            total += channel.log_density(points, keys, buckets[:, None])[:, 0]
            start += channel.message_size
        return total

    def exact_epsilon(self, pair: Pair, parties: int | None) -> Exact:
        assert pair.after is not None
        forth = back = 0.0
        for (channel, old), (_, new) in zip(self.sent(pair.before), self.sent(pair.after), strict=True):
            keys = seeded(0, "audit", "keys").integers(0, channel.family.prime, (KEYS, channel.independence))
            hits = [channel.family.apply(keys, np.array([points])) for points in (old, new) if points]
            buckets = np.concatenate([*hits, _free_bucket(np.concatenate(hits, axis=1), channel.buckets)], axis=1)
            before, after = (channel.log_density(points, keys, buckets) for points in (old, new))
            with np.errstate(invalid="ignore"):
                ratio = np.where(before == after, 0.0, before - after)
            forth, back = forth + float(ratio.max()), back + float((-ratio).max())
        return max(forth, back), f"all buckets under {KEYS:,} hash functions"


def _free_bucket(hit: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
    """(n, 1) a bucket that no point of a row was hashed to; the first one where every bucket is hit."""
    width = min(buckets, hit.shape[1] + 1)
    taken = (hit[:, :, None] == np.arange(width)).any(axis=1)
    free: NDArray[np.int64] = taken.argmin(axis=1)[:, None]
    return free
