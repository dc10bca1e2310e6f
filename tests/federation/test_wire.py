"""Live runs on loopback: every party a process of its own, mutual TLS between them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from commands import Command
from federation.wire import CLASSES, NAMES, Wire, running
from recordwise import stored
from recordwise.encoders import encode
from recordwise.errors import ProtocolFault
from recordwise.federation import collecting
from recordwise.federation.door import Door
from recordwise.federation.hub import CERTIFICATE, door, run_coordinator
from recordwise.federation.nodes import NODE_CERTIFICATE, new_party
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.ledger import Ledger
from recordwise.protocols.release import Tally, unpack
from recordwise.records import read_labels
from recordwise.votes import cast_votes

FALSE_FAILURE = 1e-9

pytestmark = pytest.mark.timeout(900)


def releases(folder: Path) -> list[Tally]:
    ledger = Ledger.open(folder / "ledger.sqlite", read_only=True)
    found = [unpack(ledger.payload("default", entry.key)) for entry in ledger.history("default")]
    assert all(isinstance(one, Tally) for one in found)
    return found  # type: ignore[return-value]


def pooled(wire: Wire, folder: Path, number: int, names: tuple[str, ...] = NAMES) -> np.ndarray:
    """The exact tally in one process, from all records and what the coordinator published."""
    queries, encoder = (
        stored.from_bytes((folder / "run" / name).read_bytes()) for name in (f"queries-{number}", "encoder")
    )
    held, ballot = wire.rows(*names), releases(folder)[0].ballot
    numbers, _ = read_labels(wire.labels[held], np.asarray(CLASSES), 1)
    return cast_votes(
        encode(encoder, wire.samples[held]), numbers[:, 0], queries.vectors, ballot, metric=queries.metric
    ).counts()


def assert_rounds_are_pooled(wire: Wire, folder: Path, rounds: int, log: str, names: tuple[str, ...] = NAMES) -> None:
    found = releases(folder)
    assert len(found) == rounds, log
    for number, release in enumerate(found, start=1):
        assert release.guarantee.private
        error = np.abs(release.estimate - pooled(wire, folder, number, names))
        if release.guarantee.trust is Trust.SHUFFLE:
            assert error.size * release.law.two_sided_tail(float(error.max())) > FALSE_FAILURE
        else:
            assert error.max() < 1e-6  # noise at epsilon 400 is zero but for a chance of e^-100


def charges(wire: Wire, name: str, folder: Path) -> int:
    """What a silo paid for one run."""
    run = json.loads((folder / "run" / "run.json").read_text())["run"]
    ledger = Ledger.open(wire.root / name / "state" / "ledger.sqlite", read_only=True)
    return sum(entry.key.startswith(run) for entry in ledger.history("default"))


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with running(tmp_path_factory.mktemp("wire"), *NAMES, "mixer") as one:
        yield one


@pytest.mark.parametrize("trust", list(Trust))
def test_two_rounds_between_processes_in_every_trust_model(wire: Wire, trust: Trust) -> None:
    shuffled = trust is Trust.SHUFFLE
    folder = wire.coordinator(
        f"two-{trust}",
        trust=str(trust),
        threshold=3,
        epsilon=16.0 if shuffled else 400.0,
        delta=1e-3 if shuffled else 0.0,
    )
    log = wire.run(folder)
    assert_rounds_are_pooled(wire, folder, 2, log)
    assert [charges(wire, name, folder) for name in NAMES] == [2, 2, 2]
    assert (folder / "run" / "report.html").exists()


def test_a_coordinator_killed_while_gathering_goes_on_without_a_second_charge(wire: Wire) -> None:
    folder = wire.coordinator("killed", threshold=3, trust="distributed")
    process = wire.begin(folder)
    end = time.monotonic() + 240
    while not (folder / "run.keys" / "counts.key").exists():  # the plan is about to be published
        assert time.monotonic() < end, wire.log("killed")
        time.sleep(0.05)
    process.kill()
    process.wait(60)
    log = wire.run(folder)
    assert_rounds_are_pooled(wire, folder, 2, log)
    assert [charges(wire, name, folder) for name in NAMES] == [2, 2, 2]


def test_a_silo_killed_in_the_middle_comes_back_and_is_counted(wire: Wire) -> None:
    """It is stopped before it can answer and killed; a new process in the same folder takes its place."""
    wire.signal("west", signal.SIGSTOP)
    folder = wire.coordinator("back", threshold=3, rounds=1)
    process = wire.begin(folder)
    end = time.monotonic() + 240
    while not (folder / "run.keys" / "counts.key").exists():
        assert time.monotonic() < end, wire.log("back")
        time.sleep(0.05)
    wire.signal("west", signal.SIGKILL)
    wire.start_node("west")
    process.wait(240)
    assert_rounds_are_pooled(wire, folder, 1, wire.log("back"))


class Watched:
    """A coordinator's door, and a clock whose patience is over once some silos have answered: not a moment before."""

    def __init__(self, at: Door, *awaited: str) -> None:
        self.door, self.awaited, self.heard = at, {*awaited}, set[str]()

    def nodes(self) -> list[str]:
        return self.door.nodes()

    def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterator[tuple[str, bytes]]:
        for name, reply in self.door.ask(stage, requests, timeout):
            self.heard.add(name)
            yield name, reply

    def monotonic(self) -> float:
        return 1e12 if self.awaited <= self.heard else 0.0

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def test_a_silo_that_stalls_is_left_out_and_too_few_release_nothing(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.signal("west", signal.SIGSTOP)  # as slow as can be
    slow, few = wire.coordinator("slow", rounds=1), wire.coordinator("few", rounds=1)
    with door(slow, host="127.0.0.1", port=wire.port) as at:
        watched = Watched(at, "north", "south")
        monkeypatch.setattr(collecting, "time", watched)
        run_coordinator(slow, watched)
    assert_rounds_are_pooled(wire, slow, 1, "", ("north", "south"))
    wire.signal("south", signal.SIGSTOP)
    with door(few, host="127.0.0.1", port=wire.port) as at:
        watched = Watched(at, "north")
        monkeypatch.setattr(collecting, "time", watched)
        with pytest.raises(ProtocolFault, match="2 silos must accept the plan, 1 did"):
            run_coordinator(few, watched)
    assert releases(few) == []
    for name in ("south", "west"):
        wire.signal(name, signal.SIGCONT)
    assert_rounds_are_pooled(wire, few, 1, wire.run(few))


def test_a_second_process_in_a_partys_folder_is_refused_in_one_line(wire: Wire, tmp_path: Path) -> None:
    wire.until("north", "connected")
    known = str(wire.root / "hub" / CERTIFICATE)
    command = ["silo", "run", str(wire.root / "north"), "--address", f"127.0.0.1:{wire.port}", "--certificate", known]
    assert Command(*command, log=tmp_path / "log").wait(240) == 2
    said = (tmp_path / "log").read_text()
    assert "one process at a time may use" in said and "Traceback" not in said


def test_a_node_that_is_handed_another_certificate_says_so_and_answers_nobody(wire: Wire) -> None:
    new_party(wire.root / "elsewhere", CERTIFICATE)
    new_party(wire.root / "misled", NODE_CERTIFICATE)
    (wire.root / "misled" / "silo.toml").write_text((wire.root / "north" / "silo.toml").read_text())
    (wire.root / "misled" / "records.npz").write_bytes((wire.root / "north" / "records.npz").read_bytes())
    wire.start_node("misled", wire.root / "elsewhere" / CERTIFICATE)
    wire.until("misled", "no line to the coordinator")
    wire.signal("west", signal.SIGSTOP)  # the run waits for it, and is not over before the misled node dials
    folder = wire.coordinator("misleading", rounds=1, threshold=3)
    process = wire.begin(folder)
    wire.until("misled", "does not hold the coordinator's certificate")
    wire.signal("west", signal.SIGCONT)
    process.wait(240)
    assert_rounds_are_pooled(wire, folder, 1, wire.log("misleading"))
    assert not any((wire.root / "misled" / "state" / "plans").iterdir())
