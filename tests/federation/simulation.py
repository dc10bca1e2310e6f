"""Devices in Flower's simulation engine, as a program: simulation.py DEVICES OUT.json"""

from __future__ import annotations

import json
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from flwr.simulation import run_simulation

from recordwise.device import Task
from recordwise.federation.devices import device_app, server_app
from recordwise.protocols.local import Collision, Inbox, wire
from recordwise.protocols.release import Tally
from recordwise.votes import Ballot

QUERIES, CLASSES = 4, 3


def record_of(number: int) -> tuple[np.ndarray, list[int]]:
    """Device n sits at query n modulo 4 and has class n modulo 3."""
    return np.eye(QUERIES, dtype=np.float32)[number % QUERIES], [number % CLASSES]


def main(devices: int, out: Path) -> None:
    ballot = Ballot(num_queries=QUERIES, num_classes=CLASSES)
    task = Task(mechanism=Collision(ballot=ballot, epsilon=Fraction(8)), queries=np.eye(QUERIES, dtype=np.float32))
    exact = np.zeros((QUERIES, CLASSES), dtype=int)
    for number in range(devices):
        exact[number % QUERIES, number % CLASSES] += 1
    start = time.monotonic()

    def done(tally: Tally, inbox: Inbox) -> None:
        told = {
            "messages": len(inbox),
            "seconds": time.monotonic() - start,
            "bytes": len(wire.pack(task.mechanism, inbox.answers[0])),
            "message_size": task.mechanism.message_size,
            "private": tally.guarantee.private,
            "estimate": tally.estimate.tolist(),
            "exact": exact.tolist(),
        }
        out.write_text(json.dumps(told))

    run_simulation(
        server_app=server_app(task, devices=devices, timeout=1200, done=done),
        client_app=device_app(record_of),
        num_supernodes=devices,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 2}},
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
