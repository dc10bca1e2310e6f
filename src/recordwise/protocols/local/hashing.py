"""Keyed hashing of points to buckets: random polynomials over a prime field.

A key is `independence` coefficients, uniform in the field of `prime` elements; a point is hashed to the bucket in which
the polynomial's value lies, the field being cut into `buckets` intervals whose sizes differ by at most one.

Guarantees:
  - the values at any `independence` distinct points are independent and uniform in the field (a polynomial of lower
    degree is fixed by, and takes, any values there), so the points' buckets are independent;
  - bucket z is hit with probability size(z) / prime, which is within 1 / prime of 1 / buckets. Decoders subtract this
    known probability instead of 1 / buckets, so unequal sizes leave no bias on cells that nobody voted for.

Pairwise independence is enough to estimate a vote that a record cast alone. A record that casts c votes needs c + 1:
whether a point shares the reported bucket depends on *all* c hashes, through how many of them collide. With a merely
pairwise family (one line a·v + b, say) points in arithmetic progression are estimated with a bias of several percent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, whole
from recordwise.privacy.noise import Noise, uniform_below

ANSWER_BYTES = 16  # what a key and a bucket should fit into
PRIMES = {2: 65_521, 3: 16_777_213, 4: 4_294_967_291}  # bytes of a coefficient: the largest prime it can hold


@dataclass(frozen=True, kw_only=True)
class HashFamily:
    """Polynomials of degree `independence` - 1 on the points 0 .. domain - 1. Public."""

    domain: int
    buckets: int
    independence: int

    def __post_init__(self) -> None:
        whole(domain=self.domain, buckets=self.buckets, independence=self.independence)
        most = PRIMES[max(PRIMES)]
        if not max(self.domain, self.buckets, self.independence) <= most:
            raise InvalidInput(f"domain, buckets and independence must be <= {most}, got {self}")

    @cached_property
    def bucket_bytes(self) -> int:
        return -(-(self.buckets - 1).bit_length() // 8) or 1

    @cached_property
    def word_bytes(self) -> int:
        """Bytes of a coefficient: as many as let key and bucket fit into ANSWER_BYTES, but enough for the domain."""
        enough = [b for b, prime in PRIMES.items() if prime >= max(self.domain, self.buckets, self.independence)]
        fitting = [b for b in enough if b * self.independence + self.bucket_bytes <= ANSWER_BYTES]
        return max(fitting, default=min(enough))

    @cached_property
    def prime(self) -> int:
        return PRIMES[self.word_bytes]

    def draw(self, count: int, noise: Noise) -> NDArray[np.int64]:
        """(count, independence) fresh keys: the coefficients, highest power first."""
        return uniform_below(self.prime, (count, self.independence), noise)

    def values(self, keys: NDArray[np.int64], points: NDArray[np.integer]) -> NDArray[np.uint64]:
        """Each key's polynomial at its own row of points, or at all of one row: (n, m) field elements."""
        at = points.astype(np.uint64)
        prime = np.uint64(self.prime)
        value = np.zeros((len(keys), at.shape[-1]), dtype=np.uint64)
        for coefficient in keys.astype(np.uint64).T:
            value = (value * at + coefficient[:, None]) % prime  # below prime², so it fits 64 bits
        return value

    def apply(self, keys: NDArray[np.int64], points: NDArray[np.integer]) -> NDArray[np.int64]:
        """The buckets of each key's points: (n, m)."""
        return (self.values(keys, points) * np.uint64(self.buckets) // np.uint64(self.prime)).astype(np.int64)

    def start(self, buckets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first field element of each bucket."""
        return (
            (buckets.astype(np.uint64) * np.uint64(self.prime) + np.uint64(self.buckets - 1)) // np.uint64(self.buckets)
        ).astype(np.int64)

    def size(self, buckets: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many field elements fall into each bucket."""
        return self.start(buckets + 1) - self.start(buckets)
