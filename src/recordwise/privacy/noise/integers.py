"""Uniform integers and permutations, without modulo bias."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.noise.source import Noise
from recordwise.privacy.noise.uniform import Size, chunks


def uniform_below(bound: int | NDArray[np.int64], size: Size, noise: Noise) -> NDArray[np.int64]:
    """Independent integers, uniform on 0 .. bound - 1.

    Guarantees:
      - every value has the same probability: words in the last, incomplete run of `bound` words are drawn again.

    Args:
      bound: At least 1; one for all draws, or an array of shape `size` with one for each.
    """
    bounds = np.broadcast_to(np.asarray(bound), size).ravel()
    if bounds.dtype.kind not in "iu" or (bounds.size and not bounds.min() >= 1):
        raise InvalidInput(f"bound must be a whole number >= 1, got {bound!r}")
    result = np.empty(bounds.size, dtype=np.int64)
    for part in chunks(bounds.size):
        modulus = bounds[part].astype(np.uint64)
        last = np.uint64(2**64 - 1) - (np.uint64(0) - modulus) % modulus  # 2^64 mod b = (2^64 - b) mod b
        words = noise.words(modulus.size)
        while (again := np.flatnonzero(words > last)).size:
            words = words.copy()  # a source may hand out read-only memory
            words[again] = noise.words(again.size)
        result[part] = words % modulus
    return result.reshape(size)


def permutation(n: int, noise: Noise) -> NDArray[np.int64]:
    """A uniformly random order of 0 .. n - 1.

    Guarantees:
      - every order has the same probability: items are sorted by random words, drawn again until all differ.
    """
    if not n >= 0:
        raise InvalidInput(f"n must be >= 0, got {n!r}")
    while True:
        words = noise.words(n)
        order = np.argsort(words)
        ordered = words[order]
        if not (ordered[1:] == ordered[:-1]).any():
            return order.astype(np.int64, copy=False)
