"""One cell of a table, read by a fixed rule.

What a cell says depends on that cell and on the public column it stands in, never on other rows. A cell that does not
fit its column is missing: NaN among numbers and dates, None among words.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

NAN = math.nan
DAY, EPOCH = timedelta(days=1), datetime(1970, 1, 1)
NO_DAY = date(1900, 1, 1)  # where strptime puts a time of the day
_DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y")  # spellings that nobody reads otherwise
_MONTHS = ("%b %Y", "%B %Y")
_TIMES = ("%H:%M:%S", "%H:%M", "%H:%M:%S.%f")
_STAMPS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S.%f")
_LONG = ("%Y-%m-%d %H:%M:%S%z", *(f"{day} {time}" for day in _DAYS for time in _TIMES))
DATE_FORMATS = (*_DAYS, *_STAMPS, *_LONG, *_MONTHS)
TIME_FORMATS = _TIMES  # of a day that is not named
# Which of a pair is meant, somebody must say, or a day after the twelfth must show.
UNCLEAR_FORMATS = tuple(
    (f"%m{mark}%d{mark}%Y{time}", f"%d{mark}%m{mark}%Y{time}")
    for mark in ("/", "-")
    for time in ("", " %H:%M", " %H:%M:%S")
)
# Never taken for dates unless declared: the century is a guess, and version numbers look the same.
SHORT_FORMATS = tuple(
    f"{day}{time}" for day in ("%d.%m.%y", "%m/%d/%y", "%d/%m/%y") for time in ("", " %H:%M", " %H:%M:%S")
)
MOST_FORMAT = 64  # letters
_WHOLE = 2.0**53  # floats below are whole numbers without a doubt
_NUMBERS = (Real, Decimal, np.number, np.bool_)


class Days(float):
    """A point in time that was read: days since 1970. A number, that is still known to be a date."""

    __slots__ = ()


def missing(cell: Any) -> bool:
    """Whether a cell is a gap: None, NaN, NaT or pandas' NA."""
    if cell is None or isinstance(cell, str):
        return cell is None
    try:
        different = cell != cell  # NaN and NaT differ from themselves, NA answers NA
    except Exception:  # an object that cannot be compared says nothing
        return True
    return bool(different) if isinstance(different, bool | np.bool_) else str(different) == "<NA>"


def is_number(cell: Any) -> bool:
    """Whether a cell is a number by its type."""
    return isinstance(cell, _NUMBERS) and not isinstance(cell, np.complexfloating)


def is_date(cell: Any) -> bool:
    """Whether a cell is a point in time, or a time of the day, by its type."""
    return isinstance(cell, date | time | np.datetime64 | Days)


def decoded(cell: Any) -> str | None:
    """A cell's text as it stands, or None where it is none: other types, bytes that are not UTF-8."""
    if isinstance(cell, bytes):
        try:
            return cell.decode()
        except UnicodeDecodeError:
            return None
    if not isinstance(cell, str):
        return None
    try:
        cell.encode()  # what a reader could not decode stands there as a lone surrogate
    except UnicodeEncodeError:
        return None
    return str(cell)


def real(cell: Any) -> Any:
    """A complex number without imaginary part is a number: pandas makes a column complex for one cell that has one."""
    return cell.real if isinstance(cell, complex | np.complexfloating) and cell.imag == 0 else cell


def number_of(cell: Any) -> float:
    """A finite number: of a number's type, or spelled in decimal digits."""
    if isinstance(cell, str | bytes):
        text = decoded(cell)
        if text is None or "_" in text:  # Python's own spelling of literals
            return NAN
        cell = text.strip()
    elif not is_number(cell := real(cell)):
        return NAN
    try:
        value = float(cell)
    except Exception:  # whatever a cell holds, it is no number then
        return NAN
    return value if math.isfinite(value) else NAN


def word_of(cell: Any) -> str | None:
    """A category's name. 2, 2.0 and "2" are the same one."""
    if isinstance(cell, str | bytes):
        text = decoded(cell)
        return (text.strip() or None) if text is not None else None
    if missing(cell):
        return None
    if isinstance(cell, bool | np.bool_):
        return str(bool(cell))
    if is_number(cell := real(cell)):
        try:
            value = float(cell)
        except Exception:  # whatever a cell holds, it is no name then
            return None
        if not math.isfinite(value):
            return None
        return str(int(value)) if value == math.floor(value) and abs(value) < _WHOLE else repr(value)
    return cell.isoformat() if isinstance(cell, date) else None


def date_of(cell: Any, formats: Sequence[str]) -> Days:
    """What `days_of` says, as a date."""
    return Days(days_of(cell, formats))


def days_of(cell: Any, formats: Sequence[str]) -> float:
    """A point in time as days since 1970: a date's type, text in one of the formats, or a number of days."""
    if isinstance(cell, str | bytes):
        return _parsed(decoded(cell), formats)
    if missing(cell):
        return NAN
    try:
        if isinstance(cell, time):
            cell = datetime.combine(NO_DAY, cell)
        if isinstance(cell, np.datetime64):
            cell = cell.astype("datetime64[us]").item()
        if isinstance(cell, datetime):
            cell = datetime.combine(cell.date(), cell.timetz())  # of whatever subclass: pandas' divides otherwise
            moment = cell.astimezone(UTC).replace(tzinfo=None) if cell.tzinfo else cell
            return float((moment - EPOCH) / DAY)
        if isinstance(cell, date):
            return float((cell - EPOCH.date()).days)
    except Exception:  # a moment that no calendar holds
        return NAN
    return NAN if isinstance(cell, bool | np.bool_) else number_of(cell)


def spells_dates(spelling: str) -> bool:
    """Whether a format reads what it writes. With another one, text and nothing else would make Python raise."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            datetime.strptime(EPOCH.replace(tzinfo=UTC).strftime(spelling), spelling)
    except Exception:
        return False
    return len(spelling) <= MOST_FORMAT


def _parsed(text: str | None, formats: Sequence[str]) -> float:
    for spelling in formats if text is not None else ():
        try:
            moment = datetime.strptime(str(text).strip(), spelling)
            return ((moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment) - EPOCH) / DAY
        except (ValueError, OverflowError):
            continue
    return NAN
