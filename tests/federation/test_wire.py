"""A real SuperLink and real SuperNodes on loopback, with TLS and authenticated nodes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from federation.wire import CLASSES, NAMES, Wire, running
from recordwise.encoders import encode
from recordwise.federation.certificates import make_certificates
from recordwise.federation.plan import Plan
from recordwise.federation.records import class_numbers
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.ledger import Ledger
from recordwise.protocols.release import Tally, unpack
from recordwise.votes import cast_votes

FALSE_FAILURE = 1e-9

pytestmark = pytest.mark.timeout(600)


def releases(folder: Path) -> list[Tally]:
    ledger = Ledger.open(folder / "ledger.sqlite", read_only=True)
    found = [unpack(ledger.payload("default", entry.key)) for entry in ledger.history("default")]
    assert all(isinstance(one, Tally) for one in found)
    return found  # type: ignore[return-value]


def pooled(wire: Wire, folder: Path, number: int, names: tuple[str, ...] = NAMES) -> np.ndarray:
    """The exact tally in one process, from all records and what the coordinator published."""
    import joblib

    queries, encoder = joblib.load(folder / "run" / f"queries-{number}"), joblib.load(folder / "run" / "encoder")
    held = np.sort(np.concatenate([np.arange(NAMES.index(name), 120, 3) for name in names]))
    ballot = releases(folder)[0].ballot
    numbers = class_numbers(wire.labels[held], CLASSES, ballot)
    return cast_votes(
        encode(encoder, wire.samples[held]), numbers, queries.vectors, ballot, metric=queries.metric
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


def test_three_silos_with_tls_and_authentication_give_the_pooled_tally(tmp_path: Path) -> None:
    with running(tmp_path, *NAMES) as wire:
        folder = wire.coordinator("central", rounds=1)
        log = wire.run(folder)
        assert_rounds_are_pooled(wire, folder, 1, log)
        assert [charges(wire, name, folder) for name in NAMES] == [1, 1, 1]
        assert (folder / "run" / "report.html").exists()
        assert "https://" in wire.log("hub")


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    with running(tmp_path_factory.mktemp("wire"), *NAMES, "mixer") as one:
        yield one


@pytest.mark.slow
@pytest.mark.parametrize("trust", list(Trust))
def test_two_rounds_over_the_wire_in_every_trust_model(wire: Wire, trust: Trust) -> None:
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
    plan = next((wire.root / "north" / "state" / "plans").iterdir())
    assert Plan.from_bytes(plan.read_bytes()).roster


@pytest.mark.slow
def test_a_coordinator_killed_while_gathering_goes_on_without_a_second_charge(wire: Wire) -> None:
    """Flower starts the ServerApp under the SuperLink, so it is found by its folder and killed by its id."""
    folder = wire.coordinator("killed", threshold=3)
    process = wire.begin(folder)
    end = time.monotonic() + 120
    while not (folder / "run" / "counts.key").exists():  # the plan is about to be published
        assert time.monotonic() < end, wire.log("killed")
        time.sleep(0.05)
    for pid in serverapps(wire):
        signal_pid(pid)
    process.wait(120)
    assert len(Ledger.open(folder / "ledger.sqlite", read_only=True).history("default")) < 2
    log = wire.run(folder)
    assert_rounds_are_pooled(wire, folder, 2, log)
    assert [charges(wire, name, folder) for name in NAMES] == [2, 2, 2]


def serverapps(wire: Wire) -> list[int]:
    """Ids of ServerApp processes in the SuperLink's process group or below it."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command, environ = (place / "cmdline").read_bytes(), (place / "environ").read_bytes()
        except OSError:
            continue
        if b"flwr-serverapp" in command and str(wire.hub).encode() in environ:
            found.append(int(place.name))
    return found


def signal_pid(pid: int) -> None:
    import os

    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_silo_killed_or_too_slow_is_left_out_and_too_few_release_nothing(wire: Wire) -> None:
    wire.signal("west", signal.SIGSTOP)  # as slow as can be
    slow = wire.coordinator("slow", rounds=1, timeout=25, patience=1)
    log = wire.run(slow)
    assert_rounds_are_pooled(wire, slow, 1, log, ("north", "south"))
    wire.signal("west", signal.SIGCONT)
    wire.signal("west", signal.SIGKILL)
    wire.signal("south", signal.SIGKILL)
    few = wire.coordinator("few", rounds=1, timeout=20, patience=1)
    log = wire.run(few)
    assert "2 silos must accept the plan" in log
    assert releases(few) == []
    for name in ("south", "west"):
        wire.start_node(name)
    settings = few / "coordinator.toml"
    settings.write_text(settings.read_text().replace("patience = 1", "patience = 240"))
    again = wire.run(few)
    assert_rounds_are_pooled(wire, few, 1, again)


@pytest.mark.slow
def test_an_unregistered_node_and_a_node_with_the_wrong_certificate_are_not_let_in(wire: Wire, tmp_path: Path) -> None:
    make_certificates(tmp_path / "other", ["127.0.0.1"])
    for name, certificate in (("stranger", None), ("misled", tmp_path / "other" / "ca.crt")):
        wire._keys(name)
        (wire.root / name / "silo.toml").write_text((wire.root / "north" / "silo.toml").read_text())
        wire.start_node(name, certificate)
    end = time.monotonic() + 60
    while time.monotonic() < end and "certificate" not in wire.log("misled").lower():
        time.sleep(0.5)
    time.sleep(5)
    assert "certificate" in wire.log("misled").lower()
    assert "Receiving" not in wire.log("misled")
    assert "Receiving" not in wire.log("stranger")
    folder = wire.coordinator("strangers", rounds=1, threshold=3)
    log = wire.run(folder)
    assert_rounds_are_pooled(wire, folder, 1, log)
    for name in ("stranger", "misled"):
        assert not any((wire.root / name / "state" / "plans").iterdir())
