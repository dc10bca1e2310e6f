"""Shamir's secret sharing: any `threshold` shares give the secret, fewer say nothing about it."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from recordwise.errors import InvalidInput, ProtocolFault

PRIME = 2**521 - 1  # a Mersenne prime with room for secrets of 32 bytes
SECRET_BYTES = 32
SHARE_BYTES = 66


def split(secret: bytes, threshold: int, points: Iterable[int]) -> dict[int, bytes]:
    """One share for each point: the values there of a random polynomial of degree threshold - 1."""
    if len(secret) != SECRET_BYTES:
        raise InvalidInput(f"a secret must have {SECRET_BYTES} bytes, got {len(secret)}")
    coefficients = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    shares = {}
    for point in points:
        if not 0 < point < PRIME:
            raise InvalidInput(f"a point must lie in [1, 2^521 - 1), got {point}")  # at zero lies the secret itself
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % PRIME
        shares[point] = value.to_bytes(SHARE_BYTES, "big")
    return shares


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """The secret, from at least `threshold` shares."""
    if len(shares) < threshold:
        raise ProtocolFault(f"a secret must be combined from >= {threshold} shares, got {len(shares)}")
    points = sorted(shares)[:threshold]
    secret = 0
    for point in points:
        weight = 1  # of this share in the polynomial's value at zero
        for other in points:
            if other != point:
                weight = weight * other * pow(other - point, -1, PRIME) % PRIME
        secret += int.from_bytes(shares[point], "big") * weight
    secret %= PRIME
    if secret >> (8 * SECRET_BYTES):
        raise ProtocolFault("shares must fit together, these do not")
    return secret.to_bytes(SECRET_BYTES, "big")
