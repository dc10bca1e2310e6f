"""What a sample may be, and the values that hold many of them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.held import adopted, channels_last
from recordwise.errors import InvalidInput

Samples = Any  # an array, a list of strings or a DataFrame; `kind_of` says which, `rows` takes some of them


class Kind(StrEnum):
    """The four kinds of samples: each has an encoder that needs no GPU."""

    IMAGES = "images"  # (n, height, width) or (n, height, width, channels)
    TEXT = "text"  # n strings
    TABLE = "table"  # columns of which some are not numbers: a DataFrame, or an object array (n, columns)
    VECTORS = "vectors"  # (n, dim) numbers


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded:
    """Samples from a file or a folder as they stand there, with a label each where there are labels.

    Nothing is made of a cell yet: a public `Schema` says what it means.

    Attributes:
      labels: (n,) classes, or (n, C) zeros and ones where a sample may have several; None for an unlabelled pool.
      columns: The names of a table's columns, in order; empty for everything else.
      parse: Cells are text, as in a CSV file, and text that spells a number is one.
      ids: (n,) what each sample is called, where it has a name of its own: the cells of a column, the names of files.
      ids_name: What those are called.
    """

    samples: Samples
    labels: NDArray[Any] | None = None
    columns: tuple[str, ...] = ()
    parse: bool = False
    ids: NDArray[Any] | None = None
    ids_name: str = "sample"

    def __post_init__(self) -> None:
        for name, held in (("samples", self.samples), ("labels", self.labels), ("ids", self.ids)):
            if isinstance(held, np.ndarray) and not held.ndim:
                raise InvalidInput(f"{name} must have one row for each sample, got a single value")
        for name, held in (("labels", self.labels), ("ids", self.ids)):
            if held is not None and len(held) != len(self.samples):
                raise InvalidInput(f"{name} must be as many as the {len(self.samples)} samples, got {len(held)}")

    def __len__(self) -> int:
        return len(self.samples)


def taken(samples: Samples, name: str = "samples") -> Samples:
    """The samples as an array, a sequence or a frame, with a gap where an array is masked.

    What other libraries hold is taken over (`recordwise.data.held`). What is none of these is refused: how samples are
    held is public.
    """
    samples = adopted(samples, name)
    if hasattr(samples, "iloc"):
        return samples
    if isinstance(samples, np.ma.MaskedArray):
        numeric = samples.dtype.kind in "biuf"
        filled: NDArray[Any] = np.array(samples, dtype=np.float64 if numeric else object)
        filled[np.ma.getmaskarray(samples)] = np.nan if numeric else None
        return filled
    if isinstance(samples, np.matrix | memoryview | array) or (
        hasattr(samples, "__array__") and not isinstance(samples, np.ndarray)
    ):
        samples = channels_last(np.asarray(samples))
    listed = isinstance(samples, Sequence) and not isinstance(samples, str | bytes)
    if not listed and not (isinstance(samples, np.ndarray) and samples.ndim):
        held = f"a single {samples.dtype}" if isinstance(samples, np.ndarray) else type(samples).__name__
        raise InvalidInput(f"{name} must be an array, a list or a frame with one row for each sample, got {held}")
    return samples


def kind_of(samples: Samples) -> Kind:
    """The kind of samples, from their type and shape alone."""
    if hasattr(samples, "iloc"):
        columns = getattr(samples, "columns", None)
        if columns is None:  # a pandas Series
            return kind_of(samples.to_numpy())
        numeric = all(np.issubdtype(dtype, np.number) for dtype in samples.dtypes if isinstance(dtype, np.dtype))
        return Kind.VECTORS if numeric and all(isinstance(d, np.dtype) for d in samples.dtypes) else Kind.TABLE
    if isinstance(samples, Sequence) and len(samples) and isinstance(samples[0], str):
        return Kind.TEXT
    array = np.asarray(samples)
    if array.ndim == 1 and len(array) and isinstance(array[0], str):
        return Kind.TEXT
    if array.ndim == 2 and not np.issubdtype(array.dtype, np.number) and array.dtype != np.bool_:
        return Kind.TABLE
    if array.ndim == 2:
        return Kind.VECTORS
    if array.ndim in (3, 4) and np.issubdtype(array.dtype, np.number):
        return Kind.IMAGES
    raise InvalidInput(
        f"samples must be images (n, h, w[, c]), strings, a table or vectors (n, dim), got {type(samples).__name__} "
        f"of shape {array.shape} and type {array.dtype}"
    )


def rows(samples: Samples, index: NDArray[np.int64] | slice) -> Samples:
    """Some of the samples, of the same kind."""
    if hasattr(samples, "iloc"):
        return samples.iloc[index]
    if isinstance(samples, np.ndarray):
        return samples[index]
    return samples[index] if isinstance(index, slice) else [samples[i] for i in index]
