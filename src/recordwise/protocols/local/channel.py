"""Collision: a set of a few points, sent as one hash key and one bucket (Wang et al., IJCAI 2021; arXiv:2304.04410).

A fresh key hashes the points to l buckets. A bucket that is hit is reported with probability e^eps / Omega each, where
Omega = c·e^eps + l - c; the other buckets share the rest evenly. Three mechanisms are built of this one: Collision
sends cells, Separation sends queries and classes apart, Concatenation sends both together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.noise import Noise, Real, bernoulli, exp, uniform_below
from recordwise.privacy.noise.real import real
from recordwise.protocols.local.hashing import HashFamily
from recordwise.protocols.local.indicator import Indicator
from recordwise.votes.ballot import NOBODY

MOST_BUCKETS = 1 << 24  # beyond it more buckets gain nothing that anybody could measure


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Sends a set V of at most `capacity` points out of `domain`. Public.

    Guarantees, for the report of a bucket given the key, which does not depend on V:
      - any two sets V, V' of at most `capacity` points, the empty one too, change the probability of any bucket by a
        factor of at most e^epsilon; larger sets are refused;
      - any point in V is hashed to the reported bucket with probability `indicator.hit`, exactly;
      - any point outside V is hashed to reported bucket z with probability size(z) / prime whatever V is, provided
        that `independence` is at least `capacity` + 1.
    """

    domain: int
    capacity: int
    epsilon: Fraction
    buckets: int
    independence: int

    def __post_init__(self) -> None:
        if not self.buckets > self.capacity >= 1:
            raise InvalidInput(f"l must be at least c + 1 = {self.capacity + 1} buckets, got {self.buckets}")
        if not self.independence > self.capacity:
            raise InvalidInput(f"hashes must be {self.capacity + 1}-wise independent, got {self.independence}")

    @cached_property
    def family(self) -> HashFamily:
        return HashFamily(domain=self.domain, buckets=self.buckets, independence=self.independence)

    @cached_property
    def hot(self) -> Real:
        """c·e^eps / Omega: how often the report comes from the c buckets that include every bucket hit."""
        raised = self.capacity * exp(self.epsilon)
        return raised / (raised + (self.buckets - self.capacity))

    @cached_property
    def indicator(self) -> Indicator:
        return Indicator(hit=self.hot / self.capacity, miss=real(Fraction(1, self.buckets)))

    @property
    def message_size(self) -> int:
        return self.family.word_bytes * self.independence + self.family.bucket_bytes

    def randomize(self, points: NDArray[np.integer], noise: Noise) -> NDArray[np.uint8]:
        """(n, message_size) messages, one for each row of points; NOBODY stands for no point."""
        present = points != NOBODY
        if points.ndim != 2 or (present.size and present.sum(axis=1).max() > self.capacity):
            raise InvalidInput(f"a record may send at most c = {self.capacity} points, got {points.shape[1]}")
        keys = self.family.draw(len(points), noise)
        hit, num_hit = self._distinct(np.where(present, self.family.apply(keys, np.where(present, points, 0)), -1))
        # Complete the hit buckets to c by random others. From these c the report comes with probability `hot`, each
        # being as likely as the next; a random completion and what is left over are both uniform over buckets not hit.
        slot = uniform_below(self.capacity, len(points), noise)
        reported = bernoulli(self.hot, len(points), noise) & (slot < num_hit)
        report = uniform_below(self.buckets - num_hit, len(points), noise)
        for bucket in hit.T:
            report += bucket <= report  # the report-th bucket among those not hit
        rows = np.flatnonzero(reported)
        report[rows] = hit[rows, slot[rows]]
        return self._pack(keys, report)

    def _distinct(self, buckets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each row's different buckets in ascending order, then fillers beyond every bucket; and how many differ."""
        ordered = np.sort(buckets, axis=1)
        fresh = ordered >= 0
        fresh[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        return np.sort(np.where(fresh, ordered, self.buckets), axis=1), fresh.sum(axis=1)

    def _pack(self, keys: NDArray[np.int64], buckets: NDArray[np.int64]) -> NDArray[np.uint8]:
        key_bytes = keys.astype("<u4")[..., None].view(np.uint8)[..., : self.family.word_bytes]
        bucket_bytes = buckets.astype("<u4")[:, None].view(np.uint8)[:, : self.family.bucket_bytes]
        return np.concatenate([key_bytes.reshape(len(keys), -1), bucket_bytes], axis=1)

    def unpack(self, messages: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The keys and buckets of messages, each checked to be possible."""
        width = self.family.word_bytes
        words = np.zeros((len(messages), self.independence, 4), dtype=np.uint8)
        words[..., :width] = messages[:, : width * self.independence].reshape(len(messages), -1, width)
        tail = np.zeros((len(messages), 4), dtype=np.uint8)
        tail[:, : self.family.bucket_bytes] = messages[:, width * self.independence :]
        keys = words.view("<u4")[..., 0].astype(np.int64)
        buckets = tail.view("<u4")[:, 0].astype(np.int64)
        if keys.size and keys.max() >= self.family.prime:
            raise ProtocolFault(f"a key's coefficients must lie below {self.family.prime}, got {keys.max()}")
        if buckets.size and buckets.max() >= self.buckets:
            raise ProtocolFault(f"a bucket must lie below l = {self.buckets}, got {buckets.max()}")
        return keys, buckets

    def log_density(self, points: tuple[int, ...], keys: NDArray[np.int64], buckets: NDArray[np.int64]) -> Doubles:
        """(n, m) log-probability of the buckets (n, m) given the keys; -inf where no probability is left over.

        A key is drawn before the points are looked at, so it says nothing about them and is left out.
        """
        if not points:
            return np.full(buckets.shape, -math.log(self.buckets))
        hit = self.family.apply(keys, np.array([points]))
        num_hit = 1 + (np.diff(np.sort(hit, axis=1), axis=1) != 0).sum(axis=1, keepdims=True)
        each = float(self.hot) / self.capacity
        rest = np.maximum(1 - num_hit * each, 0.0) / np.maximum(self.buckets - num_hit, 1)
        inside = (buckets[:, :, None] == hit[:, None, :]).any(axis=2)
        with np.errstate(divide="ignore"):
            return np.log(np.where(inside, each, rest))


def collision_variance(buckets: float, capacity: int, growth: float) -> float:
    """Variance of a zero cell, (l-1)(l+c(e-1))² / ((l-c)²(e-1)²) with e = `growth` = e^epsilon."""
    spread = (buckets + capacity * (growth - 1)) / ((buckets - capacity) * (growth - 1))
    return (buckets - 1) * spread**2


def growth(epsilon: Fraction) -> float:
    """e^epsilon, cut off where only the number of buckets depends on it."""
    return math.exp(min(float(epsilon), 50.0))


def best_buckets(capacity: int, real_optimum: float, variance: Callable[[int], float]) -> int:
    """The better integer beside the real minimiser of the variance, and at least c + 1."""
    low = min(max(capacity + 1, math.floor(real_optimum)), MOST_BUCKETS)
    return min((low, min(low + 1, MOST_BUCKETS)), key=variance)


def collision_buckets(capacity: int, epsilon: Fraction) -> int:
    """The number of buckets with the least variance on zero cells.

    The minimiser over the reals is (c(2+e) + sqrt(c²e² + 8c²e - 8ce)) / 2, e = e^epsilon.
    """
    e = growth(epsilon)
    optimum = (capacity * (2 + e) + math.sqrt(capacity**2 * e**2 + 8 * capacity**2 * e - 8 * capacity * e)) / 2
    return best_buckets(capacity, optimum, lambda buckets: collision_variance(buckets, capacity, e))
