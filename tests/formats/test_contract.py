"""Every reader: it takes regular files, waits for nothing, and whatever it reads, it gives a value or one line.

A function of `recordwise.formats` whose first parameter is a path, or the content of a file, is a reader and is tried
here by being written. `tests/faults/test_fuzz.py` tries more contents.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from recordwise import formats
from recordwise.errors import InvalidInput
from recordwise.formats import Layout
from recordwise.randomness import seeded

MORE: dict[str, tuple[Any, ...]] = {"text_lines": (Layout(),)}  # what a reader needs beside its file
NOT_READERS = {"ending"}  # looks at a name alone
LONGEST_LINE = 2000  # letters; a line of a terminal, or a few


def taking(first: str) -> dict[str, Callable[..., Any]]:
    """Every public function and class of the package that takes this first."""
    names = [f"{formats.__name__}.{module.name}" for module in pkgutil.iter_modules(formats.__path__)]
    found = {name: one for home in names for name, one in vars(importlib.import_module(home)).items()}
    own = {
        name: one
        for name, one in found.items()
        if not name.startswith("_") and getattr(one, "__module__", "").startswith(formats.__name__) and callable(one)
    }
    return {
        name: one
        for name, one in sorted(own.items())
        if next(iter(inspect.signature(one).parameters), "") == first and name not in NOT_READERS
    }


OF_FILES, OF_CONTENT = taking("path") | {"Archive": formats.Archive}, taking("content")
# What a reader needs beyond the core. Where it is there, a refusal that asks for it is a fault like any other.
EXTRAS = {"excel_file": "openpyxl", "parquet_file": "pyarrow", "safetensors_file": "safetensors"}


def read(name: str, source: Path | bytes) -> Any:
    """What a reader makes of it, to the end."""
    found = (OF_FILES | OF_CONTENT)[name](source, *MORE.get(name, ()))
    with found if isinstance(found, AbstractContextManager) else nullcontext(found) as value:
        return value


def refusal(name: str, source: Path | bytes) -> str:
    """The one line with which it is refused; empty where it is read."""
    if name in EXTRAS:
        pytest.importorskip(EXTRAS[name])
    try:
        read(name, source)  # one that waits for a pipe or a device ends with the test's own time
    except InvalidInput as fault:
        line = str(fault)
    else:
        return ""
    assert line and "\n" not in line and len(line) < LONGEST_LINE + len(str(source))
    return line


def test_readers_are_found() -> None:
    assert {"csv_file", "excel_file", "parquet_file", "safetensors_file", "toml_file", "opened"} <= set(OF_FILES)
    assert {"array_from", "json_from", "picture_from"} <= set(OF_CONTENT)


@pytest.mark.parametrize("reader", OF_FILES)
def test_a_reader_takes_regular_files_and_waits_for_nothing(reader: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "d.csv")  # a guess looks at tables alone
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    (tmp_path / "folder.csv").mkdir()
    for place in ("folder.csv", "loop.csv", "missing.csv", "a\x00b.csv", "x" * 5000 + ".csv", "missing/inside.csv"):
        assert refusal(reader, tmp_path / place)
    assert "must be a regular file, it is a pipe" in refusal(reader, tmp_path / "d.csv")
    (tmp_path / "device.csv").symlink_to("/dev/zero")
    assert "must be a regular file, it is a device" in refusal(reader, tmp_path / "device.csv")


CONTENTS = [
    b"", b"\x00", b"\xff" * 100, b"[" * 1000, b'"', b"a,b\n1", b"PK\x03\x04" + bytes(100), b"PAR1" + bytes(50),
    b"\x89PNG\r\n\x1a\n" + bytes(50), b"\x93NUMPY\x01\x00" + bytes(50), b"\x1f\x8b" + bytes(50),
    *(seeded(size, "contents").bytes(size) for size in (1, 7, 64, 1000)),
]  # fmt: skip


@pytest.mark.parametrize("reader", [*OF_FILES, *OF_CONTENT])
def test_whatever_it_holds_a_file_is_a_value_or_one_line(reader: str, tmp_path: Path) -> None:
    for number, content in enumerate(CONTENTS):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(content)
        refusal(reader, path if reader in OF_FILES else content)
