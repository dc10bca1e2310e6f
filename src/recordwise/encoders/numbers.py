"""Private samples as numbers, each read on its own: what one of them holds changes nothing for the others."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Samples
from recordwise.errors import InvalidInput


def as_numbers(samples: Samples, shape: tuple[int, ...], *, flatten: bool = False) -> NDArray[np.float32]:
    """(n, *shape) float32; a sample that is no such numbers is all NaN.

    Every number goes through float64, whatever type it comes in, so that a sample's bits do not depend on the type that
    an array takes on for the sake of another sample. An array of numbers has one shape for all its samples: another
    shape than the pool's is refused.

    Args:
      flatten: A sample may have any shape with as many numbers, as an image has whose pixels are taken in a row.
    """
    array = samples if isinstance(samples, np.ndarray) else _table(samples)
    if array is None or array.dtype.kind not in "fiub":
        return _one_by_one(list(samples) if array is None else array, shape, flatten)
    if flatten and array.ndim > 2:
        array = array.reshape(len(array), -1)
    if array.shape[1:] != shape:
        if len(shape) == 1 and array.ndim == 2:
            raise InvalidInput(f"samples must have {shape[0]} dimensions, got {array.shape[1]}")
        raise InvalidInput(f"samples must have the pool's shape {shape}, got {array.shape[1:]}")
    return _single(array)


def finite_rows(vectors: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """(n,) whether all of a sample's numbers are finite."""
    finite: NDArray[np.bool_] = np.isfinite(vectors).all(axis=tuple(range(1, vectors.ndim)))
    return finite


def _table(samples: Samples) -> NDArray[Any] | None:
    """A DataFrame's cells; None for a list, whose samples are read one by one."""
    return samples.to_numpy() if hasattr(samples, "to_numpy") else None


def _single(array: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # beyond float32 is infinite, and infinite is not encoded
        wide = array if array.dtype in (np.float32, np.uint8) else array.astype(np.float64)
        return wide.astype(np.float32, copy=False)


def _one_by_one(samples: Any, shape: tuple[int, ...], flatten: bool) -> NDArray[np.float32]:
    numbers = np.full((len(samples), *shape), np.nan, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy warns of what it leaves out, such as an imaginary part
        for row, sample in enumerate(samples):
            try:
                one = _single(np.asarray(sample, dtype=np.float64))
                numbers[row] = one.reshape(shape) if flatten or one.shape == shape else np.nan
            except Exception:  # whatever a sample holds, it is that sample's missing value
                continue
    return numbers
