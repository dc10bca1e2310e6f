"""A real federation on loopback: a SuperLink and SuperNodes as processes, with TLS and authenticated nodes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from federation.world import blobs
from recordwise.federation import launch
from recordwise.federation.certificates import make_certificates, make_node_key
from recordwise.federation.identity import identity_key, kept_key, public_identity
from recordwise.federation.nodes import shuffler_key
from recordwise.federation.secure_sum import masks

NAMES = ("north", "south", "west")
CLASSES = ("oak", "ash", "elm")


class Wire:
    """Folders and processes of all parties; every process is ended by its id."""

    def __init__(self, root: Path) -> None:
        self.root, self.hub = root, root / "hub"
        make_certificates(self.hub, ["127.0.0.1", "localhost"])
        self.port = launch.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.pool, self.pool_labels = blobs(90, "pool")
        self.samples, self.labels = blobs(120, "records")
        self.identities = {name: self._keys(name) for name in (*NAMES, "mixer")}
        mixer = root / "mixer"
        self.shuffler = (
            f'[{{}}shuffler]\nname = "mixer"\nidentity = "{self.identities["mixer"]}"\n'
            f'key = "{masks.public_key(shuffler_key(mixer)).hex()}"\n'
        )
        peers = "".join(f'{name} = "{self.identities[name]}"\n' for name in NAMES)
        (mixer / "shuffler.toml").write_text(f'name = "mixer"\n[peers]\n{peers}')
        for number, name in enumerate(NAMES):
            part = slice(number, None, len(NAMES))
            np.savez(root / name / "records.npz", samples=self.samples[part], labels=self.labels[part])
            (root / name / "silo.toml").write_text(
                f'name = "{name}"\n[records]\npath = "records.npz"\nsamples = "samples"\nlabels = "labels"\n'
                f'[policy]\nepsilon = 5000\ndelta = 0.01\ntrust = "central"\nalways = true\n'
                f"[peers]\n{peers}{self.shuffler.format('')}"
            )

    def coordinator(self, name: str, **changes: Any) -> Path:
        """A coordinator's folder for one run; all of them use the same SuperLink."""
        told: dict[str, Any] = {"trust": "central", "epsilon": 400.0, "delta": 0.0, "rounds": 2, "threshold": 2}
        told |= {"timeout": 60, "patience": 60, **changes}
        folder = self.root / name
        folder.mkdir()
        np.savez(folder / "pool.npz", samples=self.pool)
        (folder / "ca.crt").write_bytes((self.hub / "ca.crt").read_bytes())
        silos = "".join(f'{silo} = "{self.identities[silo]}"\n' for silo in NAMES)
        (folder / "coordinator.toml").write_text(
            f'[public]\npath = "pool.npz"\n[privacy]\nepsilon = {told["epsilon"]}\ndelta = {told["delta"]}\n'
            f'trust = "{told["trust"]}"\n[method]\nclasses = {list(CLASSES)}\nnum_queries = 6\nencoder = "scaler"\n'
            f"rounds = {told['rounds']}\n[federation]\nthreshold = {told['threshold']}\n"
            f"records = [{40 * told['threshold']}, 120]\ntimeout = {told['timeout']}\npatience = {told['patience']}\n"
            f"[federation.silos]\n{silos}{self.shuffler.format('federation.')}"
        )
        launch.connect(folder, address=self.address, insecure=False)
        return folder

    def start_hub(self) -> None:
        command = launch.superlink(self.hub, host="127.0.0.1", port=self.port, insecure=False)
        self._start("hub", command, self.hub)
        launch.connect(self.hub, address=self.address, insecure=False)
        end = time.monotonic() + 60
        while not self._listens():
            assert time.monotonic() < end, self.log("hub")
            time.sleep(0.2)

    def register(self, *names: str) -> None:
        environment = launch.environment(self.hub)
        commands = [launch.register(self.hub, self.root / name / "node.pub") for name in names]
        asked = [subprocess.Popen(one, env=environment, stdout=subprocess.PIPE, text=True) for one in commands]
        for one in asked:
            said, _ = one.communicate(timeout=60)
            assert one.returncode == 0, said

    def start_node(self, name: str, certificate: Path | None = None) -> None:
        folder = self.root / name
        place = certificate or self.hub / "ca.crt"
        group = "shuffler_app" if name == "mixer" else "silo_app"
        program = f"from recordwise.federation.cli import {group}; {group}()"
        command = [sys.executable, "-c", program, "start", str(folder)]
        self._start(name, [*command, "--address", self.address, "--certificate", str(place)], folder)

    def run(self, folder: Path, timeout: float = 280) -> str:
        """The log of a run, once it is over."""
        process = self.begin(folder)
        try:
            process.wait(timeout)
        finally:
            self._end(process)
        return self.log(folder.name)

    def begin(self, folder: Path) -> subprocess.Popen[bytes]:
        return self._start(folder.name, launch.run(folder), folder)

    def log(self, name: str) -> str:
        return (self.root / name / "log").read_text(errors="replace")

    def signal(self, name: str, number: signal.Signals) -> None:
        """To a party's whole process group, as `kill` would."""
        os.killpg(self.processes[name].pid, number)
        if number is signal.SIGKILL:
            self.processes[name].wait(15)

    def stop(self) -> None:
        for process in self.processes.values():
            self._end(process)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _start(self, name: str, command: list[str], folder: Path) -> subprocess.Popen[bytes]:
        if name in self.processes:
            self._end(self.processes[name])
        with (folder / "log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, env=self._environment(folder), stdout=log, stderr=log, start_new_session=True
            )
        return self.processes[name]

    def _environment(self, folder: Path) -> Mapping[str, str]:
        return {**launch.environment(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        """The group, children included: first asked, then made to."""
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            if number is signal.SIGTERM:
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    continue
                time.sleep(1.0)
        process.wait(15)

    def _keys(self, name: str) -> str:
        folder = self.root / name
        folder.mkdir()
        make_node_key(folder)
        return public_identity(kept_key(folder / "identity.key", identity_key())).hex()


@contextmanager
def running(root: Path, *names: str) -> Iterator[Wire]:
    """A SuperLink with these nodes registered and connected."""
    wire = Wire(root)
    try:
        wire.start_hub()
        wire.register(*names)
        for name in names:
            wire.start_node(name)
        yield wire
    finally:
        wire.stop()
