"""What a federation costs: live rounds, memory, bytes, secure sums, devices: `python -m benchmarks.federation [PART…]`.

Live silos are processes on loopback with mutual TLS, started and asked as in the tests, whose set-up is used here; all
of them share this machine's cores. There is no peer to stand beside. Secure sums are measured in one process, so their
time is all parties' together. Parts that are not named keep the rows they have.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks import provenance

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from federation.sums import parties, play, session_of  # noqa: E402
from federation.wire import running  # noqa: E402
from federation.world import Tampered, World  # noqa: E402
from recordwise.federation.cohort import simulate_cohort  # noqa: E402
from recordwise.privacy.guarantee import Trust  # noqa: E402
from recordwise.protocols.local import Collision, UnaryEncoding  # noqa: E402
from recordwise.votes import Ballot  # noqa: E402

PACKAGES = ("cryptography",)


def main(*chosen: str) -> None:
    parts: dict[str, Callable[[], list[provenance.Row]]] = {
        "sums": lambda: [secure_sum(count) for count in (3, 10, 50)],
        "bytes": lambda: [bytes_per_silo(trust) for trust in Trust],
        **{f"live-{count}": partial(live, count) for count in (3, 10, 50)},
        "devices": lambda: [message_path(10_000)],
        "cohort": lambda: [cohort(kind) for kind in (UnaryEncoding, Collision)],
    }
    kept = json.loads((provenance.RESULTS / "federation.json").read_text()) if chosen else []
    rows = []
    for name, measure in parts.items():
        if not chosen or name in chosen:
            rows += [{**row, "part": name} for row in measure()]
        else:
            rows += [row for row in kept if row.get("part") == name]
    path = provenance.write("federation", rows)
    for row in rows:
        print(f"{row['name']:<40} {row['size']!s:<60} {row['ours']:>14,.1f} {row['unit']}")
    print(f"written to {path.relative_to(path.parents[2])}")


def secure_sum(count: int, cells: int = 5_000) -> provenance.Row:
    """All parties and the server, five stages, one of the parties vanishing after it shared its secrets."""
    identities = parties(count)
    session = session_of(identities, threshold=count // 2 + 1, length=cells, bits=24)
    vectors = {name: np.zeros(cells, dtype=np.uint64) for name in identities}
    start = time.perf_counter()
    played = play(session, identities, vectors, lambda at, who, m: None if (at, who) == ("mask", "silo-1") else m)
    seconds = time.perf_counter() - start
    sent = sum(len(message) for _, _, message in played.seen) / count
    return provenance.row(
        "secure sum, all parties together",
        size={"silos": count, "cells": cells, "vanished": 1},
        ours=seconds,
        peers={},
        unit="seconds",
        packages=("cryptography",),
        bytes_per_silo=sent,
    )


def bytes_per_silo(trust: Trust, queries: int = 100) -> provenance.Row:
    """What one of three silos with 40 records sends in one round of 100 queries and 3 classes, the plan apart."""
    with tempfile.TemporaryDirectory() as place:
        epsilon = 16.0 if trust is Trust.SHUFFLE else 4.0
        world = World(Path(place), trust=trust, epsilon=epsilon, rounds=1, settings={"num_queries": queries})
        world.pool, world.pool_labels = np.repeat(world.pool, 4, axis=0), np.repeat(world.pool_labels, 4)
        world.pool = world.pool + np.random.default_rng(0).normal(size=world.pool.shape)
        exchange = Tampered(world.nodes())
        world.fit(exchange)
        sent = sum(len(reply) for stage, node, reply in exchange.replies if node == 1 and stage != "plan")
        asked = sum(len(request) for stage, node, request in exchange.requests if node == 1 and stage != "plan")
    return provenance.row(
        f"bytes a silo sends per round, {trust}",
        size={"silos": 3, "records": 40, "queries": queries, "classes": 3},
        ours=float(sent),
        peers={},
        unit="bytes",
        bytes_received=asked,
    )


def live(count: int, rounds: int = 3) -> list[provenance.Row]:
    """Silos as processes under distributed trust: a round, from the first question to the last release, and memory."""
    names = tuple(f"silo-{number}" for number in range(count))
    with tempfile.TemporaryDirectory() as place, running(Path(place), *names) as one:
        for name in names:
            one.until(name, "no line to the coordinator", timeout=1800)  # it waits
        idle = max(_resident(one.processes[name].pid, "VmRSS") for name in names)
        folder = one.coordinator(
            "hub-1", trust="distributed", rounds=rounds, threshold=count // 2 + 1, timeout=600, patience=600
        )
        start = time.perf_counter()
        log = one.run(folder, timeout=1800)
        seconds = time.perf_counter() - start
        asked = [path.stat().st_mtime for path in sorted((folder / "run").glob("queries-*"))]
        if not (folder / "run" / "summary.json").exists():
            raise SystemExit(log)
        peak = max(_resident(one.processes[name].pid, "VmHWM") for name in names)
        each = ((folder / "ledger.sqlite").stat().st_mtime - asked[0]) / rounds
    size = {"silos": count, "rounds": rounds, "trust": "distributed", "encoder": "scaler"}
    return [
        provenance.row(
            "seconds per live round",
            size=size,
            ours=each,
            peers={},
            unit="seconds",
            packages=PACKAGES,
            seconds_with_start=seconds,
        ),
        provenance.row(
            "memory of a silo's process, at most",
            size=size,
            ours=peak,
            peers={},
            unit="MB",
            packages=("cryptography", "scikit-learn"),
            idle_mb=idle,
        ),
    ]


def _resident(process: int, what: str) -> float:
    lines = (Path("/proc") / str(process) / "status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(what))


def message_path(devices: int) -> provenance.Row:
    """One-record clients in Flower's simulation engine, each through the whole message path."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out.json"
        environment = {
            **os.environ,
            "FLWR_HOME": place,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(ROOT / "tests" / "federation" / "simulation.py"), str(devices), str(out)]
        subprocess.run(command, env=environment, check=True, capture_output=True)
        told = json.loads(out.read_text())
    if told["messages"] != devices:
        raise SystemExit(f"{devices} messages were expected, {told['messages']} came")
    return provenance.row(
        "simulated devices through Flower",
        size={"devices": devices, "mechanism": "collision"},
        ours=devices / told["seconds"],
        peers={},
        unit="devices/s",
        packages=("flwr", "ray"),
        seconds=told["seconds"],
        bytes_per_device=told["bytes"],
    )


def cohort(kind: type[UnaryEncoding] | type[Collision], devices: int = 10_000_000) -> provenance.Row:
    ballot = Ballot(num_queries=10, num_classes=10)
    counts = np.full((10, 10), devices // 100)
    start = time.perf_counter()
    simulate_cohort(kind(ballot=ballot, epsilon=Fraction(2, 5)), counts, seed=0)
    seconds = time.perf_counter() - start
    return provenance.row(
        f"cohort simulator, {kind.name}",
        size={"devices": devices, "queries": 10, "classes": 10},
        ours=devices / seconds,
        peers={},
        unit="devices/s",
        seconds=seconds,
        peak_gib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
