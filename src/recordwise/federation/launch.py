"""The Flower commands that carry a federation: SuperLink, SuperNode, registration and the run itself.

TLS and authentication of nodes are on unless `insecure` is asked for. Flower's telemetry, its update check and its
installing of packages at run time are off: a party runs what it installed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from recordwise.errors import InvalidInput, MissingExtra

CONNECTION = "federation"
WARNING = (
    "!!! INSECURE TRIAL: no encryption, and anybody who reaches the port can join, read and answer. "
    "For data that matters nothing, on one machine, only. !!!"
)


def environment(folder: Path) -> dict[str, str]:
    """Flower's own state beside ours, and nothing sent or fetched behind our back."""
    return {
        **os.environ,
        "FLWR_HOME": str(folder / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def superlink(folder: Path, *, host: str, port: int, insecure: bool) -> list[str]:
    """Start the coordinator's SuperLink."""
    command = [
        _program("flower-superlink"),
        *("--host", host, "--port", str(port)),
        *("--database", str(folder / "superlink.sqlite")),
        "--disable-runtime-dependency-installation",
    ]
    if insecure:
        return [*command, "--insecure"]
    for name in ("ca.crt", "server.pem", "server.key"):
        if not (folder / name).exists():
            raise InvalidInput(f"{folder} must hold {name}: run `recordwise coordinator init`, or put yours there")
    return [
        *command,
        *("--ssl-ca-certfile", str(folder / "ca.crt")),
        *("--ssl-certfile", str(folder / "server.pem")),
        *("--ssl-keyfile", str(folder / "server.key")),
        "--enable-supernode-auth",
    ]


def supernode(
    folder: Path, *, address: str, certificate: Path | None, port: int, insecure: bool, trusted: Path | None = None
) -> list[str]:
    """Start a silo's, or the shuffler's, SuperNode.

    Args:
      trusted: Flower's list of who may submit apps; without it the node runs whatever app the SuperLink hands it.
    """
    command = [
        _program("flower-supernode"),
        *("--superlink", address),
        *("--port", str(port or free_port())),
        *("--node-config", f'folder="{folder.resolve()}"'),
        *(("--trusted-entities", str(trusted)) if trusted else ()),
    ]
    if insecure:
        return [*command, "--insecure"]
    if certificate is None:
        raise InvalidInput("a silo needs the coordinator's ca.crt to know whom it talks to: --certificate")
    if not (folder / "node.key").exists():
        raise InvalidInput(f"{folder} must hold node.key: run `recordwise silo init`")
    return [
        *command,
        *("--root-certificates", str(certificate)),
        *("--auth-supernode-private-key", str(folder / "node.key")),
    ]


def connect(folder: Path, *, address: str, insecure: bool) -> None:
    """Tell Flower's command line where the SuperLink is."""
    home = folder / "flwr"
    home.mkdir(parents=True, exist_ok=True)
    safety = "insecure = true" if insecure else f'root-certificates = "{(folder / "ca.crt").resolve()}"'
    (home / "config.toml").write_text(f'[superlink.{CONNECTION}]\naddress = "{address}"\n{safety}\n')


def register(folder: Path, public_key: Path) -> list[str]:
    """Let a node in."""
    return [_program("flwr"), "supernode", "register", str(public_key), CONNECTION]


def run(folder: Path) -> list[str]:
    """Start the run and show its log. The app that is sent holds no code: each party runs its own Recordwise."""
    app = folder / "app"
    app.mkdir(exist_ok=True)
    (app / "pyproject.toml").write_text(APP)
    config = f'coordinator="{folder.resolve()}"'
    return [_program("flwr"), "run", str(app), CONNECTION, "--stream", "--run-config", config]


def checked(command: list[str], env: Mapping[str, str]) -> None:
    """Run a command to its end."""
    code = subprocess.run(command, env=dict(env), check=False).returncode
    if code:
        raise InvalidInput(f"{' '.join(command[:3])} failed with exit code {code}")


def keep_running(command: list[str], env: Mapping[str, str], *, pause: float = 20.0, tries: int = 15) -> int:
    """Run a command until it is stopped; gives its exit code.

    Flower's SuperLink turns a node away while a killed predecessor with the same key still counts as online, and the
    node then gives up. So a command that ends with an error is started again after a pause, a few times.
    """
    stopped = False
    for left in range(tries, 0, -1):
        process = subprocess.Popen(command, env=dict(env))

        def stop(number: int, frame: object, process: subprocess.Popen[bytes] = process) -> None:
            nonlocal stopped
            stopped = True
            process.terminate()

        before = signal.signal(signal.SIGTERM, stop)
        try:
            code = process.wait()
        except KeyboardInterrupt:  # the terminal has told the child too
            stopped, code = True, process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
        if stopped or not code or left == 1:
            return code
        print(
            f"{Path(command[0]).name} ended with exit code {code}; it is started again in {pause:g} s", file=sys.stderr
        )
        time.sleep(pause)
    return 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _program(name: str) -> str:
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise MissingExtra("a federation needs Flower: pip install 'recordwise[federation]'")
    return str(path)


APP = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "recordwise-federation"
version = "1.0.0"
description = "Label a public pool with the votes of silos' private records."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "recordwise"

[tool.flwr.app.components]
serverapp = "recordwise.federation.server_app:app"
clientapp = "recordwise.federation.client_app:app"

[tool.flwr.app.config]
coordinator = ""
"""
