"""Files that are there whole or not at all, and are still there after a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: str | Path, content: bytes, *, mode: int = 0o666) -> None:
    """Put a file in place in one step: nobody ever reads half of it, and once this returns it is on the disk.

    Args:
      mode: Permissions of a new file, before the process's mask; 0o600 keeps a secret from its first byte.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    partial.unlink(missing_ok=True)  # of a process that was killed and had this number
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last: a rename is only on the disk once its folder is."""
    if os.name == "nt":  # folders cannot be opened there, and renames are journalled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
