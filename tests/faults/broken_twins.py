"""Broken twins of what makes runs last: each forgets one thing, and a test must notice."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recordwise import account, checkpoint, durable, stored
from recordwise.federation import journal


def everywhere(name: str, twin: Callable[..., Any]) -> None:
    """Put a twin of a function of `durable` into every module that took the healthy one from there."""
    healthy = getattr(durable, name)
    for path, module in list(sys.modules.items()):
        if path.startswith("recordwise") and getattr(module, name, None) is healthy:
            setattr(module, name, twin)


def unsynced_files() -> None:
    """Files get their names before they are on the disk."""
    sync = os.fsync

    def only_folders(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").is_dir():
            sync(handle)

    durable.os = type("Os", (), {**vars(os), "fsync": staticmethod(only_folders)})  # type: ignore[assignment]


def unsynced_names() -> None:
    """A rename is left to the system."""
    everywhere("sync_folder", lambda folder: None)


def unsynced_folders() -> None:
    """A new folder's own name is left to the system."""

    def make(folder: str | Path, *, mode: int = 0o777) -> None:
        Path(folder).mkdir(mode=mode, parents=True, exist_ok=True)

    everywhere("make_folder", make)


def commits_first() -> None:
    """What a release is about is written down once it is paid for."""
    late: list[tuple[Path, bytes]] = []
    pay = account.OpenAccount.pay

    def keep(self: Any, name: str, make: Callable[[], Any]) -> Any:
        path = self.folder / name
        if path.exists():
            return stored.from_bytes(path.read_bytes(), foreign=True)
        made = make()
        late.append((path, stored.to_bytes(made, foreign=True)))
        return made

    def paying(self: Any, *rest: Any) -> Any:
        released = pay(self, *rest)
        while late:
            durable.write_whole(*late.pop(0))
        return released

    checkpoint.Checkpoint.keep = keep  # type: ignore[method-assign]
    account.OpenAccount.pay = paying  # type: ignore[method-assign]


def manifest_last() -> None:
    """A run gets its name on the disk after its first release."""
    late: list[tuple[Path, bytes]] = []
    pay = account.OpenAccount.pay
    write = checkpoint.write_whole

    def writing(path: Path, content: bytes) -> None:
        if path.name == checkpoint.MANIFEST:
            late.append((path, content))
        else:
            write(path, content)

    def paying(self: Any, *rest: Any) -> Any:
        released = pay(self, *rest)
        while late:
            write(*late.pop(0))
        return released

    checkpoint.write_whole = writing  # type: ignore[assignment]
    account.OpenAccount.pay = paying  # type: ignore[method-assign]


def writes_in_place() -> None:
    """A file is filled under its own name."""

    def write(path: str | Path, content: bytes, *, mode: int = 0o666) -> None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        durable.sync_folder(Path(path).parent)

    everywhere("write_whole", write)


def answers_first() -> None:
    """A silo answers a stage of a sum before its journal is on the disk."""

    def write(self: journal.Journal) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._content))

    journal.Journal._write = write  # type: ignore[method-assign]


def meet(seconds: float = 2) -> None:
    """Not broken: whoever begins a folder waits until two do, or so long: behind a lock there is no other."""
    begin = checkpoint.Checkpoint._begin.__func__  # type: ignore[attr-defined]

    def meeting(cls: Any, folder: Path, *rest: Any) -> Any:
        place = folder.parents[1]
        (place / f"arrived-{os.getpid()}").touch()
        end = time.monotonic() + seconds
        while len(list(place.glob("arrived-*"))) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        return begin(cls, folder, *rest)

    checkpoint.Checkpoint._begin = classmethod(meeting)  # type: ignore[method-assign, assignment]


def take_no_lock() -> None:
    """Nobody holds a folder, and two begin it at once."""
    checkpoint.hold = lambda folder: durable.make_folder(folder)  # type: ignore[assignment, return-value]
    meet(seconds=120)  # the other one comes, however busy the machine is


def sweeps_nothing() -> None:
    """What a killed process left half-written stays, and counts as somebody else's."""
    checkpoint.sweep = lambda folder: None
    checkpoint.LEFTOVER = type("Never", (), {"fullmatch": staticmethod(lambda name: None)})  # type: ignore[assignment]


TWINS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        unsynced_files,
        unsynced_names,
        unsynced_folders,
        commits_first,
        manifest_last,
        writes_in_place,
        answers_first,
        meet,
        take_no_lock,
        sweeps_nothing,
    )
}
