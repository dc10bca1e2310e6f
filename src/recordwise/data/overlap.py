"""Which records also lie in the pool: only their holder is told, for it depends on the records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.cells import missing
from recordwise.data.samples import Kind, Samples, kind_of, rows
from recordwise.errors import InvalidInput
from recordwise.randomness import seeded

_CHUNK_BYTES = 1 << 25


def copies(public: Samples, private: Samples) -> NDArray[np.bool_]:
    """(m,) whether each public sample equals some private one, value for value; arrays are read in chunks.

    Numbers are compared by value whatever their type: 1, 1.0 and True are equal, so are 0.0 and -0.0, and NaNs.
    """
    kinds = {kind_of(public), kind_of(private)}
    if kinds <= {Kind.TEXT} or (Kind.TABLE in kinds and kinds <= {Kind.TABLE, Kind.VECTORS}):
        known = {key for some in _chunks(private) for key in _keys(some)}
        return np.array([key in known for some in _chunks(public) for key in _keys(some)], dtype=np.bool_)
    if len(kinds) > 1:
        raise InvalidInput(f"the pool and the private records must be of one kind, got {' and '.join(sorted(kinds))}")
    if np.shape(public)[1:] != np.shape(private)[1:]:
        return np.zeros(len(public), dtype=np.bool_)
    dtype = np.result_type(*(np.asarray(rows(part, slice(0, 1))).dtype for part in (public, private)))
    public_hashes, private_hashes = (
        np.concatenate([_hashes(_normal(some, dtype)) for some in _chunks(part)]) for part in (public, private)
    )
    same = np.isin(public_hashes, private_hashes)
    if same.any():  # equal hashes are not yet equal rows: compare the few candidates themselves
        candidates = [row.tobytes() for row in _normal(rows(public, np.flatnonzero(same)), dtype)]
        suspects = rows(private, np.flatnonzero(np.isin(private_hashes, public_hashes)))
        seen = {row.tobytes() for some in _chunks(suspects) for row in _normal(some, dtype)}
        same[same] = [row in seen for row in candidates]
    return same


def _chunks(samples: Samples) -> Iterator[Samples]:
    row_bytes = max(1, np.asarray(rows(samples, slice(0, 1))).nbytes)
    step = max(1, _CHUNK_BYTES // row_bytes)
    for start in range(0, len(samples), step):
        yield rows(samples, slice(start, start + step))


def _normal(samples: Samples, dtype: np.dtype[Any]) -> NDArray[Any]:
    """(n, dim) contiguous rows whose bytes are equal exactly when their values are."""
    flat = np.ascontiguousarray(np.asarray(samples).reshape(len(samples), -1), dtype=dtype)
    if np.issubdtype(dtype, np.floating):
        flat = np.where(np.isnan(flat), np.asarray(np.nan, dtype=dtype), flat + 0)  # one zero, one NaN
    return flat


def _hashes(content: NDArray[Any]) -> NDArray[np.uint64]:
    """(n,) a 64-bit multiply-add hash of each row: a copy never escapes, a chance match is sorted out afterwards."""
    width = content.shape[1] * content.itemsize
    words = np.zeros((len(content), -(-width // 8)), dtype=np.uint64)
    words.view(np.uint8)[:, :width] = content.view(np.uint8).reshape(len(content), width)
    words ^= words >> np.uint64(32)  # low bits alone survive a product modulo 2^64
    odd = seeded(0, "overlap").integers(0, 2**64, size=words.shape[1], dtype=np.uint64) | np.uint64(1)
    words *= odd
    total: NDArray[np.uint64] = words.sum(axis=1, dtype=np.uint64)
    return total


def _keys(samples: Samples) -> Iterator[Any]:
    if hasattr(samples, "to_numpy"):
        samples = samples.to_numpy(dtype=object)
    for row in samples:
        yield row if isinstance(row, str) else tuple(None if missing(cell) else cell for cell in row)
