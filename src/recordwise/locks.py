"""One process at a time in a folder: two could charge one run twice, or contradict each other for one silo."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from weakref import WeakValueDictionary

from recordwise.durable import make_folder
from recordwise.errors import InvalidInput

LOCK = "lock"
_held: WeakValueDictionary[tuple[int, int, str], Hold] = WeakValueDictionary()


class Hold:
    """A folder that belongs to this process for as long as this object lives; the system frees it if it dies."""

    def __init__(self, folder: Path) -> None:
        make_folder(folder)
        self._file = (folder / LOCK).open("a+b")
        try:
            _lock(self._file.fileno())
        except (BlockingIOError, PermissionError) as error:
            self._file.close()
            raise InvalidInput(
                f"one process at a time may use {str(folder)!r}, another one is running: wait until it ends"
            ) from error
        except OSError as error:
            self._file.close()
            raise InvalidInput(
                f"{str(folder)!r} must be on a disk that can lock files, this one says: {error.strerror}"
            ) from error

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


def hold(folder: Path) -> Hold:
    """The folder, held; objects of one thread share it, another thread or process is refused."""
    key = (os.getpid(), threading.get_ident(), str(folder.resolve()))  # a forked child holds nothing of its parent's
    held = _held.get(key)
    if held is None:
        held = _held[key] = Hold(folder)
    return held


if os.name == "nt":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
