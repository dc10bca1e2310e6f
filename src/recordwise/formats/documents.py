"""JSON and TOML: bounded in size, depth and digits before anything is made of them."""

from __future__ import annotations

import json
import math
import re
import tomllib
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from recordwise.errors import InvalidInput, first_line, shown
from recordwise.formats.files import content_of, text_of

MOST_JSON, MOST_TOML = 1 << 28, 1 << 24  # bytes
MOST_DEPTH, MOST_DIGITS = 100, 300  # of a number: every float has fewer, and more would be slow
ESCAPED = re.compile(rb"\\.", re.DOTALL)
DEEPER = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
NO_BRACKETS = bytes({*range(256)} - {*DEEPER})
HALF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
WHOLE = 1 << 63  # TOML's whole numbers have 64 bits
_PART = r"""[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*"""
LONG_KEY = re.compile(rf"(?:^|[{{,])[ \t\[]*{_PART}(?:\.{_PART}){{{MOST_DEPTH},}}", re.MULTILINE)


def json_from(content: bytes, what: str = "JSON", *, most: int = MOST_JSON) -> Any:
    """What JSON says: text is valid Unicode, numbers are finite, and lists lie at most a hundred deep in each other."""
    if len(content) > most:
        raise InvalidInput(f"{what} must have at most {most:,} bytes, got {len(content):,}")
    if _depth(content) > MOST_DEPTH:
        raise InvalidInput(f"{what} must be nested at most {MOST_DEPTH} deep, it is deeper")
    try:
        value = json.loads(content.decode(), parse_constant=_finite, parse_float=_finite, parse_int=_short)
        if HALF_A_PAIR.search(content):
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is no text, though JSON can spell it
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"{what} must be JSON: {first_line(fault)}") from fault
    return value


def json_file(path: str | Path) -> Any:
    """What a JSON file says."""
    return json_from(content_of(path, most=MOST_JSON).removeprefix(b"\xef\xbb\xbf"), str(path))


def toml_from(text: str, what: str = "TOML") -> dict[str, Any]:
    """What TOML says: tables lie at most a hundred deep in each other, and whole numbers have 64 bits."""
    if LONG_KEY.search(text):  # the parser's work grows with the square of a key's length
        raise InvalidInput(f"{what} must have keys of at most {MOST_DEPTH} parts, one has more")
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as fault:
        raise InvalidInput(f"{what} is not TOML: {first_line(fault)}") from fault
    _check_values(value, what)
    return value


def toml_file(path: str | Path) -> dict[str, Any]:
    """What a TOML file says."""
    return toml_from(text_of(path, most=MOST_TOML), str(path))


def _depth(content: bytes) -> int:
    """How deep brackets lie in each other, those in text left out; no more than a bound for what is no JSON."""
    if content.count(b"[") + content.count(b"{") <= MOST_DEPTH:
        return 0
    between_texts = ESCAPED.sub(b"", content).split(b'"')[::2]
    brackets = b"".join(between_texts).translate(None, NO_BRACKETS)
    return max(accumulate(map(DEEPER.__getitem__, brackets)), default=0)


def _finite(digits: str) -> float:
    value = float(_bounded(digits))
    if not math.isfinite(value):
        raise ValueError(f"numbers must be finite, got {shown(digits)}")
    return value


def _short(digits: str) -> int:
    return int(_bounded(digits))


def _bounded(digits: str) -> str:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"numbers must have at most {MOST_DIGITS} digits, one has {len(digits):,}")
    return digits


def _check_values(document: Any, what: str) -> None:
    """Refuse what the format can spell and nobody can use: a number of too many digits, a character that is none."""
    level = [document]
    for _ in range(MOST_DEPTH):
        for value in level:
            if isinstance(value, int) and not -WHOLE <= value < WHOLE:
                raise InvalidInput(f"{what} must have whole numbers of 64 bits, one has more")
            if isinstance(value, str) and "\0" in value:
                raise InvalidInput(f"{what} must have text without null characters, got {shown(value)}")
        tables = [chain(value, value.values()) for value in level if isinstance(value, dict)]
        level = [*chain(*tables, *(value for value in level if isinstance(value, list)))]
        if not level:
            return
    raise InvalidInput(f"{what} must be nested at most {MOST_DEPTH} deep, it is deeper")
