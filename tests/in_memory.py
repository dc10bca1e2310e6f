"""Where tests write: a folder in memory, where the machine has one that is large enough.

Ledgers, journals and runs sync every step to the disk, which takes most of their time there. No test cuts the power of
the machine it runs on: those that are about power cuts decide themselves what is lost (`faults/disk.py`).
"""

from __future__ import annotations

import os
from pathlib import Path

ROOM = 2 << 30  # bytes; a whole run of the tests writes an eighth of it


def memory() -> str | None:
    """The folder; None is the machine's usual place for temporary files."""
    place = Path("/dev/shm")
    if not (place.is_dir() and os.access(place, os.W_OK)):
        return None
    about = os.statvfs(place)
    roomy = about.f_bavail * about.f_frsize > ROOM
    return str(place) if roomy and not about.f_flag & os.ST_NOEXEC else None
