"""CSV and Parquet: rows of cells as they stand in the file, and the samples and labels among them.

No column's type is decided here from its cells. A CSV cell is text; a Parquet column has the type that the file
declares. The schema says later what each cell means.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Loaded
from recordwise.errors import InvalidInput
from recordwise.formats import csv_file, parquet_file

Columns = dict[str, Any]  # float64 (NaN where missing), objects (None where missing), or a list of float32 vectors
Row = list[str] | None  # None where a line has too many or too few cells


def csv_table(path: Path, samples: str | Sequence[str] | None, labels: str | Sequence[str] | None) -> Loaded:
    """Samples as lists of text cells, None for a row that is none; labels as text, None where there is none."""
    header, lines = csv_file(path)
    rows = [row if len(row) == len(header) else None for row in lines]
    names, label_names = _chosen(path.name, header, samples, labels)
    places, label_places = ([header.index(name) for name in part] for part in (names, label_names))
    cells = [None if row is None else [row[place] for place in places] for row in rows]
    return Loaded(samples=cells, labels=_labels(rows, label_places), columns=tuple(names), parse=True)


def parquet_table(path: Path, samples: str | Sequence[str] | None, labels: str | Sequence[str] | None) -> Loaded:
    """Samples and labels from a Parquet file's columns, by the types that it declares.

    Numbers only give a float64 matrix, one text column gives strings, a column of lists gives one vector per row;
    everything else is an object array (n, columns).
    """
    file = path.name
    with parquet_file(path) as held:
        names, label_names = _chosen(file, held.names, samples, labels)
        content = held.read([*names, *label_names])
        columns: Columns = {name: _column(file, name, content.column(name)) for name in (*names, *label_names)}
    classes = [_label_column(file, name, columns[name]) for name in label_names]
    return Loaded(
        samples=_stacked(file, names, [columns[name] for name in names]),
        labels=None if not classes else classes[0] if len(classes) == 1 else np.column_stack(classes),
        columns=tuple(names),
    )


def _chosen(
    file: str, known: list[str], samples: str | Sequence[str] | None, labels: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    """The names of the sample columns (all but the labels if none are named) and of the label columns."""
    label_names = _list(labels)
    names = _list(samples) or [name for name in known if name not in label_names]
    for name in (*names, *label_names):
        if name not in known:
            raise InvalidInput(f"{file} has no column {name!r}, its columns are {', '.join(known)}")
    if not names or set(names) & set(label_names):
        raise InvalidInput(f"samples of {file} must be columns other than the labels, got {names} and {label_names}")
    return names, label_names


def _labels(rows: list[Row], places: list[int]) -> NDArray[Any] | None:
    if not places:
        return None
    labels = np.full((len(rows), len(places)), None, dtype=object)
    for number, row in enumerate(rows):
        if row is not None:
            labels[number] = [row[place] for place in places]
    return labels[:, 0] if len(places) == 1 else labels


def _column(file: str, name: str, column: Any) -> Any:
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(file, name, column.combine_chunks())
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        plain = column.cast(kind) if kind is not column.type else column
        return np.asarray(plain.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if pa.types.is_nested(kind):
        raise InvalidInput(f"column {name!r} of {file} must hold numbers, strings, dates or lists, it holds {kind}")
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)  # Python's own dates end there
    held = np.empty(len(column), dtype=object)
    for row, cell in enumerate(column):
        held[row] = value_of(cell)
    return held


def value_of(cell: Any) -> Any:
    """A cell as a Python value; None where there is none: text that is not UTF-8, a date beyond the calendar."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        return None


def _lists(file: str, name: str, column: Any) -> list[NDArray[np.float32]]:
    """One vector per row, of whatever length it has; none at all where there is no list."""
    import pyarrow as pa

    kind = column.type.value_type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise InvalidInput(f"column {name!r} of {file} must hold lists of numbers, it holds lists of {kind}")
    values = column.flatten().cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        single = np.asarray(values, dtype=np.float64).astype(np.float32)
    return np.split(single, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _stacked(file: str, names: list[str], columns: list[Any]) -> Any:
    if any(isinstance(column, list) for column in columns):
        if len(columns) > 1:
            raise InvalidInput(f"a column of lists must be the only sample column of {file}, got {names}")
        return columns[0]
    if all(column.dtype != object for column in columns):
        return np.column_stack(columns)
    found = np.empty((len(columns[0]), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        found[:, place] = column
    return found


def _label_column(file: str, name: str, column: Any) -> NDArray[Any]:
    if isinstance(column, list):
        raise InvalidInput(f"label column {name!r} of {file} must hold one value per row, it holds lists")
    return np.asarray(column)


def _list(names: str | Sequence[str] | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)
