"""Summaries of a run in which one thing is not what a page expects."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

WRONG: list[Any] = [
    None, True, -1, 7, 10**18, 0.5, -1e300, "x", "<script>", "data:text/html,x", [], [1], [[]], {}, {"a": 1},
]  # fmt: skip
SPELLED = ["NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, '"\\ud800"', "[" * 5000]
TEXTS = [
    "",
    "{}",
    "[]",
    "null",
    "3",
    '"x"',
    "{",
    "\x00",
    '{"schema": 1}',
    '{"schema": 2}',
    '{"schema": [1]}',
    "[" * 10**5,
]
MARK = "\u0001here\u0001"


def places(value: Any, path: tuple[Any, ...] = (), most: int = 3) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a summary: of a list the first few."""
    items: list[Any] = (
        list(value) if isinstance(value, dict) else list(range(len(value)))[:most] if isinstance(value, list) else []
    )
    for key in items:
        yield (*path, key)
        yield from places(value[key], (*path, key), 1)


def changed(summary: Any, path: tuple[Any, ...], value: Any, *, gone: bool = False) -> Any:
    made = copy.deepcopy(summary)
    place = made
    for key in path[:-1]:
        place = place[key]
    if gone:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return made


def bad_summaries(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, content) of each."""
    whole = json.dumps(summary)
    for number, text in enumerate([*TEXTS, *(whole[: int(len(whole) * share)] for share in (0.1, 0.5, 0.9, 0.999))]):
        yield f"text {number}", text
    yield "too much", json.dumps({**summary, "nothing": 1})
    for path in places(summary):
        yield f"{path} is missing", json.dumps(changed(summary, path, None, gone=True))
        for value in WRONG:
            yield f"{path} = {value!r}", json.dumps(changed(summary, path, value))
        marked = json.dumps(changed(summary, path, MARK))
        for spelling in SPELLED:
            yield f"{path} is spelled {spelling[:20]}", marked.replace(json.dumps(MARK), spelling)
