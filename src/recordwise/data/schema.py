"""The public schema: how a record's bytes become a sample, fixed by the pool before any record is opened.

A record is read with it on its own: no column's type, no category, no image's mode or size is decided by other records.
What does not fit is that record's missing value, and a record that cannot be read abstains later; nothing here raises
because of what a record holds. Only the form of a whole collection, which is public, may be refused: its columns, the
shape of an array, the type of its numbers.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Bools
from recordwise.data.cells import DATE_FORMATS, date_of, decoded, number_of, spells_dates, word_of
from recordwise.data.pictures import BYTES, fitted
from recordwise.data.samples import Kind, Loaded, Samples, taken
from recordwise.errors import InvalidInput, shown
from recordwise.formats import json_file, json_from, toml_file
from recordwise.hashing import digest_of
from recordwise.progress import counted

NUMBER, CATEGORY, DATE, TEXT = "number", "category", "date", "text"
COLUMN_KINDS = (NUMBER, CATEGORY, DATE, TEXT)
NUMBERS = ("uint8", "int64", "float32", "float64")
Cell = float | str | None


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
      kind: "number", "category", "date" or "text".
      categories: Of a category column: its values. Any other value is missing.
      range: Of a number column, if written: the least and the greatest value that count. Others are missing.
      formats: Of a date column: how text spells dates, as for `datetime.strptime`.
    """

    name: str = ""
    kind: str = NUMBER
    categories: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    formats: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InvalidInput(f"a column's name must be text, got {shown(self.name)}")
        if self.kind not in COLUMN_KINDS:
            raise InvalidInput(f"a column's kind must be one of {', '.join(COLUMN_KINDS)}, got {shown(self.kind)}")
        object.__setattr__(self, "categories", tuple(map(str, self.categories)))
        object.__setattr__(
            self, "formats", tuple(map(str, self.formats)) or (DATE_FORMATS if self.kind == DATE else ())
        )
        if (self.categories and self.kind != CATEGORY) or (self.formats and self.kind != DATE):
            raise InvalidInput(f"column {self.name!r}: categories belong to a category, formats to a date")
        if self.kind == CATEGORY and not self.categories:
            raise InvalidInput(f"column {self.name!r} must list its categories, it lists none")
        for spelling in self.formats:
            if not spells_dates(spelling):
                raise InvalidInput(
                    f"column {self.name!r}: formats must be such as strptime reads, got {shown(spelling)}"
                )
        if self.range is not None:
            try:
                low, high = (float(end) for end in self.range)
            except (TypeError, ValueError, OverflowError):
                low, high = np.nan, np.nan
            if self.kind != NUMBER or not low <= high:
                raise InvalidInput(f"range must be (least, greatest) of a number column, got {shown(self.range)}")
            object.__setattr__(self, "range", (low, high))

    def reader(self) -> Callable[[Any], Cell]:
        """What a cell of this column says; NaN, or None among categories, where it does not fit."""
        if self.kind == DATE:
            return partial(date_of, formats=self.formats)
        if self.kind == NUMBER:
            low, high = self.range or (-np.inf, np.inf)

            def number(cell: Any) -> float:
                value = number_of(cell)
                return value if low <= value <= high else np.nan

            return number
        known = frozenset(self.categories)

        def word(cell: Any) -> str | None:
            found = word_of(cell)
            return found if found in known else None

        return word


@dataclass(frozen=True, eq=False)
class Read:
    """Samples as the schema reads them, and which of them could be read; the others are blank."""

    samples: Samples
    readable: Bools


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a sample is. Public, published, and hashed with the queries.

    Attributes:
      kind: "table", "vectors", "images" or "text".
      columns: Of a table, or of vectors whose dimensions have names: in order.
      shape: (dim,) of vectors; (height, width) or (height, width, channels) of images.
      numbers: Of vectors and images: "uint8", "int64", "float32" or "float64".
    """

    kind: str
    columns: tuple[Column, ...] = ()
    shape: tuple[int, ...] = ()
    numbers: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", str(self.kind))
        object.__setattr__(self, "columns", tuple(_as_column(one) for one in self.columns))
        try:
            object.__setattr__(self, "shape", tuple(int(side) for side in self.shape))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"a schema's shape must be whole numbers, got {shown(self.shape)}") from error
        if self.kind not in list(Kind):
            raise InvalidInput(f"a schema's kind must be one of {', '.join(Kind)}, got {shown(self.kind)}")
        if self.kind == Kind.VECTORS and not self.shape:
            object.__setattr__(self, "shape", (len(self.columns),))
        if self.kind in (Kind.VECTORS, Kind.IMAGES):
            object.__setattr__(self, "numbers", self.numbers or ("float64" if self.kind == Kind.VECTORS else "uint8"))
            sides = (1,) if self.kind == Kind.VECTORS else (2, 3)
            if len(self.shape) not in sides or min(self.shape) < 1 or self.numbers not in NUMBERS:
                raise InvalidInput(
                    f"a schema of {self.kind} must have a shape of {' or '.join(map(str, sides))} sides and numbers of "
                    f"{', '.join(NUMBERS)}, got {self.shape} and {shown(self.numbers)}"
                )
        elif self.shape or self.numbers:
            raise InvalidInput(
                f"a schema of {self.kind} has no shape and no numbers, got {self.shape}, {self.numbers!r}"
            )
        self._check_columns()

    def _check_columns(self) -> None:
        kinds = {column.kind for column in self.columns}
        if self.kind == Kind.TABLE and (not self.columns or TEXT in kinds):
            raise InvalidInput("a table's schema must have columns of numbers, categories and dates; text stands alone")
        if self.kind == Kind.VECTORS and self.columns and (kinds != {NUMBER} or len(self.columns) != self.width):
            raise InvalidInput(f"the columns of vectors must be {self.width} numbers, got {len(self.columns)} columns")
        if self.kind == Kind.TEXT and self.columns and (kinds != {TEXT} or len(self.columns) != 1):
            raise InvalidInput("a schema of text has one column of text at most")
        if self.kind == Kind.IMAGES and self.columns:
            raise InvalidInput("a schema of images has no columns")
        named = [column.name for column in self.columns if column.name]
        if named and (len(set(named)) != len(self.columns)):
            raise InvalidInput(f"columns must have different names, or none, got {', '.join(named)}")

    # Where a schema comes from, and where it goes

    @classmethod
    def of(cls, pool: Samples, *, columns: Sequence[str] = (), parse: bool = False) -> Schema:
        """The schema that a public pool fixes.

        Args:
          columns: Names of a table's columns, where the pool itself has none.
          parse: Text that spells a number or a date is one, as in a CSV file; otherwise text is a category.
        """
        from recordwise.data.pool_schema import describe

        return describe(pool, tuple(map(str, columns)), parse)

    @classmethod
    def of_loaded(cls, loaded: Loaded) -> Schema:
        """The schema that a public file fixes."""
        return cls.of(loaded.samples, columns=loaded.columns, parse=loaded.parse)

    @classmethod
    def given(cls, spec: Schema | Mapping[str, Any] | str | Path) -> Schema:
        """A schema that somebody wrote down: a value, a mapping, or a JSON or TOML file."""
        if isinstance(spec, Schema):
            return spec
        if isinstance(spec, Mapping):
            return cls.from_dict(spec)
        path = Path(spec)
        try:
            return cls.from_dict(json_file(path) if path.suffix.lower() == ".json" else toml_file(path))
        except InvalidInput as fault:
            raise InvalidInput(f"the schema {fault}") from fault

    def as_dict(self) -> dict[str, Any]:
        """Plain values; what is not there is left out."""
        plain = {
            "kind": self.kind,
            "columns": [
                {one.name: held for one in fields(column) if (held := getattr(column, one.name)) not in ("", (), None)}
                for column in self.columns
            ],
            "shape": list(self.shape),
            "numbers": self.numbers,
        }
        spec: dict[str, Any] = json_from(json.dumps({key: value for key, value in plain.items() if value}).encode())
        return spec

    @classmethod
    def from_dict(cls, spec: Mapping[str, Any]) -> Schema:
        try:
            return cls(**spec)
        except TypeError as fault:
            raise InvalidInput(f"a schema must have kind, columns, shape and numbers at most: {fault}") from fault

    @property
    def digest(self) -> str:
        """SHA-256 of `as_dict`."""
        return digest_of(json.dumps(self.as_dict(), sort_keys=True).encode())

    @property
    def width(self) -> int:
        """Cells of one row; 0 where samples are no rows."""
        return self.shape[0] if self.kind == Kind.VECTORS else len(self.columns) if self.kind == Kind.TABLE else 0

    @property
    def sample_bytes(self) -> int:
        """How large one sample is in memory, about; 0 where that is its own business."""
        return math.prod(self.shape) * np.dtype(self.numbers).itemsize if self.shape else 8 * self.width

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names; empty where they have none."""
        return tuple(column.name for column in self.columns if column.name)

    # Reading

    def read(self, samples: Samples) -> Read:
        """Each sample, read on its own.

        Guarantees:
          - a sample's outcome depends on that sample and this schema alone: not on the other samples, on their order
            or on what holds them (a list, an array, a frame);
          - what a sample holds never raises and never warns; reading what was read gives the same again.
        """
        held = self._in_order(samples)
        self.check_form(held)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # a warning would reveal something about records
            match self.kind:
                case Kind.VECTORS:
                    return self._vectors(held)
                case Kind.IMAGES:
                    return self._images(held)
                case Kind.TEXT:
                    return self._texts(held)
            return self._table(held)

    def pool(self, samples: Samples, name: str = "samples") -> Samples:
        """Public samples as this schema reads them; one that it cannot read is refused in one line."""
        read = self.read(samples)
        if not read.readable.all():
            row = int(np.flatnonzero(~read.readable)[0])
            rule = {
                Kind.VECTORS: f"be finite, row {row} holds a gap, NaN or infinity",
                Kind.IMAGES: f"be images with finite pixels like the schema's, row {row} is not",
                Kind.TEXT: f"be text, row {row} is not",
                Kind.TABLE: f"have {self.width} cells in every row, row {row} has not",
            }[Kind(self.kind)]
            raise InvalidInput(f"{name} must {rule}")
        return read.samples

    def check_form(self, samples: Samples) -> None:
        """Refuse what is public about a whole collection: columns, an array's shape, the type of its numbers."""
        if hasattr(samples, "iloc"):
            samples = self._in_order(samples)
        array = samples if isinstance(samples, np.ndarray) else None
        types = {"": array.dtype} if array is not None else {}
        if hasattr(samples, "iloc"):  # pandas makes a column complex for the sake of one record
            types = {name: dtype for name, dtype in samples.dtypes.items() if getattr(dtype, "kind", "") != "c"}
        self._check_types(types)
        if self.kind in (Kind.VECTORS, Kind.TABLE):
            width = len(samples.columns) if hasattr(samples, "iloc") else None
            if array is not None and (array.dtype != object or array.ndim != 1):
                if array.ndim != 2:
                    raise InvalidInput(
                        f"samples must have shape (n, {self.width}) like the pool's {self.kind}, got {array.shape}. "
                        "Reshape your data"
                    )
                width = array.shape[1]
            if width is not None and width != self.width:
                noun = "dimensions" if self.kind == Kind.VECTORS else "columns"
                raise InvalidInput(f"records must have the pool's {self.width} {noun}, got {width}")
        elif self.kind == Kind.IMAGES and array is not None and array.dtype != object and array.ndim not in (3, 4):
            raise InvalidInput(f"samples must be images (n, h, w[, c]) like the pool's, got {array.shape}")
        elif self.kind == Kind.TEXT and array is not None and array.dtype.kind not in "OUSTV":
            raise InvalidInput(f"samples must be text like the pool's, got numbers of shape {array.shape}")
        # An encoder takes bytes to go up to 255, and all else as it is.
        pixels = self.kind == Kind.IMAGES and array is not None and array.dtype.kind in "biuf"
        if pixels and (array.dtype == np.uint8) != (self.numbers == BYTES):  # type: ignore[union-attr]
            raise InvalidInput(f"records must have pixels like the pool's {self.numbers}, got {array.dtype}")  # type: ignore[union-attr]

    def _check_types(self, types: Mapping[Any, Any]) -> None:
        for name, dtype in types.items():
            kind = dtype.kind if isinstance(dtype, np.dtype) else ""
            if kind and (kind in "cVm" or (kind == "M" and self.kind != Kind.TABLE)):
                where = f" in column {name!r}" if name else ""
                rule = "Complex data not supported" if kind == "c" else f"{str(dtype)[:60]} is not supported"
                raise InvalidInput(f"samples must be numbers, text or dates of a table. {rule}{where}")

    def _in_order(self, samples: Samples) -> Samples:
        """A frame's columns by their names, in the schema's order; whatever else stays as it is."""
        samples = taken(samples)
        if hasattr(samples, "iloc") and not hasattr(samples, "columns"):  # a pandas Series
            return samples.to_numpy()
        if not hasattr(samples, "iloc") or not self.names:
            return samples
        if len(set(map(str, samples.columns))) != len(samples.columns):
            raise InvalidInput("X must have columns of different names, two are the same")
        held = {str(name): place for place, name in enumerate(samples.columns)}
        lacking = [name for name in self.names if name not in held]
        if lacking:
            raise InvalidInput(
                f"X must have the pool's columns ({', '.join(self.names)}), it lacks {', '.join(lacking)}"
            )
        return samples.iloc[:, [held[name] for name in self.names]]

    def _vectors(self, samples: Samples) -> Read:
        numeric = as_numbers(samples)
        if numeric is None:
            wide = np.full((len(samples), self.width), np.nan)
            for row, cells in enumerate(counted(rows_of(samples), len(samples))):
                if cells is not None and len(cells) == self.width:
                    wide[row] = [number_of(cell) for cell in cells]
            numeric = wide
        limits = [column.range for column in self.columns]
        if any(limits):
            low, high = np.array([ends or (-np.inf, np.inf) for ends in limits]).T
            numeric = np.where((numeric >= low) & (numeric <= high), numeric, np.nan)
        return _as_typed(numeric, self.numbers)

    def _table(self, samples: Samples) -> Read:
        cells = np.empty((len(samples), self.width), dtype=object)
        readers = [column.reader() for column in self.columns]
        blank = [read(None) for read in readers]
        readable = np.ones(len(samples), dtype=np.bool_)
        for row, held in enumerate(counted(rows_of(samples), len(samples))):
            readable[row] = held is not None and len(held) == self.width
            cells[row] = (
                [read(cell) for read, cell in zip(readers, held, strict=True)]  # type: ignore[arg-type]
                if readable[row]
                else blank
            )
        return Read(cells, readable)

    def _texts(self, samples: Samples) -> Read:
        texts = np.empty(len(samples), dtype=object)
        readable = np.ones(len(samples), dtype=np.bool_)
        for row, held in enumerate(samples if not hasattr(samples, "iloc") else samples.to_numpy(dtype=object)):
            row_like = isinstance(held, Sequence) or (isinstance(held, np.ndarray) and held.ndim)
            if row_like and not isinstance(held, str | bytes) and len(held) == 1:
                held = held[0]  # a row of one cell
            text = decoded(held)
            readable[row], texts[row] = text is not None, text or ""
        return Read(texts, readable)

    def _images(self, samples: Samples) -> Read:
        if isinstance(samples, np.ndarray) and samples.dtype.kind in "biuf" and samples.shape[1:] == self.shape:
            return _as_typed(samples, self.numbers)
        pixels = np.zeros((len(samples), *self.shape), dtype=self.numbers)
        readable = np.zeros(len(samples), dtype=np.bool_)
        for row, held in enumerate(counted(samples, len(samples))):
            image = fitted(held, self.shape, self.numbers)
            if image is not None:
                one = _as_typed(image[None], self.numbers)
                pixels[row], readable[row] = one.samples[0], one.readable[0]
        return Read(pixels, readable)


def _as_column(spec: Column | Mapping[str, Any]) -> Column:
    if isinstance(spec, Column):
        return spec
    try:
        return Column(**spec)
    except TypeError as fault:
        raise InvalidInput(f"a column must have name, kind, categories, range and formats at most: {fault}") from fault


def as_numbers(samples: Samples) -> NDArray[Any] | None:
    """Rows of numbers as an array, where they already are one; None where cells must be looked at."""
    if hasattr(samples, "iloc"):
        if not all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in samples.dtypes):
            return None
        return np.column_stack([samples.iloc[:, place].to_numpy(np.float64) for place in range(samples.shape[1])])
    return samples if isinstance(samples, np.ndarray) and samples.dtype.kind in "biuf" else None


def _as_typed(values: NDArray[Any], numbers: str) -> Read:
    """Values as the schema's numbers; a sample with one that is no such number is blank."""
    dtype, axes = np.dtype(numbers), tuple(range(1, values.ndim))
    if values.dtype == dtype and dtype.kind in "iu":
        return Read(values, np.ones(len(values), dtype=np.bool_))
    with np.errstate(all="ignore"):
        if dtype.kind == "f":
            exact = values if values.dtype == dtype else values.astype(np.float64)
            typed = exact.astype(dtype, copy=False)  # what float32 cannot hold is infinite
            readable = np.isfinite(typed).all(axis=axes)
        else:
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            fits = (values >= low) & (values <= high) & (values == np.floor(values))
            if values.dtype.kind == "f":
                fits &= np.abs(values) < 2.0**53
            typed = np.where(fits, values, 0).astype(dtype)
            readable = fits.all(axis=axes)
    if not readable.all():
        typed = np.where(readable.reshape(-1, *(1 for _ in axes)), typed, dtype.type(0))
    return Read(typed, np.asarray(readable, dtype=np.bool_))


def rows_of(samples: Samples) -> Iterator[Sequence[Any] | NDArray[Any] | None]:
    """Each row's cells, or None where a row is none."""
    if hasattr(samples, "iloc"):
        columns = [samples.iloc[:, place].to_numpy(dtype=object) for place in range(samples.shape[1])]
        yield from (tuple(cells) for cells in zip(*columns, strict=True))
        return
    for row in samples:
        held = row.to_numpy() if hasattr(row, "to_numpy") else row
        is_row = isinstance(held, Sequence) and not isinstance(held, str | bytes)
        yield held if is_row or (isinstance(held, np.ndarray) and held.ndim == 1) else None
