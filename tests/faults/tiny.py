"""A job so small that hundreds of its mistakes can be tried, as a value that is easy to change."""

from __future__ import annotations

import datetime
import json
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from recordwise.randomness import seeded

CLASSES = [0, 1, 2]
JOB: dict[str, Any] = {
    "private": {"path": "records.npz", "labels": "y"},
    "public": {"path": "pool.npz"},
    "test": {"path": "test.npz", "labels": "y"},
    "privacy": {"epsilon": 4.0},
    "method": {"num_queries": 6, "classes": CLASSES, "decoder": "argmax", "student": "linear"},
}


class Raw(str):
    """TOML as it stands, where Python has no such value."""


def toml(value: Any) -> str:
    """A value as TOML."""
    match value:
        case Raw():
            return value
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value)
        case dict():
            return "{" + ", ".join(f"{json.dumps(key)} = {toml(one)}" for key, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case datetime.date() | datetime.time():
            return value.isoformat()
    return repr(value)


def document(job: dict[str, Any]) -> str:
    """A job as TOML."""
    plain = {key: value for key, value in job.items() if not isinstance(value, dict)}
    lines = [f"{json.dumps(key)} = {toml(value)}" for key, value in plain.items()]
    for section, held in job.items():
        if isinstance(held, dict):
            lines += [f"[{json.dumps(section)}]", *(f"{json.dumps(key)} = {toml(one)}" for key, one in held.items())]
    return "\n".join(lines) + "\n"


def fill(folder: Path, *, odd: bool = True) -> None:
    """Data that the job reads, and, where `odd`, files that nothing should read."""
    rng = seeded(0, "faults")
    y = rng.integers(3, size=90)
    X = rng.normal(size=(90, 3)) + 4 * y[:, None]
    np.savez(folder / "records.npz", X=X[:40], y=y[:40])
    np.savez(folder / "pool.npz", X=X[40:70])
    np.savez(folder / "test.npz", X=X[70:], y=y[70:])
    np.save(folder / "pool.npy", X[40:70])
    if not odd:
        return
    (folder / "empty.npz").touch()
    (folder / "empty.npy").touch()
    (folder / "folder.npz").mkdir()
    (folder / "text.txt").write_text("one\ntwo\n")
    os.mkfifo(folder / "pipe.npz")
    os.mkfifo(folder / "pipe.toml")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()  # noqa: PTH109
        os.chdir(folder)  # a socket's path is short
        server.bind("socket.npz")
        os.chdir(here)


def charges(folder: Path) -> int:
    """How many releases all ledgers in a folder have paid for."""
    found = 0
    for path in folder.rglob("*.sqlite"):
        if path.is_file() and path.stat().st_size:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
                tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
                if "recordwise_releases" in tables:
                    found += connection.execute("SELECT COUNT(*) FROM recordwise_releases").fetchone()[0]
    return found
