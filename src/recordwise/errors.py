"""Every way Recordwise says no.

    RecordwiseError
    ├── InvalidInput       a parameter, array, file or message breaks a stated rule (also a ValueError)
    │   ├── ChangedInput   a resumed run no longer matches what it started with
    │   └── OutOfRegime    a bound was asked for outside the regime in which it is proved
    ├── BudgetExceeded     the ledger cannot pay for a release
    ├── LedgerFault        the ledger is missing, locked, newer than this program, damaged or altered
    ├── ProtocolFault      a message that does not parse, was sent twice, or came from too few parties
    └── MissingExtra       an optional dependency is not installed (also an ImportError)

An error is one line that names the parameter, the rule and the value. Whoever raises one has spent nothing and left
nothing half-written. The one exception is a paid release of which nothing remains to be taught (`min_confidence`): it
is kept, and a run in the same folder may change that setting for free. `exit_code` is what the command returns.
"""

from __future__ import annotations

import re
from numbers import Real
from typing import ClassVar

MOST_WHOLE = 10**15  # more of anything does not fit a computer, nor a float exactly
MOST_RECORDS = 2**40  # nobody has as many
MOST_SAID = 300  # letters of another package's message
HIDDEN = "***"
# Up to the last @, or quotation mark, of the line: a password may hold either, and hiding more does no harm.
_IN_URL = re.compile(r"(://[^\s:/@]*:)(?!\*{3}@)[^\n]*@")
_IN_PARAMETER = re.compile(
    r"((?:password|passwd|secret|token)\s*=\s*)(?:(?:'|&#x27;).*(?:'|&#x27;)|[^\s&'\"]+)", re.IGNORECASE
)


class RecordwiseError(Exception):
    """One line. What looks like a password in it is hidden, wherever the line came from."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *about: object) -> None:
        super().__init__(*(hidden(part) if isinstance(part, str) else part for part in about))


class InvalidInput(RecordwiseError, ValueError):
    exit_code = 2


class ChangedInput(InvalidInput):
    exit_code = 3


class OutOfRegime(InvalidInput):
    exit_code = 4


class BudgetExceeded(RecordwiseError):
    exit_code = 5


class LedgerFault(RecordwiseError):
    exit_code = 6


class ProtocolFault(RecordwiseError):
    exit_code = 7


class MissingExtra(RecordwiseError, ImportError):
    exit_code = 8


def real(**values: object) -> None:
    """Refuse what is no number: text, None, an array."""
    for name, value in values.items():
        if not isinstance(value, Real):
            raise InvalidInput(f"{name} must be a number, got {shown(value)}")


def positive(**values: object) -> None:
    """Refuse what is not greater than zero; NaN is not."""
    real(**values)
    for name, value in values.items():
        if not value > 0:  # type: ignore[operator]
            raise InvalidInput(f"{name} must be > 0, got {value!s}")  # a fraction reads as one


def whole(**values: object) -> None:
    """Refuse what is not a whole number of at least one."""
    _at_least(1, values)


def count(**values: object) -> None:
    """Refuse what is not a whole number of at least zero."""
    _at_least(0, values)


def some_records(**values: object) -> None:
    """Refuse what is not a number of records: one at least, and no more than anybody has."""
    _at_least(1, values, MOST_RECORDS)


def probability(**values: object) -> None:
    """Refuse what does not lie strictly between zero and one."""
    real(**values)
    for name, value in values.items():
        if not 0 < value < 1:  # type: ignore[operator]
            raise InvalidInput(f"{name} must lie strictly between 0 and 1, got {value!r}")


def _at_least(least: int, values: dict[str, object], most: int = MOST_WHOLE) -> None:
    for name, value in values.items():
        number = value.__index__() if hasattr(value, "__index__") and not isinstance(value, bool) else -1
        if number < least:
            raise InvalidInput(f"{name} must be a whole number >= {least}, got {shown(value)}")
        if number > most:
            raise InvalidInput(f"{name} must be a whole number <= {most:,}, got {shown(value)}")


def hidden(text: str) -> str:
    """A text without the passwords of the URLs and connection parameters in it."""
    return _IN_PARAMETER.sub(rf"\1{HIDDEN}", _IN_URL.sub(rf"\1{HIDDEN}@", text))


def shown(value: object) -> str:
    """A value as an error's line shows it: never longer than sixty characters."""
    try:
        text = " ".join(hidden(repr(value)).split())
    except ValueError:  # a whole number of more digits than Python spells
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def first_line(fault: BaseException) -> str:
    """What another package's exception says, in one line."""
    said = str(fault).strip().splitlines()
    return said[0][:MOST_SAID] if said else type(fault).__name__


def one_line(words: str) -> str:
    """Words as one line that any terminal can show: what cannot be printed is a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(words.split()))
