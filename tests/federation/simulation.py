"""Devices in Flower's simulation engine, as a program: simulation.py DEVICES OUT.json"""

from __future__ import annotations

import json
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from recordwise.device import Task
from recordwise.federation.devices import simulate_devices
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.local import Collision, wire
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
    inbox = simulate_devices(task, record_of, devices=devices, timeout=1200)
    tally = task.mechanism.server(inbox.answers, SystemNoise())
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


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
