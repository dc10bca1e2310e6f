"""Tables: numbers and dates to a common scale, a calendar's parts on circles, categories to one coordinate each.

scikit-learn's ColumnTransformer and OneHotEncoder would do much of it, but are kept as pickles and promise nothing
about single rows. This one is stored as data, and gives a row the same bits in any batch.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from recordwise.arrays import Doubles, Floats
from recordwise.data.samples import Kind, Samples
from recordwise.data.schema import CATEGORY, DATE, Column, Schema
from recordwise.errors import InvalidInput, positive, whole

MOST_VALUES = 100
# Each circle's length in days, its marks, and what to add to days since 1970 so that it begins at its first mark.
CIRCLES = {"year": (365.2425, 366, 0.0), "week": (7.0, 7, 3.0), "day": (1.0, 1440, 0.0)}
TURNS = 2.0


class Table(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Mixed columns (a DataFrame, an object array, rows) to vectors, each row on its own, by the pool's columns.

    - A column of numbers or dates: clipped at `clip` deviations from the pool's mean, then centred and scaled to unit
      variance, so that a few extreme values neither decide which rows are neighbours nor squash all the others. A gap
      becomes the mean; where the pool has gaps, another coordinate says so.
    - A column of dates also: where it lies in the year, in the week and in the day, each as a point on a circle, so
      that December lies beside January; a gap is the circle's centre. A circle counts if the pool fills two turns of
      it and more than one place on it; the day's, if there are times at all. Together they weigh as much as one column.
    - A column of categories: one coordinate per value, 1 for the row's own. Where the pool has gaps they are a value
      too. A value that is not among the pool's `max_values` most frequent is all zeros.

    A cell that does not fit its column in the pool's schema is a gap. A row with too many or too few cells is NaN.

    Args:
      clip: Deviations from the mean beyond which numbers no longer count.
      max_values: How many values of one category column get a coordinate.
      calendar: Whether dates have circles.
    """

    def __init__(self, clip: float = 3.0, max_values: int = MOST_VALUES, calendar: bool = True) -> None:
        self.clip = clip
        self.max_values = max_values
        self.calendar = calendar

    def fit(self, pool: Samples, y: object = None) -> Self:
        positive(clip=self.clip)
        whole(max_values=self.max_values)
        self.schema_ = _table_schema(pool)
        cells = self.schema_.pool(pool, "the pool")
        if not len(cells):
            raise InvalidInput(f"the pool must hold at least one row, got {cells.shape}")
        self.encodings_: list[_Numbers | _Values | _Dates] = []
        for column, held in zip(self.schema_.columns, cells.T, strict=True):
            if column.kind == CATEGORY:
                self.encodings_.append(_Values(held, self.max_values))
                continue
            circles = self.calendar and column.kind == DATE
            self.encodings_.append((_Dates if circles else _Numbers)(held.astype(np.float64), self.clip))
        return self

    def holds(self) -> bool:
        """Whether its state is such as `fit` leaves; see `recordwise.encoders.encoding`."""
        schema = self.schema_
        written = type(schema) is Schema and Schema.from_dict(schema.as_dict()) == schema
        known = all(type(one) in (_Numbers, _Values, _Dates) and one.holds() for one in self.encodings_)
        return written and schema.kind == Kind.TABLE and known and len(self.encodings_) == schema.width

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        read = self.schema_.read(samples)
        blocks = [encoding.encode(column) for column, encoding in zip(read.samples.T, self.encodings_, strict=True)]
        vectors = np.hstack(blocks).astype(np.float32)
        vectors[~read.readable] = np.nan
        return vectors


class _Numbers:
    def __init__(self, column: Floats, clip: float) -> None:
        present = column[~np.isnan(column)]
        with np.errstate(over="ignore", invalid="ignore"):
            mean, deviation = (present.mean(), present.std()) if len(present) else (0.0, 0.0)
            self.low, self.high = float(mean - clip * deviation), float(mean + clip * deviation)
            inside = np.clip(present, self.low, self.high)
            self.mean = float(inside.mean()) if len(present) else 0.0
            self.scale = float(inside.std()) if deviation > 0 else 1.0
        if not np.isfinite([self.low, self.high, self.mean, self.scale]).all():
            raise InvalidInput("a column of the pool must have a mean and a spread, its numbers are too large")
        self.gaps = len(present) < len(column)

    def holds(self) -> bool:
        return all(type(one) is float for one in (self.low, self.high, self.mean, self.scale))

    def encode(self, column: NDArray[Any]) -> Floats:
        numbers = column.astype(np.float64)
        missing = np.isnan(numbers)
        inside = np.clip(np.where(missing, self.mean, numbers), self.low, self.high)
        scaled = (inside - self.mean) / self.scale
        return np.column_stack([scaled, missing]) if self.gaps else scaled[:, None]

    @property
    def fingerprint(self) -> str:
        return repr((self.low, self.high, self.mean, self.scale, self.gaps))


class _Dates:
    """Days since 1970: how late, and where in the year, the week and the day."""

    def __init__(self, column: Doubles, clip: float) -> None:
        self.when = _Numbers(column, clip)
        present = column[~np.isnan(column)]
        span = float(present.max() - present.min()) if len(present) else 0.0
        # A time of the day has no date, and whole days no time: one place on the circle says nothing.
        places = {name: len(np.unique(_place(present, name))) for name in CIRCLES}
        self.circles = [
            name for name in CIRCLES if places[name] > 1 and (name == "day" or span >= TURNS * CIRCLES[name][0])
        ]

    def holds(self) -> bool:
        known = isinstance(self.circles, list) and all(one in CIRCLES for one in self.circles)
        return known and type(self.when) is _Numbers and self.when.holds()

    def encode(self, column: NDArray[Any]) -> Floats:
        days = column.astype(np.float64)
        missing = np.isnan(days)
        blocks: list[Doubles] = [np.asarray(self.when.encode(column), dtype=np.float64)]
        for name in self.circles:
            points = circle(CIRCLES[name][1])[_place(np.where(missing, 0.0, days), name)] / math.sqrt(len(self.circles))
            points[missing] = 0.0
            blocks.append(points)
        return np.hstack(blocks)

    @property
    def fingerprint(self) -> str:
        return repr((self.when.fingerprint, self.circles))


def _place(days: Doubles, circle: str) -> NDArray[np.int64]:
    """Where on a circle days lie, as one of its marks."""
    length, marks, start = CIRCLES[circle]
    turn = np.mod(days + start, length) / length
    return np.minimum((turn * marks).astype(np.int64), marks - 1)


@cache
def circle(marks: int) -> Doubles:
    """(marks, 2) points around a circle; tabled, so that a row's bits do not depend on the rows beside it."""
    angles = [2 * math.pi * mark / marks for mark in range(marks)]
    return np.array([[math.sin(angle), math.cos(angle)] for angle in angles])


class _Values:
    def __init__(self, column: NDArray[Any], max_values: int) -> None:
        # A gap is written as the empty word, which is no category.
        values, counts = np.unique(["" if cell is None else cell for cell in column], return_counts=True)
        frequent = np.sort(np.argsort(-counts, kind="stable")[:max_values])
        self.values: NDArray[np.str_] = values[frequent]

    def holds(self) -> bool:
        return isinstance(self.values, np.ndarray) and self.values.dtype.kind == "U" and self.values.ndim == 1

    def encode(self, column: NDArray[Any]) -> Floats:
        place_of = {value: place for place, value in enumerate(self.values.tolist())}
        coordinates = np.zeros((len(column), len(self.values)), dtype=np.float32)
        for row, cell in enumerate(column):
            place = place_of.get("" if cell is None else cell)
            if place is not None:
                coordinates[row, place] = 1
        return coordinates

    @property
    def fingerprint(self) -> str:
        return repr(self.values.tolist())


def _table_schema(pool: Samples) -> Schema:
    """The pool's columns; rows of numbers are a table too."""
    schema = Schema.of(pool)
    if schema.kind == Kind.VECTORS:
        return Schema(kind=Kind.TABLE, columns=schema.columns or (Column(),) * schema.width)
    if schema.kind != Kind.TABLE:
        raise InvalidInput(f"a table must have shape (rows, columns), got {schema.kind}")
    return schema
