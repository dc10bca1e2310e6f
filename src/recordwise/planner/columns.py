"""What is odd about a column of the pool: read as what it is not, in another unit, or a name and no measurement."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recordwise.data.cells import DATE_FORMATS, DAY, EPOCH, NO_DAY, SHORT_FORMATS, UNCLEAR_FORMATS, days_of, number_of
from recordwise.data.schema import CATEGORY, DATE, NUMBER, Column
from recordwise.encoders.table import MOST_VALUES

MOSTLY = 0.8  # of a column's cells
MANY = 0.5  # different values, as a share of the rows: hardly any row tells something about another
ALL = 0.99  # different values, as a share of the rows: (nearly) every row has its own
NEARLY_ALL = 0.9  # of a column's cells: hardly anything of it is left
FEW_ROWS = 20  # below so many rows a column shows nothing
MOST_CODES = 200  # more whole numbers than that are taken as numbers
LONGEST_CODE = 1e15  # floats tell whole numbers below it apart
WORDS = 3  # from so many words on, on average, a cell is text
MORE_DATES = (*(one for pair in UNCLEAR_FORMATS for one in pair), "%Y%m%d", "%d %b %Y", "%b %d, %Y")
OUTSIDE, WITHIN = 0.01, 0.02  # of the cells beyond a declared range; of a declared range that the pool fills
TAILS = (0.01, 0.99)  # of a column of the pool: between them it lies, but for a few cells
DIGITS = 6  # from so many on, if most numbers have the same, they may be identifiers
FAR = 20  # times as many values as rows: so far whole numbers are spread that nobody counted
MOMENTS = (631e6, 2.21e9)  # seconds since 1970, of 1990 to 2040
# Words of a column's name: anywhere in it, and at its end.
NAMES = re.compile(
    r"(^|_)(u?u?id|guid|mrn|nhs|ssn|(patient|person|subject|case|visit|record|user|customer|client|sample|study)_?id)s?(_|$)"
    r"|(^|_)(key|number|num|nr|no)$"
)


class Likely(StrEnum):
    """What a column may hold, other than what it is read as."""

    IDENTIFIERS = "identifiers"
    PERHAPS_IDENTIFIERS = "perhaps identifiers"
    FREE_TEXT = "free text"
    CODES = "codes"


class Doubt(NamedTuple):
    """What is odd about a column, in words that follow its name; a grave one can hardly be meant."""

    text: str
    likely: Likely | None = None
    grave: bool = False


def odd(column: Column, cells: NDArray[Any]) -> Doubt | None:
    """What is odd about the pool's cells, as they are read without a range; None where nothing is."""
    return _category(cells) if column.kind == CATEGORY else _number(column, cells)


def beyond(column: Column, pool: NDArray[Any], test: NDArray[Any]) -> Doubt | None:
    """Whether numbers or dates of a test file mostly lie where hardly any of the pool's lie; None for categories."""
    if column.kind == CATEGORY:
        return None
    known, new = (np.asarray(cells, dtype=np.float64) for cells in (pool, test))
    known, new = known[np.isfinite(known)], new[np.isfinite(new)]
    if min(len(known), len(new)) < FEW_ROWS:
        return None
    outside = float(((new < known.min()) | (new > known.max())).mean())
    low, high = np.quantile(known, TAILS)
    if outside <= MANY and not ((new < low) | (new > high)).mean() > MOSTLY:
        return None
    if column.kind == DATE:
        here, there = _days(new), _days(known)
        return Doubt(f"is from another time in the [test] file: {here}, the pool {there}") if here and there else None
    here, there = (f"{one[0]:.4g} to {one[1]:.4g}" for one in (np.quantile(new, TAILS), (low, high)))
    return Doubt(f"is {here} in the [test] file and {there} in the pool: the unit may differ, also from the records'")


def _days(moments: NDArray[np.float64]) -> str:
    """The first and the last day, in words; none where they are times of the day, or no calendar holds them."""
    try:
        first, last = ((EPOCH + float(moment) * DAY).date() for moment in (moments.min(), moments.max()))
    except OverflowError:
        return ""
    return "" if first == last == NO_DAY else f"{first} to {last}"


def _category(cells: NDArray[Any]) -> Doubt | None:
    words = [cell for cell in cells if cell is not None]
    if len(words) < FEW_ROWS:
        return None
    different = len(set(words)) / len(words)
    some = words[:: max(1, len(words) // 500)]
    dates = np.mean([not np.isnan(days_of(word, (*DATE_FORMATS, *MORE_DATES))) for word in some])
    if dates >= MOSTLY and np.mean([word.isdigit() and len(word) != 8 for word in some]) < MOSTLY:
        return Doubt("holds dates but is read as categories: declare it as kind 'date', with their formats")
    if np.mean([not np.isnan(days_of(word, SHORT_FORMATS)) for word in some]) >= MOSTLY:
        return Doubt(
            "looks like dates with two-digit years but is read as categories: if they are, declare it as kind 'date', "
            "with their formats, or write years with four digits"
        )
    if np.mean([not np.isnan(number_of(word)) for word in some]) >= MOSTLY and different > 0.1:
        return Doubt(
            "holds numbers but is read as categories: declare it as kind 'number', and other cells are missing"
        )
    if np.mean([len(word.split()) for word in some]) >= WORDS and different > MANY / 2:
        text = "holds free text but is read as categories: leave it out, or make the text the sample"
        return Doubt(text, Likely.FREE_TEXT)
    if different > MANY:
        text = f"has {len(set(words))} values in {len(words)} rows, as identifiers do: leave it out of samples"
        return Doubt(text, Likely.IDENTIFIERS)
    if len(set(words)) > MOST_VALUES:
        return Doubt(
            f"has {len(set(words))} values, of which the {MOST_VALUES} most frequent are told apart and all others are "
            "alike: group them, or raise the encoder's max_values"
        )
    return None


def _number(column: Column, cells: NDArray[Any]) -> Doubt | None:
    values = np.asarray(cells, dtype=np.float64)
    values = values[np.isfinite(values)]
    if len(values) < FEW_ROWS:
        return None
    if column.range is not None:
        low, high = column.range
        outside = float(((values < low) | (values > high)).mean())
        if outside > OUTSIDE:
            return Doubt(
                f"lies outside its declared range [{low:g}, {high:g}] in {100 * outside:.0f} % of the pool, which then "
                "counts as missing: declare the range in the pool's unit",
                grave=outside > NEARLY_ALL,
            )
        if np.ptp(values) < WITHIN * (high - low):
            return Doubt(
                f"fills [{values.min():g}, {values.max():g}] of its declared range [{low:g}, {high:g}]: if records "
                "fill the rest, they are not like the pool; declare the range in the pool's unit"
            )
    if column.kind != NUMBER or not (values == np.floor(values)).all():
        return None
    if _spell_dates(values):
        return Doubt("holds dates written as numbers (YYYYMMDD): write them as dates, or declare kind 'date'")
    if doubt := _like_identifiers(column.name, values):
        return doubt
    if _like_codes(values):
        return Doubt(
            f"is read as numbers, and its {len(np.unique(values))} different values look like codes: if they are, name "
            "it in records.categorical",
            Likely.CODES,
        )
    return None


def _like_identifiers(name: str, values: NDArray[np.float64]) -> Doubt | None:
    """Whether whole numbers name a row, or count time: neither measures anything."""
    named = NAMES.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower())
    count, different = len(values), len(np.unique(values))
    each = different > ALL * count and count >= 50
    if each and (named or np.ptp(values) + 1 <= 2 * count):
        text = "has a different whole number in every row, as identifiers do: leave it out of samples"
        return Doubt(text, Likely.IDENTIFIERS)
    for unit, size in (("seconds", 1), ("milliseconds", 1000)):
        low, high = MOMENTS
        if different > MANY * count and size * low <= values.min() and values.max() <= size * high:
            return Doubt(
                f"looks like points in time in {unit} since 1970: if they are, write them as dates, or leave it out of "
                "samples where time says nothing about the class"
            )
    digits = np.unique(np.floor(np.log10(np.maximum(values, 1))), return_counts=True)
    alike = digits[0][digits[1].argmax()] + 1 >= DIGITS and digits[1].max() >= MOSTLY * count
    alike = alike and values.min() >= 0 and values.max() < LONGEST_CODE  # beyond, measured numbers are whole ones, too
    if (named and different > MANY * count) or (each and alike and np.ptp(values) > FAR * count and not _steps(values)):
        text = f"may hold identifiers, {different} whole numbers in {count} rows: if so, leave it out of samples"
        return Doubt(text, Likely.PERHAPS_IDENTIFIERS)
    return None


def _steps(values: NDArray[np.float64]) -> bool:
    """Whether whole numbers are amounts, in steps of ten or more."""
    different = np.unique(values)
    return different[-1] < LONGEST_CODE and int(np.gcd.reduce(np.diff(different.astype(np.int64)))) >= 10


def _like_codes(values: NDArray[np.float64]) -> bool:
    """Whether whole numbers look like postcodes and such: few, long, far apart, not in steps of ten or more."""
    different = np.unique(values)
    few = 2 < len(different) <= MOST_CODES and len(values) >= FEW_ROWS * len(different)
    long = different[0] >= 100 and different[-1] < LONGEST_CODE
    apart = np.ptp(different) >= FEW_ROWS * len(different)
    return bool(few and long and apart) and not _steps(values)


def _spell_dates(values: NDArray[np.float64]) -> bool:
    year, month, day = values // 10_000, values // 100 % 100, values % 100
    return bool(((year >= 1800) & (year <= 2200) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())
