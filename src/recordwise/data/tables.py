"""CSV and Parquet: named columns of numbers or strings, and the samples and labels among them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Loaded
from recordwise.errors import InvalidInput, MissingExtra

Columns = dict[str, NDArray[Any]]  # float64 (NaN where missing), objects of strings (None where missing), or (n, dim)


def read_csv(path: Path) -> Columns:
    """The columns of a CSV file with a header; a column is numeric when every cell that is not empty is a number."""
    with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets put a mark before the first name
        lines = csv.reader(file, skipinitialspace=True, strict=True)
        try:
            header = [name.strip() for name in next(lines, [])]
            numbered = [(lines.line_num, line) for line in lines if line]
        except csv.Error as fault:
            raise InvalidInput(f"{path.name}, line {lines.line_num}: {fault}") from fault
    if not header or not numbered or len(set(header)) != len(header):
        raise InvalidInput(
            f"{path.name} must have a header of different names and at least one row, header is {header}"
        )
    for number, line in numbered:
        if len(line) != len(header):
            raise InvalidInput(f"{path.name} must have {len(header)} cells in every row, line {number} has {len(line)}")
    columns = zip(*(line for _, line in numbered), strict=True)
    return {name: _typed(column) for name, column in zip(header, columns, strict=True)}


def read_parquet(path: Path, *names: str | Sequence[str] | None) -> Columns:
    """The named columns of a Parquet file (all of them if the first, the samples, are not named)."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as fault:
        raise MissingExtra("Parquet needs pyarrow: install recordwise[parquet]") from fault
    wanted = None if names[0] is None else [name for part in names for name in _list(part)]
    known = pq.read_schema(path).names
    for name in wanted or ():
        _known(path.name, name, known)
    content = pq.read_table(path, columns=wanted)
    columns: Columns = {}
    for name, column in zip(content.column_names, content.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            columns[name] = _stack(path.name, name, column)
        elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            columns[name] = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            columns[name] = np.array(column.to_pylist(), dtype=object)
        else:
            raise InvalidInput(f"column {name!r} of {path.name} must hold numbers, strings or lists, it holds {kind}")
    return columns


def table(
    file: str, columns: Columns, samples: str | Sequence[str] | None, labels: str | Sequence[str] | None
) -> Loaded:
    """Samples and labels from named columns.

    Numbers only give a float64 matrix, one text column gives strings, a column of lists gives vectors; everything else
    is an object array (n, columns) of floats and strings.
    """
    label_names = _list(labels)
    names = _list(samples) or [name for name in columns if name not in label_names]
    for name in (*names, *label_names):
        _known(file, name, list(columns))
    if not names or set(names) & set(label_names):
        raise InvalidInput(f"samples of {file} must be columns other than the labels, got {names} and {label_names}")
    chosen = [columns[name] for name in names]
    if len(chosen) == 1 and (chosen[0].dtype == object or chosen[0].ndim == 2):
        found = chosen[0]
    elif any(column.ndim == 2 for column in chosen):
        raise InvalidInput(f"a column of lists must be the only sample column of {file}, got {names}")
    elif all(column.dtype != object for column in chosen):
        found = np.column_stack(chosen)
    else:
        found = np.empty((len(chosen[0]), len(chosen)), dtype=object)
        for j, column in enumerate(chosen):
            found[:, j] = column
    label_columns = [_labels(file, name, columns[name]) for name in label_names]
    classes = None if not label_names else label_columns[0] if len(label_names) == 1 else np.column_stack(label_columns)
    return Loaded(samples=found, labels=classes, columns=tuple(names))


def _labels(file: str, name: str, column: NDArray[Any]) -> NDArray[Any]:
    """A label column without gaps; whole numbers become integers."""
    if column.dtype == object:
        missing = np.flatnonzero([cell is None for cell in column])
    else:
        missing = np.flatnonzero(~np.isfinite(column))
    if len(missing):
        raise InvalidInput(f"label column {name!r} of {file} must have no gaps, row {missing[0]} has no label")
    whole = column.dtype != object and bool((column == np.floor(column)).all())
    return column.astype(np.int64) if whole else column


def _typed(cells: Sequence[str]) -> NDArray[Any]:
    try:
        return np.array([float(cell) if cell.strip() else np.nan for cell in cells])
    except ValueError:
        return np.array([cell.strip() or None for cell in cells], dtype=object)


def _stack(file: str, name: str, column: Any) -> NDArray[np.float32]:
    values = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    if column.null_count or len(values) % len(column):
        raise InvalidInput(f"column {name!r} of {file} must hold lists of one length")
    lengths = column.combine_chunks().value_lengths()
    if len(lengths.unique()) != 1:
        raise InvalidInput(f"column {name!r} of {file} must hold lists of one length")
    return np.asarray(values, dtype=np.float32).reshape(len(column), -1)


def _list(names: str | Sequence[str] | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def _known(file: str, name: str, known: list[str]) -> None:
    if name not in known:
        raise InvalidInput(f"{file} has no column {name!r}, its columns are {', '.join(known)}")
