"""A small job for the explorer's tests: a table whose texts would like to be more than text. It has no private file."""

from __future__ import annotations

import csv
import threading
from dataclasses import replace
from pathlib import Path

from tests.planner.worlds import blobs

from recordwise.explorer import Exploration

HOSTILE = "</script><img src=x onerror=\"window.pwned=1\"><b>'bold'</b>"
JOB = """# what we agreed on with the ward
[private]
path = "nobody-made-this-file.csv"
labels = "diagnosis"

[public]
path = "pool.csv"
labels = "known"

[privacy]
epsilon = 1.0  # the board said so

[method]
classes = ["flu", "cold", "neither"]
encoder = "table"
num_queries = 6
student = "linear"

[records]
expected = 600

[plan]
attainable = 0.9
"""


def make_job(folder: Path, text: str = JOB) -> Path:
    """Write the pool and the job file; the job file's path."""
    world = blobs(3, 3.0, pool=120, records=10)
    names = ["flu", "cold", "neither"]
    with (folder / "pool.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["first", "second", f"note {HOSTILE}", "known"])
        for number, (row, label) in enumerate(zip(world.pool, world.pool_labels, strict=True)):
            known = names[label] if number < 60 else ""
            table.writerow([f"{row[0]:.4f}", f"{row[1]:.4f}", HOSTILE if number % 2 else "&amp; plain", known])
    (folder / "job.toml").write_text(text)
    return folder / "job.toml"


def afresh(found: Exploration, path: Path | None = None) -> Exploration:
    """The same exploration, of the job at another path, with nothing computed yet."""
    return replace(
        found,
        path=path or found.path,
        grid=replace(found.grid, cells={}),
        wanted=[],
        stopped=threading.Event(),
    )
