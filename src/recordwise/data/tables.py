"""Tables in files: rows of cells as they stand there, and the samples, labels and names among them.

No column's type is decided here from its cells. A CSV cell is text; a workbook's cell has a type of its own; a Parquet
or Arrow column has the type that the file declares. The schema says later what each cell means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Loaded
from recordwise.errors import InvalidInput
from recordwise.formats import (
    Layout,
    arrow_folder,
    csv_file,
    ending,
    excel_file,
    features_of,
    parquet_file,
    picture_from,
)
from recordwise.progress import counted, part

Columns = dict[str, Any]  # float64 (NaN where missing), objects (None where missing), or a list of vectors or images
Row = list[Any] | None  # None where a line has too many or too few cells
Size = tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is wanted of a file, by the names that it has there.

    Attributes:
      samples: All but the others, where None.
      ids: What the samples are called; None is nothing.
    """

    samples: str | Sequence[str] | None = None
    labels: str | Sequence[str] | None = None
    ids: str | None = None

    def among(self, file: str, known: list[str]) -> tuple[list[str], list[str]]:
        """The names of the sample columns and of the label columns."""
        label_names = _list(self.labels)
        others = {*label_names, *_list(self.ids)}
        names = _list(self.samples) or [name for name in known if name not in others]
        for name in (*names, *others):
            if name not in known:
                hint = "; say its delimiter" if len(known) == 1 and set(known[0]) & set(",;|\t") else ""
                raise InvalidInput(f"{file} has no column {name!r}, its columns are {', '.join(known)}{hint}")
        if not names or set(names) & set(label_names):
            raise InvalidInput(
                f"samples of {file} must be columns other than the labels, got {names} and {label_names}"
            )
        return names, label_names

    @property
    def ids_name(self) -> str:
        return self.ids or "sample"


def cell_table(path: Path, asked: Asked, layout: Layout) -> Loaded:
    """Samples of a text file or a workbook as lists of cells, None for a row that is none; so are labels and ids."""
    if ending(path) == ".xlsx":
        header, rows = excel_file(path, layout.sheet)
    else:
        header, lines = csv_file(path, layout)
        rows = [_spelled(row, layout) if len(row) == len(header) else None for row in lines]
    names, label_names = asked.among(path.name, header)
    places, label_places = ([header.index(name) for name in part] for part in (names, label_names))
    cells = [None if row is None else [row[place] for place in places] for row in rows]
    ids = None if asked.ids is None else _labels(rows, [header.index(asked.ids)])
    return Loaded(
        samples=cells,
        labels=_labels(rows, label_places),
        columns=tuple(names),
        parse=True,
        ids=ids,
        ids_name=asked.ids_name,
    )


def _spelled(row: list[str], layout: Layout) -> list[Any]:
    return row if layout.decimal == "." else [layout.number(cell) for cell in row]


def parquet_table(path: Path, asked: Asked, size: Size = None) -> Loaded:
    """Samples and labels from a Parquet file's columns; see `arrow_table`."""
    with parquet_file(path) as held:
        asked = _standing_alone(asked, held.kinds)
        names, label_names = asked.among(path.name, held.names)
        return arrow_table(
            path.name, held.read([*dict.fromkeys((*names, *label_names, *_list(asked.ids)))]), asked, held.names, size
        )


def dataset_table(folder: Path, asked: Asked, size: Size = None) -> Loaded:
    """Samples and labels from the columns of a Hugging Face dataset on disk; see `arrow_table`."""
    content = arrow_folder(folder)
    asked = _standing_alone(asked, dict(zip(content.column_names, content.schema.types, strict=True)))
    return arrow_table(folder.name, content, asked, content.column_names, size)


def _standing_alone(asked: Asked, kinds: dict[str, Any]) -> Asked:
    """Where no samples are named and one column holds lists or images, that column is the samples."""
    import pyarrow as pa

    alone = [name for name, kind in kinds.items() if pa.types.is_nested(kind)]
    return asked if asked.samples is not None or len(alone) != 1 else replace(asked, samples=alone)


def arrow_table(file: str, content: Any, asked: Asked, known: list[str], size: Size = None) -> Loaded:
    """Samples and labels from an Arrow table's columns, by the types that it declares.

    Numbers only give a float64 matrix, one text column gives strings, a column of lists gives one vector per row, one
    of encoded images gives images; everything else is an object array (n, columns). Numbers that stand for declared
    names, as in Hugging Face's datasets, are those names.
    """
    names, label_names = asked.among(file, known)
    features = features_of(content)
    columns: Columns = {}
    wanted = [*dict.fromkeys((*names, *label_names))]
    for number, name in enumerate(wanted):
        with part(number, number + 1, len(wanted)):
            columns[name] = arrow_column(file, name, content.column(name), features.get(name), size)
    classes = [_label_column(file, name, columns[name]) for name in label_names]
    return Loaded(
        samples=stacked(file, names, [columns[name] for name in names]),
        labels=None if not classes else classes[0] if len(classes) == 1 else np.column_stack(classes),
        columns=tuple(names),
        ids=None if asked.ids is None else _objects(content.column(asked.ids)),
        ids_name=asked.ids_name,
    )


def _labels(rows: list[Row], places: list[int]) -> NDArray[Any] | None:
    if not places:
        return None
    labels = np.full((len(rows), len(places)), None, dtype=object)
    for number, row in enumerate(rows):
        if row is not None:
            labels[number] = [row[place] for place in places]
    return labels[:, 0] if len(places) == 1 else labels


def arrow_column(file: str, name: str, column: Any, feature: Any = None, size: Size = None) -> Any:
    """One column's cells: numbers, objects, vectors or images.

    Args:
      feature: What Hugging Face's datasets noted of it, if they did.
    """
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists(file, name, column.combine_chunks())
    if pa.types.is_integer(kind) and (known := _class_names(feature)):
        return _named(column, known)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        plain = column.cast(kind) if kind is not column.type else column
        return np.asarray(plain.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if pa.types.is_struct(kind) and isinstance(feature, dict) and feature.get("_type") == "Image":
        return [_picture(value_of(cell), size) for cell in counted(column, len(column))]
    if pa.types.is_nested(kind):
        raise InvalidInput(f"column {name!r} of {file} must hold numbers, strings, dates or lists, it holds {kind}")
    if (pa.types.is_timestamp(kind) or pa.types.is_time64(kind)) and kind.unit == "ns":
        micro = pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.time64("us")
        column = column.cast(micro, safe=False)  # Python's own dates end there
    return _objects(column)


def _objects(column: Any) -> NDArray[Any]:
    held = np.empty(len(column), dtype=object)
    for row, cell in enumerate(counted(column, len(column))):
        held[row] = value_of(cell)
    return held


def _class_names(feature: Any) -> list[str]:
    """The names that whole numbers stand for, if they do."""
    names = feature.get("names") if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" else None
    return [str(name) for name in names] if isinstance(names, list) else []


def _named(column: Any, names: list[str]) -> NDArray[Any]:
    held = _objects(column)
    for row, number in enumerate(held):
        held[row] = names[number] if number is not None and 0 <= number < len(names) else None
    return held


def _picture(cell: Any, size: Size) -> NDArray[np.uint8] | None:
    """An encoded image; None where it is none, or lies somewhere else."""
    content = cell.get("bytes") if isinstance(cell, dict) else None
    try:
        return picture_from(content, size) if isinstance(content, bytes) else None
    except InvalidInput:  # whatever is wrong with it, this one image is not readable
        return None


def value_of(cell: Any) -> Any:
    """A cell as a Python value; None where there is none: text that is not UTF-8, a date beyond the calendar."""
    try:
        return cell.as_py()
    except (ValueError, OverflowError):
        return None


def _lists(file: str, name: str, column: Any) -> list[NDArray[Any]]:
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


def stacked(file: str, names: list[str], columns: list[Any]) -> Any:
    """Columns side by side."""
    if any(isinstance(column, list) for column in columns):
        if len(columns) > 1:
            raise InvalidInput(f"a column of lists or images must be the only sample column of {file}, got {names}")
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
