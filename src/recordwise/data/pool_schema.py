"""What a public pool fixes: the schema of its samples. A pool is public, so whatever is wrong with it is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.cells import (
    DATE_FORMATS,
    TIME_FORMATS,
    UNCLEAR_FORMATS,
    days_of,
    is_date,
    is_number,
    missing,
    number_of,
    word_of,
)
from recordwise.data.pictures import BYTES, is_picture, pixels_of
from recordwise.data.samples import Kind, Samples, taken
from recordwise.data.schema import CATEGORY, DATE, NUMBER, TEXT, Column, Schema, as_numbers, rows_of
from recordwise.errors import InvalidInput
from recordwise.progress import counted


def describe(pool: Samples, names: tuple[str, ...], parse: bool) -> Schema:
    """The schema of a pool; see `Schema.of`."""
    pool = taken(pool, "the pool")
    if hasattr(pool, "iloc"):
        if not hasattr(pool, "columns"):  # a pandas Series
            return describe(pool.to_numpy(), names, parse)
        names = tuple(map(str, pool.columns))
        if not names:
            raise InvalidInput("the pool must have at least one column, it has none")
        for name, dtype in pool.dtypes.items():
            if getattr(dtype, "kind", "") == "c":
                raise InvalidInput(f"the pool must hold numbers, text or dates. Complex data not supported in {name!r}")
        numeric = as_numbers(pool)
        if numeric is not None and np.isfinite(numeric).all():
            numbers = _numbers(np.result_type(*pool.dtypes))
            return _vectors(len(names), "float64" if numbers == BYTES else numbers, names)
        held = [pool.iloc[:, place] for place in range(len(names))]
        words = [str(column.dtype) == "category" for column in held]
        table = _table([column.to_numpy(dtype=object) for column in held], names, parse, words)
        lone = len(names) == 1 and table.columns[0].kind == CATEGORY and not words[0]
        return _text(names) if lone else table
    if isinstance(pool, Sequence) and not isinstance(pool, str | bytes):
        return _sequence(pool, names, parse)
    array = np.asarray(pool)
    if array.dtype == object and array.ndim == 1:
        return _sequence(list(array), names, parse)
    if array.dtype.kind in "biuf" and array.ndim == 2 and len(names) == array.shape[1] and not np.isfinite(array).all():
        return Schema(kind=Kind.TABLE, columns=tuple(Column(name=name) for name in names))  # columns may have gaps
    if array.dtype.kind in "biuf" and array.ndim == 2:
        return _vectors(array.shape[1], _numbers(array.dtype), names)
    if array.dtype.kind in "biuf" and array.ndim in (3, 4):
        return Schema(kind=Kind.IMAGES, shape=array.shape[1:], numbers=_numbers(array.dtype, images=True))
    if array.dtype.kind in "UST" and array.ndim == 1:
        return Schema(kind=Kind.TEXT)
    if array.dtype.kind in "OUSTM" and array.ndim == 2:
        if len(names) == 1 and not parse and any(isinstance(cell, str) for cell in array[:, 0]):
            return _text(names)
        return _table(list(array.T), names, parse)
    raise InvalidInput(
        f"samples must be images (n, h, w[, c]), strings, a table or vectors (n, dim), got {type(pool).__name__} "
        f"of shape {array.shape} and type {array.dtype}"
    )


def _sequence(pool: Sequence[Any], names: tuple[str, ...], parse: bool) -> Schema:
    first = next((one for one in pool if one is not None), None)
    if isinstance(first, str):
        return _text(names)
    if is_picture(first):
        return _pictures(pool)
    if first is not None and not isinstance(first, Sequence | np.ndarray) and not hasattr(first, "to_numpy"):
        raise InvalidInput(f"samples must be text, images or rows of cells, the pool holds {type(first).__name__}")
    rows = [list(row) if row is not None else [] for row in rows_of(pool)]
    width = len(rows[0]) if rows else 0
    for number, row in enumerate(rows):
        if not row or len(row) != width:
            if np.ndim(pool[number]) == 2:  # images as nested lists
                return describe(np.asarray(pool), names, parse)
            raise InvalidInput(f"samples must have {width} cells in every row, row {number} has {len(row)}")
    if not rows:
        raise InvalidInput("X_public must hold at least one sample, got 0")
    if not parse:
        array = np.asarray(pool)
        return describe(array if array.dtype.kind in "biuf" else _objects(rows), names, parse)
    schema = _table([np.array(column, dtype=object) for column in zip(*rows, strict=True)], names, parse)
    if all(column.kind == NUMBER for column in schema.columns):
        dense = not any(np.isnan(number_of(cell)) for row in rows for cell in row)
        return _vectors(width, "float64", names) if dense else schema
    return _text(names) if width == 1 else schema


def _objects(rows: list[list[Any]]) -> NDArray[Any]:
    table = np.empty((len(rows), len(rows[0])), dtype=object)
    for number, row in enumerate(rows):
        table[number] = row
    return table


def _numbers(dtype: np.dtype[Any], *, images: bool = False) -> str:
    if dtype == np.uint8:
        return BYTES
    if dtype.kind in "biu":
        return "int64" if images else "float64"
    return "float32" if dtype.itemsize <= 4 else "float64"


def _vectors(dim: int, numbers: str, names: tuple[str, ...]) -> Schema:
    columns = tuple(Column(name=name) for name in names) if len(names) == dim else ()
    return Schema(kind=Kind.VECTORS, shape=(dim,), numbers=numbers, columns=columns)


def _text(names: tuple[str, ...]) -> Schema:
    return Schema(kind=Kind.TEXT, columns=tuple(Column(name=name, kind=TEXT) for name in names[:1]))


def _table(
    columns: Sequence[NDArray[Any]], names: tuple[str, ...], parse: bool, words: Sequence[bool] | None = None
) -> Schema:
    if not len(columns[0]):
        raise InvalidInput("X_public must hold at least one sample, got 0")
    named = names if len(names) == len(columns) else ("",) * len(columns)
    forced = words or [False] * len(columns)
    return Schema(
        kind=Kind.TABLE,
        columns=tuple(
            _column(name, cells, parse, word)
            for name, cells, word in counted(zip(named, columns, forced, strict=True), len(columns))
        ),
    )


def _column(name: str, cells: Iterable[Any], parse: bool, word: bool) -> Column:
    present = [cell for cell in cells if not missing(cell) and not (parse and not str(cell).strip())]
    if not present and not word:
        return Column(name=name)
    if not word and all(is_date(cell) for cell in present):
        return Column(name=name, kind=DATE, formats=DATE_FORMATS[:1])
    if not word and all(_spells_number(cell, parse) for cell in present):
        return Column(name=name)
    if parse and not word and (formats := _date_formats(present)):
        return Column(name=name, kind=DATE, formats=formats)
    values = {found for cell in present if (found := word_of(cell)) is not None}
    if not values:
        raise InvalidInput(f"column {name!r} of the pool must hold numbers, words or dates, it holds none of them")
    return Column(name=name, kind=CATEGORY, categories=tuple(sorted(values)))


def _date_formats(cells: list[Any]) -> tuple[str, ...]:
    """How text spells dates, if all of it does and nobody could read it otherwise."""
    if any(isinstance(cell, str) and not any(letter.isdigit() for letter in cell[:40]) for cell in cells[:1]):
        return ()
    for group in (DATE_FORMATS, TIME_FORMATS):
        used: list[str] = []
        for cell in cells:
            found = next((one for one in (*used[::-1], *group) if _spells(cell, one)), None)
            if found is None:
                break
            used += [found] if found not in used else []
        else:
            return tuple(used)
    for pair in UNCLEAR_FORMATS:
        fitting = [one for one in pair if all(_spells(cell, one) for cell in cells)]
        if len(fitting) == 1:
            return tuple(fitting)
    return ()


def _spells(cell: Any, spelling: str) -> bool:
    return is_date(cell) or (isinstance(cell, str) and not np.isnan(days_of(cell, [spelling])))


def _spells_number(cell: Any, parse: bool) -> bool:
    return not np.isnan(number_of(cell)) if parse else is_number(cell)


def _pictures(pool: Sequence[Any]) -> Schema:
    images = [pixels_of(one) for one in pool]
    for number, image in enumerate(images):
        if image is None:
            raise InvalidInput(f"samples must be images with finite pixels, row {number} is not")
    shapes = [image.shape[:2] for image in images if image is not None]
    for number, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise InvalidInput(
                f"images must have one size, row 0 is {_size(shapes[0])} and row {number} {_size(shape)}; "
                "say image_size to resize them"
            )
    channels = max(image.shape[2] if image is not None and image.ndim == 3 else 0 for image in images)
    numbers = _numbers(np.result_type(*{np.asarray(image).dtype for image in images}), images=True)
    return Schema(kind=Kind.IMAGES, shape=(*shapes[0], channels) if channels else shapes[0], numbers=numbers)


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]} pixels"
