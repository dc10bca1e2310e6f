"""A real federation on loopback: coordinator, silos and shuffler as processes, with mutual TLS between them."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from commands import Command
from federation.world import CLASSES, blobs
from recordwise.federation.hub import CERTIFICATE
from recordwise.federation.nodes import NODE_CERTIFICATE, new_party, shuffler_key
from recordwise.federation.registered import register
from recordwise.federation.secure_sum import masks

NAMES = ("north", "south", "west")
PER_SILO = 40


class Wire:
    """Folders and processes of all parties; every process is ended by its id."""

    def __init__(self, root: Path, *names: str) -> None:
        self.root, self.names = root, names
        self.processes: dict[str, Command] = {}
        # Held for as long as this lives: between two coordinators nobody else gets the port, nor does a node that dials
        # it while nobody listens, and would then talk to itself. Who listens may share it with who only holds it.
        self.held = socket.socket()
        self.held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.held.bind(("127.0.0.1", 0))
        self.port = int(self.held.getsockname()[1])
        self.pool, _ = blobs(90, "pool")
        self.samples, self.labels = blobs(PER_SILO * len(names), "records")
        new_party(root / "hub", CERTIFICATE)
        self.identities = {name: new_party(root / name, NODE_CERTIFICATE).hex() for name in (*names, "mixer")}
        self.shuffler = (
            f'[{{}}shuffler]\nname = "mixer"\nidentity = "{self.identities["mixer"]}"\n'
            f'key = "{masks.public_key(shuffler_key(root / "mixer")).hex()}"\n'
        )
        self.peers = "".join(f'{name} = "{self.identities[name]}"\n' for name in names)
        (root / "mixer" / "shuffler.toml").write_text(f'name = "mixer"\n[peers]\n{self.peers}')
        for number, name in enumerate(names):
            part = slice(number, None, len(names))
            np.savez(root / name / "records.npz", samples=self.samples[part], labels=self.labels[part])
            (root / name / "silo.toml").write_text(
                f'name = "{name}"\n[records]\npath = "records.npz"\nsamples = "samples"\nlabels = "labels"\n'
                f'[policy]\nepsilon = 5000\ndelta = 0.01\ntrust = "central"\ncolluding = 0\nalways = true\n'
                f"[peers]\n{self.peers}{self.shuffler.format('')}"
            )

    def rows(self, *names: str) -> np.ndarray:
        """Which records some silos hold, of all."""
        every = np.arange(PER_SILO * len(self.names))
        return np.sort(np.concatenate([every[self.names.index(name) :: len(self.names)] for name in names]))

    def coordinator(self, name: str, **changes: Any) -> Path:
        """A coordinator's folder for one run: the hub's keys, and a run of its own."""
        told: dict[str, Any] = {"trust": "central", "epsilon": 400.0, "delta": 0.0, "rounds": 2, "threshold": 2}
        told |= {"timeout": 240, "patience": 240, **changes}
        folder = self.root / name
        folder.mkdir()
        for kept in ("identity.key", CERTIFICATE):
            (folder / kept).write_bytes((self.root / "hub" / kept).read_bytes())
        register(folder, [self.root / party / NODE_CERTIFICATE for party in (*self.names, "mixer")])
        np.savez(folder / "pool.npz", samples=self.pool)
        (folder / "coordinator.toml").write_text(
            f'[public]\npath = "pool.npz"\n[privacy]\nepsilon = {told["epsilon"]}\ndelta = {told["delta"]}\n'
            f'trust = "{told["trust"]}"\n[method]\nclasses = {list(CLASSES)}\nnum_queries = 6\nencoder = "scaler"\n'
            f"rounds = {told['rounds']}\n[federation]\nthreshold = {told['threshold']}\ncolluding = 0\n"
            f"records = [{PER_SILO * told['threshold']}, {len(self.samples)}]\n"
            f"timeout = {told['timeout']}\npatience = {told['patience']}\n"
            f"[federation.silos]\n{self.peers}{self.shuffler.format('federation.')}"
        )
        return folder

    def start_node(self, name: str, certificate: Path | None = None) -> None:
        folder = self.root / name
        group = "shuffler" if name == "mixer" else "silo"
        known = certificate or self.root / "hub" / CERTIFICATE
        self._start(
            name, [group, "run", str(folder), "--address", f"127.0.0.1:{self.port}", "--certificate", str(known)]
        )

    def begin(self, folder: Path) -> Command:
        return self._start(folder.name, ["coordinator", "run", str(folder), "--port", str(self.port)])

    def run(self, folder: Path, timeout: float = 280) -> str:
        """The log of a run, once it is over."""
        process = self.begin(folder)
        try:
            process.wait(timeout)
        finally:
            self._end(process)
        return self.log(folder.name)

    def log(self, name: str) -> str:
        return (self.root / name / "log").read_text(errors="replace")

    def until(self, name: str, words: str, timeout: float = 240) -> None:
        """Wait until a party's log says something."""
        end = time.monotonic() + timeout
        while words not in self.log(name):
            assert time.monotonic() < end, self.log(name)
            time.sleep(0.05)

    def signal(self, name: str, number: signal.Signals) -> None:
        self.processes[name].send_signal(number)
        if number is signal.SIGKILL:
            self.processes[name].wait(60)

    def stop(self) -> None:
        for process in self.processes.values():
            self._end(process)
        self.held.close()

    def _start(self, name: str, command: list[str]) -> Command:
        if name in self.processes:
            self._end(self.processes[name])
        self.processes[name] = Command(*command, log=self.root / name / "log")
        return self.processes[name]

    def _end(self, process: Command) -> None:
        if process.poll() is None:
            process.kill()
            process.send_signal(signal.SIGCONT)
        process.wait(60)


@contextmanager
def running(root: Path, *names: str) -> Iterator[Wire]:
    """Silos, and the shuffler if it is named, that dial and wait for a coordinator."""
    wire = Wire(root, *(name for name in names if name != "mixer"))
    try:
        for name in names:
            wire.start_node(name)
        yield wire
    finally:
        wire.stop()
