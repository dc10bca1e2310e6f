"""Columns that their owner declares: codes look like numbers and are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recordwise.data.cells import word_of
from recordwise.data.samples import Kind, Samples
from recordwise.data.schema import CATEGORY, Column, Schema, rows_of
from recordwise.errors import InvalidInput, shown


def as_categories(schema: Schema, pool: Samples, names: Sequence[str]) -> Schema:
    """The schema of a table, with the named columns read as categories: those that the public pool holds.

    Codes are taken as the pool spells them: in a text file 01 and 1 are two, in a column of numbers they are one.
    """
    columns = {column.name: column for column in schema.columns if column.name}
    for name in names:
        if name not in columns or schema.kind not in (Kind.TABLE, Kind.VECTORS):
            known = ", ".join(columns) or "none has a name"
            raise InvalidInput(f"records.categorical must name columns of the pool ({known}), got {shown(name)}")
        if columns[name].kind != CATEGORY:
            place = list(columns).index(name)
            values = {word for cell in _cells(pool, name, place) if (word := word_of(cell)) is not None}
            if not values:
                raise InvalidInput(f"records.categorical: column {name!r} of the pool must hold at least one value")
            columns[name] = Column(name=name, kind=CATEGORY, categories=tuple(sorted(values)))
    if not names:
        return schema
    return replace(schema, kind=Kind.TABLE, columns=tuple(columns.values()), shape=(), numbers="")


def _cells(pool: Samples, name: str, place: int) -> list[Any]:
    if hasattr(pool, "iloc"):
        return list(pool.iloc[:, [str(one) for one in pool.columns].index(name)])
    return [row[place] for row in rows_of(pool) if row is not None and len(row) > place]
