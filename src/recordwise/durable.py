"""Files that are there whole or not at all, and are still there after a power cut.

What is not synced may be lost with the power, or reach the disk in another order: a file's bytes until the file is
synced, a name in a folder (a new file, a rename, a folder's own) until the folder is. So a file is synced before it
gets its name, and every folder on the way to it once that changed.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from contextlib import suppress
from pathlib import Path

LEFTOVER = re.compile(r".+\.\d+\.part")  # of a process that was killed while it wrote


def write_whole(path: str | Path, content: bytes, *, mode: int = 0o666) -> None:
    """Put a file in place in one step: nobody ever reads half of it, and once this returns it is on the disk.

    Args:
      mode: Permissions of a new file, before the process's mask; 0o600 keeps a secret from its first byte.
    """
    path = Path(path)
    partial = _written(path, content, mode)
    try:
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_once(path: str | Path, content: bytes, *, mode: int = 0o666) -> bool:
    """The same for a file that must not be there yet; False, and nothing is changed, where it is.

    Of several processes that do so at once, one does.
    """
    path = Path(path)
    partial = _written(path, content, mode)
    try:
        path.hardlink_to(partial)
    except FileExistsError:
        return False
    finally:
        partial.unlink()
        sync_folder(path.parent)
    return True


def make_folder(folder: str | Path, *, mode: int = 0o777) -> None:
    """Make a folder, and those above it, such that its name lasts; one that is there already stays as it is."""
    folder = Path(folder).absolute()
    for one in reversed((folder, *folder.parents)):
        if not one.exists():
            one.mkdir(mode=mode, exist_ok=True)
    for one in folder.parents:  # all of them: whoever made one may have been killed before it was synced
        with suppress(PermissionError):  # nobody makes a folder where nobody may look
            sync_folder(one)
        if one.is_mount():  # what lies above it is another disk, which was there before
            break


def sweep(folder: str | Path) -> None:
    """Take away what processes that were killed left half-written, at any depth. Only for who holds the folder."""
    for path in Path(folder).rglob("*.part"):
        if LEFTOVER.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def sweep_beside(path: Path) -> None:
    """The same for what was to become one file. Only for who may write it."""
    for leftover in path.absolute().parent.glob(f"{path.name}.*.part"):
        if LEFTOVER.fullmatch(leftover.name):
            leftover.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last: a rename is only on the disk once its folder is."""
    if os.name == "nt":  # folders cannot be opened there, and renames are journalled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        if fault.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks keep folders in their own way
            raise
    finally:
        os.close(handle)


def _written(path: Path, content: bytes, mode: int) -> Path:
    """The content in a file of its own beside `path`, synced."""
    partial = path.with_name(f"{path.name}.{threading.get_native_id()}.part")  # no other thread has this number now
    partial.unlink(missing_ok=True)  # of one that was killed and had it
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    return partial
