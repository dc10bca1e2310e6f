"""Tables: numbers to a common scale, categories to one coordinate each."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from recordwise.arrays import Floats
from recordwise.data.samples import Samples, missing
from recordwise.errors import InvalidInput, positive, whole


class Table(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Mixed columns (a DataFrame or an object array) to vectors, by what the pool's columns hold.

    - A column of numbers: clipped at `clip` deviations from the pool's mean, then centred and scaled to unit variance,
      so that a few extreme values neither decide which rows are neighbours nor squash all the others. A gap becomes the
      mean; where the pool has gaps, another coordinate says so.
    - Any other column: one coordinate per value, 1 for the row's own. Gaps are a value too. A value that the pool does
      not hold, or that is not among its `max_values` most frequent, is all zeros.

    Args:
      clip: Deviations from the mean beyond which numbers no longer count.
      max_values: How many values of one category column get a coordinate.
    """

    def __init__(self, clip: float = 3.0, max_values: int = 100) -> None:
        self.clip = clip
        self.max_values = max_values

    def fit(self, pool: Samples, y: object = None) -> Self:
        positive(clip=self.clip)
        whole(max_values=self.max_values)
        self.columns_ = _names(pool)
        cells = _cells(pool)
        if not len(cells):
            raise InvalidInput(f"the pool must hold at least one row, got {cells.shape}")
        self.encodings_: list[_Numbers | _Values] = []
        for column in cells.T:
            numbers = _as_numbers(column)
            self.encodings_.append(
                _Values(column, self.max_values) if numbers is None else _Numbers(numbers, self.clip)
            )
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        cells, names = _cells(samples), _names(samples)
        renamed = bool(names and self.columns_) and names != self.columns_
        if cells.shape[1] != len(self.encodings_) or renamed:
            raise InvalidInput(
                f"a table must have the pool's {len(self.encodings_)} columns ({', '.join(self.columns_)}), "
                f"got {cells.shape[1]} ({', '.join(names)})"
            )
        blocks = []
        for index, (column, encoding) in enumerate(zip(cells.T, self.encodings_, strict=True)):
            name = self.columns_[index] if self.columns_ else str(index)
            blocks.append(encoding.encode(column, name))
        return np.hstack(blocks).astype(np.float32)


class _Numbers:
    def __init__(self, column: Floats, clip: float) -> None:
        present = column[~np.isnan(column)]
        mean, deviation = (present.mean(), present.std()) if len(present) else (0.0, 0.0)
        self.low, self.high = float(mean - clip * deviation), float(mean + clip * deviation)
        inside = np.clip(present, self.low, self.high)
        self.mean = float(inside.mean()) if len(present) else 0.0
        self.scale = float(inside.std()) if deviation > 0 else 1.0
        self.gaps = len(present) < len(column)

    def encode(self, column: NDArray[Any], name: str) -> Floats:
        numbers = _as_numbers(column)
        if numbers is None:
            raise InvalidInput(f"column {name!r} must hold numbers as in the pool, it holds others")
        missing = np.isnan(numbers)
        inside = np.clip(np.where(missing, self.mean, numbers), self.low, self.high)
        scaled = (inside - self.mean) / self.scale
        return np.column_stack([scaled, missing]) if self.gaps else scaled[:, None]

    @property
    def fingerprint(self) -> str:
        return repr((self.low, self.high, self.mean, self.scale, self.gaps))


class _Values:
    def __init__(self, column: NDArray[Any], max_values: int) -> None:
        values, counts = np.unique([_label(cell) for cell in column], return_counts=True)
        frequent = np.sort(np.argsort(-counts, kind="stable")[:max_values])
        self.values: NDArray[np.str_] = values[frequent]

    def encode(self, column: NDArray[Any], name: str) -> Floats:
        labels = np.array([_label(cell) for cell in column])
        place = np.minimum(np.searchsorted(self.values, labels), len(self.values) - 1)
        coordinates = np.zeros((len(column), len(self.values)), dtype=np.float32)
        known = np.flatnonzero(self.values[place] == labels)
        coordinates[known, place[known]] = 1
        return coordinates

    @property
    def fingerprint(self) -> str:
        return repr(self.values.tolist())


def _cells(samples: Samples) -> NDArray[Any]:
    cells = samples.to_numpy(dtype=object) if hasattr(samples, "to_numpy") else np.asarray(samples)
    if cells.ndim != 2:
        raise InvalidInput(f"a table must have shape (rows, columns), got {cells.shape}")
    return cells


def _names(samples: Samples) -> tuple[str, ...]:
    return tuple(str(name) for name in getattr(samples, "columns", ()))


def _as_numbers(column: NDArray[Any]) -> Floats | None:
    """The column as floats with NaN for gaps, or None if some cell is not a number."""
    if column.dtype != object:
        return column.astype(np.float64) if np.issubdtype(column.dtype, np.number) else None
    if any(isinstance(cell, str | bytes) for cell in column):
        return None
    try:
        numbers = np.array([np.nan if missing(cell) else float(cell) for cell in column])
    except (TypeError, ValueError):
        return None
    if np.isinf(numbers).any():
        raise InvalidInput(f"numbers of a table must be finite, row {np.flatnonzero(np.isinf(numbers))[0]} is not")
    return numbers


def _label(cell: object) -> str:
    return "missing:" if missing(cell) else f"{type(cell).__name__}:{cell}"
