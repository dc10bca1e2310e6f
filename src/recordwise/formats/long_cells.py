"""Cells of text tables that are longer than Python's reader of CSV allows unless told."""

from __future__ import annotations

import csv
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = min(sys.maxsize, 2**31 - 1)
_changing = threading.Lock()
_open: list[int] = []  # for each reader at work, the limit that it found


@contextmanager
def cells_of_any_length() -> Iterator[None]:
    """A long cell is that record's own business and must not stop the others from being read.

    Python has one limit for the whole process. It is what it was once the last of those who read at a time has ended.
    """
    with _changing:
        _open.append(csv.field_size_limit(LONGEST))
    try:
        yield
    finally:
        with _changing:
            found = _open.pop()  # the last to be taken out is what the first found
            if not _open:
                csv.field_size_limit(found)
