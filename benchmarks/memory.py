"""The most memory that a run takes beyond its input, under every trust, in a fresh process each.

python -m benchmarks.memory [--records 5000000]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import row, write

DIM, CLASSES, QUERIES, POOL, PIECE = 32, 10, 100, 2_000, 100_000
TRUSTS: dict[str, dict[str, Any]] = {
    "central": {"trust": "central"},
    "distributed": {"trust": {"name": "distributed", "parties": 5}},
    "local": {"trust": "local"},
    "local, randomized response": {"trust": "local", "mechanism": "randomized-response"},
    "shuffle": {"trust": "shuffle", "delta": 1e-7},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--trust", choices=TRUSTS)
    asked = parser.parse_args()
    if asked.trust is not None:
        print(beyond_input(asked.trust, asked.records))
        return
    rows = []
    for trust in TRUSTS:
        command = [sys.executable, "-m", "benchmarks.memory", "--trust", trust, "--records", str(asked.records)]
        with tempfile.TemporaryDirectory() as owner:
            environment = {**os.environ, "RECORDWISE_KEYS": owner}
            told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        size = {"records": asked.records, "dim": DIM, "queries": QUERIES, "classes": CLASSES}
        rows.append(row(f"a run, {trust}", size=size, ours=float(told) / 1e6, peers={}, unit="MB", packages=()))
        print(f"{trust:<30} {float(told) / 1e6:,.0f} MB beyond the input", flush=True)
    write("memory", rows)


def beyond_input(trust: str, num_records: int) -> int:
    """Bytes by which the resident set grows at its highest, while a run labels a pool with so many records."""
    from recordwise import PrivateDistiller

    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, num_records, dtype=np.int8)
    records = np.empty((num_records, DIM), dtype=np.float32)
    for start in range(0, num_records, PIECE):
        some = slice(start, start + PIECE)
        records[some] = rng.normal(size=records[some].shape) + labels[some, None]
    pool = rng.normal(size=(POOL, DIM)).astype(np.float32)
    pool += rng.integers(0, CLASSES, (POOL, 1))
    with tempfile.TemporaryDirectory() as folder:
        for number, few in enumerate((10_000, num_records)):  # the first one loads what every run needs
            account = {"ledger": Path(folder) / f"{number}.sqlite", "budget_epsilon": 2.0, "budget_delta": 1e-6}
            distiller = PrivateDistiller(
                epsilon=2.0, num_queries=QUERIES, classes=list(range(CLASSES)), account=account, **TRUSTS[trust]
            )
            Path("/proc/self/clear_refs").write_text("5")  # the highest so far is now the present
            before = _resident("VmRSS")
            distiller.fit(records[:few], labels[:few], X_public=pool)
    return _resident("VmHWM") - before


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


if __name__ == "__main__":
    main()
