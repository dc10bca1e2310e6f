"""How a measurement was made, written beside it: versions, hardware, command, date.

A benchmark builds one `row` per thing it measured and ends with `write("name", rows)`, which replaces
`benchmarks/results/name.json`. Ours and the peers of a row are measured in the same run, because only ratios of one
run mean anything on a machine that is shared.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Row = dict[str, Any]


def versions(*packages: str) -> dict[str, str]:
    """Version of Python and of each installed package named."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}


def hardware() -> dict[str, str | int]:
    """Processor, the cores this process may use, and memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
    }


def today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def row(
    name: str,
    *,
    size: Mapping[str, object],
    ours: float,
    peers: Mapping[str, float],
    unit: str,
    packages: Sequence[str] = (),
    **more: object,
) -> Row:
    """One measurement: ours and the peers' in `unit`, and ours divided by each peer.

    Args:
      name: What was measured.
      size: The problem's size, by name.
      unit: What `ours` and `peers` count, e.g. "samples/s".
      packages: Those whose versions matter; numpy's is always recorded.
      more: Further columns, e.g. peak memory.
    """
    return {
        "name": name,
        "size": dict(size),
        "unit": unit,
        "ours": ours,
        "peers": dict(peers),
        "ratio": {peer: ours / value for peer, value in peers.items()},
        **more,
        "versions": versions("numpy", *packages),
        "hardware": hardware(),
        "command": _command(),
        "date": today(),
    }


def write(name: str, rows: Sequence[Row]) -> Path:
    """Replace `benchmarks/results/NAME.json` by these rows."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(list(rows), indent=2, ensure_ascii=False) + "\n")
    return path


def seconds(work: Callable[[], object], *, repeats: int = 3) -> float:
    """The least wall-clock time of `work` over some repeats: the one least disturbed by other programs."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def _command() -> str:
    """The command that repeats this run, without the paths of this machine."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    start = f"python -m {spec.name.removesuffix('.__main__')}" if spec else f"python {Path(sys.argv[0]).name}"
    return " ".join([start, *map(shlex.quote, sys.argv[1:])])
