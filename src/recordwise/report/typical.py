"""What is typical of a query over a table: the columns in which its pool samples differ most from the whole pool."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Ints
from recordwise.data import Kind, Samples, Schema
from recordwise.data.schema import CATEGORY, DATE, NUMBER

COLUMNS, LETTERS = 5, 40  # what fits a card
APART = 0.4  # deviations of the pool by which a query's mean must differ to be called typical
EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column of numbers, or of days."""

    name: str
    cells: NDArray[np.float64]
    spelled: Callable[[float], str]

    def compare(self, members: Ints) -> tuple[float, str, str] | None:
        """How many deviations the members' mean lies from the pool's, and both in words; None without numbers."""
        here, pool = (cells[np.isfinite(cells)] for cells in (self.cells[members], self.cells))
        if not len(here) or not pool.std() > 0:
            return None
        return (
            abs(float(here.mean() - pool.mean())) / float(pool.std()),
            self.spelled(float(here.mean())),
            self.spelled(float(pool.mean())),
        )


@dataclass(frozen=True, eq=False)
class Words:
    """A column of categories."""

    name: str
    cells: NDArray[Any]

    def compare(self, members: Ints) -> tuple[float, str, str] | None:
        """The value whose share differs most, in its own deviations over the pool, and both shares in words."""
        pool, here = Counter(self.cells.tolist()), Counter(self.cells[members].tolist())
        found = None
        for value, times in pool.items():
            share, mine = times / len(self.cells), here[value] / len(members)
            apart = abs(mine - share) / math.sqrt(max(share * (1 - share), 1 / len(self.cells)))
            if value is not None and share < 1 and (found is None or apart > found[0]):
                found = apart, f"{_cut(value)}: {100 * mine:.0f} %", f"{100 * share:.0f} %"
        return found


def columns_of(schema: Schema, pool: Samples) -> list[Numbers | Words]:
    """The named columns of a pool that can be compared; none where samples are no rows of a table."""
    if schema.kind not in (Kind.TABLE, Kind.VECTORS) or not schema.names:
        return []
    made: list[Numbers | Words] = []
    for column, cells in zip(schema.columns, np.asarray(schema.pool(pool)).T, strict=True):
        if column.kind == CATEGORY:
            made.append(Words(column.name, cells))
        elif column.kind in (NUMBER, DATE):
            made.append(Numbers(column.name, cells.astype(np.float64), _day if column.kind == DATE else _number))
    return made


def typical(columns: Sequence[Numbers | Words], members: Ints) -> list[list[str]]:
    """[column, here, in the pool], what differs most first; empty where the members are like the pool."""
    compared = [(column.name, found) for column in columns if (found := column.compare(members)) is not None]
    apart = sorted(compared, key=lambda one: -one[1][0])[:COLUMNS]
    return [[_cut(name), here, pool] for name, (much, here, pool) in apart if much >= APART]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _day(days: float) -> str:
    try:
        return (EPOCH + timedelta(days=round(days))).isoformat()
    except OverflowError:
        return _number(days)


def _cut(text: Any) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= LETTERS else words[: LETTERS - 1] + "…"
