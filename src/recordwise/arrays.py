"""Array types, and the checks on arrays that come from outside."""

from __future__ import annotations

from functools import reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput

Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Floats = Singles | Doubles
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Precision = TypeVar("Precision", np.float32, np.float64)

NOBODY = -1  # where an index is expected and there is none: no query, no class, no owner


def as_vectors(name: str, array: object, *, dim: int | None = None) -> NDArray[np.float32]:
    """A finite (n, dim) float32 matrix, or one line that says why not."""
    try:
        with np.errstate(over="ignore"):  # beyond float32 is infinite, and refused below
            vectors = np.asarray(array, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{name} must be numeric, got {type(array).__name__}: {error}") from error
    if vectors.ndim != 2:
        raise InvalidInput(f"{name} must have shape (n, dim), got {vectors.shape}")
    if dim is not None and vectors.shape[1] != dim:
        raise InvalidInput(f"{name} must have {dim} dimensions, got {vectors.shape[1]}")
    if not np.isfinite(vectors).all():
        bad = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise InvalidInput(f"{name} must be finite, row {bad} holds NaN, infinity or a value beyond float32")
    return vectors


def sum_in_order(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row sums from left to right; a running sum, unlike np.sum, leaves no choice of order."""
    return np.add.accumulate(terms, axis=1)[:, -1]


def softmax(logits: NDArray[Precision]) -> NDArray[Precision]:
    """Exponentials, scaled to sum to one along the last axis, in the precision of the logits.

    SciPy's takes ten times as long where rows are many and short: it reduces over the last axis, this over the first.

    Guarantees:
      - a row's result is a function of that row alone, to the last bit: noisy SGD relies on it.
    """
    axes = range(logits.ndim)  # transpose is what moveaxis calls, without the ten lines around it
    weights = np.array(logits.transpose(axes[-1], *axes[:-1]), order="C")
    weights -= np.maximum.reduce(weights)
    np.exp(weights, out=weights)
    weights /= reduce(np.add, weights)  # np.sum adds in another order where there is one row only
    return np.ascontiguousarray(weights.transpose(*axes[1:], 0))
