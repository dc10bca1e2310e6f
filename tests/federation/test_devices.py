"""Devices in Flower's simulation engine: one record each, through the real message path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from recordwise.device import Task
from recordwise.protocols.local import Collision
from recordwise.votes import Ballot

FALSE_FAILURE = 1e-9


def simulate(folder: Path, devices: int, timeout: float) -> dict[str, object]:
    """Run the simulation in a process of its own: Ray and Flower leave threads and sockets behind."""
    environment = {
        **os.environ,
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, str(Path(__file__).with_name("simulation.py")), str(devices), str(folder / "out.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, object] = json.loads((folder / "out.json").read_text())
    return told


@pytest.mark.slow
def test_simulated_devices_send_one_message_each_and_their_tally_is_decoded(tmp_path: Path) -> None:
    told = simulate(tmp_path, 200, 280)
    assert told["messages"] == 200
    assert told["private"] is True
    estimate, exact = np.array(told["estimate"]), np.array(told["exact"])
    law = Collision(ballot=Ballot(num_queries=4, num_classes=3), epsilon=Fraction(8)).law(200)
    assert 12 * law.two_sided_tail(float(np.abs(estimate - exact).max())) > FALSE_FAILURE
    assert told["bytes"] == told["message_size"] + 16 + 16  # type: ignore[operator]  # header and identity


def test_a_task_travels_as_bytes() -> None:
    from recordwise.federation.devices import task_bytes, task_from

    ballot = Ballot(num_queries=4, num_classes=3)
    task = Task(mechanism=Collision(ballot=ballot, epsilon=Fraction(1)), queries=np.eye(4, dtype=np.float32))
    arrived = task_from(task_bytes(task))
    assert arrived.mechanism == task.mechanism
    assert np.array_equal(arrived.queries, task.queries)
