"""Which points would have been hashed to the bucket a message reports: the whole cost of decoding.

A polynomial of degree m on 0, 1, 2, ... is advanced by m additions from its table of differences, as Babbage's engine
did, so a hash costs a few additions modulo the prime and no multiplication or division. Messages lie side by side in
the inner loop, which is what vector instructions want. The answer is the same, bit for bit, on every engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import MissingExtra
from recordwise.protocols.local.hashing import HashFamily

LANES = 1 << 14  # messages advanced together: their tables stay in the processor's cache
TILE = 1 << 16, 256  # messages and points multiplied out at a time on a GPU
WORTH_COMPILING = 1 << 31  # hashes; below, NumPy is done before numba has loaded


class Engine(StrEnum):
    """What counts hits: NumPy (always there), numba (faster, compiled on first use) or PyTorch (on a GPU)."""

    AUTO = "auto"
    NUMPY = "numpy"
    NUMBA = "numba"
    TORCH = "torch"

    def settled(self, hashes: int) -> Engine:
        """AUTO means numba for much work where it is installed, else NumPy; a GPU is used only when asked for."""
        if self is Engine.AUTO:
            return Engine.NUMBA if hashes >= WORTH_COMPILING and find_spec("numba") else Engine.NUMPY
        if self is not Engine.NUMPY and not find_spec(self.value):
            raise MissingExtra(f"engine {self.value!r} must be installed to be used; engine 'numpy' always is")
        return self


def count_hits(
    family: HashFamily, keys: NDArray[np.int64], buckets: NDArray[np.int64], engine: Engine = Engine.NUMPY
) -> NDArray[np.int64]:
    """For each point of the domain, the number of messages whose key hashes it to the message's own bucket."""
    engine = engine.settled(len(keys) * family.domain)
    if engine is Engine.TORCH and family.domain < 1 << 31:  # so that a product of field element and point fits 63 bits
        return _count_on_gpu(family, keys, buckets)
    counts = np.zeros(family.domain, dtype=np.int64)
    for start in range(0, len(keys), LANES):
        part = slice(start, start + LANES)
        table, width = _differences(family, keys[part], buckets[part]), family.size(buckets[part])
        if engine is Engine.NUMBA:
            _compiled()(table.astype(np.uint32), width.astype(np.uint32), np.uint32(family.prime), counts)
        else:
            for point, match in _sweep(family, table, width):
                counts[point] += np.count_nonzero(match)
    return counts


def hits(family: HashFamily, keys: NDArray[np.int64], buckets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(domain, n): whether a message's key hashes a point to the message's own bucket."""
    found = np.empty((family.domain, len(keys)), dtype=np.bool_)
    for start in range(0, len(keys), LANES):
        part = slice(start, start + LANES)
        table, width = _differences(family, keys[part], buckets[part]), family.size(buckets[part])
        for point, match in _sweep(family, table, width):
            found[point, part] = match
    return found


def _differences(family: HashFamily, keys: NDArray[np.int64], buckets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """(independence, n) table at point 0 of the polynomial less the first element of the reported bucket.

    A point matches exactly when this shifted value lies below the bucket's size.
    """
    prime = np.uint64(family.prime)
    start = family.start(buckets).astype(np.uint64)[:, None]
    table = (family.values(keys, np.arange(family.independence)[None]) + (prime - start)) % prime
    for order in range(1, family.independence):
        table[:, order:] = (table[:, order:] + (prime - table[:, order - 1 : -1])) % prime
    return np.ascontiguousarray(table.T)


def _sweep(
    family: HashFamily, table: NDArray[np.uint64], width: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Each point with the messages that match it. The array handed out is overwritten by the next."""
    prime, below = np.uint64(family.prime), width.astype(np.uint64)
    match, reduced = np.empty(len(below), dtype=np.bool_), np.empty_like(below)
    for point in range(family.domain):
        yield point, np.less(table[0], below, out=match)
        for order in range(family.independence - 1):
            value = table[order]
            np.add(value, table[order + 1], out=value)
            np.subtract(value, prime, out=reduced)  # wraps to a huge number where value < prime
            np.minimum(value, reduced, out=value)


@cache
def _compiled() -> Any:
    """The same sweep, compiled; it adds to `counts` in place and lets other threads run."""
    from numba import njit, uint32

    @njit("void(uint32[:,::1], uint32[::1], uint32, int64[::1])", nogil=True, cache=True)
    def count(table: Any, width: Any, prime: Any, counts: Any) -> None:
        orders, lanes = table.shape
        block = 1024
        for first in range(0, lanes, block):
            last = min(first + block, lanes)
            below = width[first:last]
            for point in range(len(counts)):
                value = table[0, first:last]
                found = uint32(0)
                for i in range(len(value)):
                    found += uint32(value[i] < below[i])
                counts[point] += found
                for order in range(1, orders):
                    step = table[order, first:last]
                    for i in range(len(value)):
                        old, room = value[i], uint32(prime - step[i])  # value + step reaches the prime iff old >= room
                        moved = uint32(old - room)
                        value[i] = uint32(moved + prime) if old < room else moved
                    value = step

    return count


def _count_on_gpu(family: HashFamily, keys: NDArray[np.int64], buckets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole tiles of messages × points at a time: a GPU would rather multiply than be called for every point."""
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    coefficients = [torch.from_numpy(column).to(device)[:, None] for column in np.ascontiguousarray(keys.T)]
    shift = torch.from_numpy(family.start(buckets)).to(device)[:, None]
    coefficients[-1] = (coefficients[-1] - shift).remainder(family.prime)
    below = torch.from_numpy(family.size(buckets)).to(device)[:, None]
    counts = torch.zeros(family.domain, dtype=torch.int64, device=device)
    for first in range(0, family.domain, TILE[1]):
        points = torch.arange(first, min(first + TILE[1], family.domain), device=device)[None]
        for start in range(0, len(keys), TILE[0]):
            rows = slice(start, start + TILE[0])
            value = coefficients[0][rows].expand(-1, points.shape[1])
            for coefficient in coefficients[1:]:
                value = (value * points).add_(coefficient[rows]).remainder_(family.prime)
            counts[first : first + points.shape[1]] += (value < below[rows]).sum(dim=0)
    found: NDArray[np.int64] = counts.cpu().numpy()
    return found
