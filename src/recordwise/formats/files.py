"""Files: regular ones, of a bounded size, opened so that nothing waits."""

from __future__ import annotations

import gzip
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from recordwise.errors import InvalidInput, RecordwiseError, first_line

MOST_CONTENT = 1 << 33  # bytes of a file that is held in memory as a whole
# Zeros are packed a thousand times smaller. Beyond a gigabyte a file must be large itself to become large.
MOST_UNPACKED, MOST_RATIO = 1 << 30, 100
CHUNK = 1 << 20
PACKED = ".gz"
# A pipe without a writer would be waited for, and a terminal would become this process's own.
WITHOUT_WAITING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def opened(path: str | Path) -> BufferedReader:
    """A regular file, open for reading; a pipe, a socket, a device or a folder is refused, and never waited for."""
    try:
        handle = os.open(path, WITHOUT_WAITING)
    except (OSError, ValueError) as fault:  # ValueError: no file has such a name
        raise InvalidInput(f"{path} could not be read: {getattr(fault, 'strerror', None) or fault}") from fault
    found = stat.S_IFMT(os.fstat(handle).st_mode)
    if found != stat.S_IFREG:
        os.close(handle)
        raise InvalidInput(f"{path} must be a regular file, it is {KINDS.get(found, 'something else')}")
    return os.fdopen(handle, "rb")


def content_of(path: str | Path, *, most: int = MOST_CONTENT) -> bytes:
    """A file's bytes."""
    with opened(path) as file, understood(str(path)):
        size = os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
        if max(size, len(content)) > most:
            raise InvalidInput(f"{path} must have at most {most:,} bytes, it has {max(size, len(content)):,}")
        return content


def ending(path: Path) -> str:
    """A file's ending in small letters; of a packed one, what it is when it is unpacked."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last == PACKED else last


def unpacked(path: Path) -> BinaryIO:
    """A file's bytes to read; those of a gzip file, which are bounded, are unpacked."""
    if path.suffix.lower() != PACKED:
        return opened(path)
    content = io.BytesIO()
    with opened(path) as file, understood(str(path)):
        most = max(MOST_UNPACKED, MOST_RATIO * os.fstat(file.fileno()).st_size)
        with gzip.GzipFile(fileobj=file) as held:
            while part := held.read(CHUNK):
                if content.tell() + len(part) > most:
                    raise InvalidInput(f"{path} must unpack to at most {most:,} bytes, it has more")
                content.write(part)
    content.seek(0)
    return content


def text_of(path: str | Path, *, most: int = MOST_CONTENT) -> str:
    """A file's text. The mark that some editors put before it is no part of it."""
    content = content_of(path, most=most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise InvalidInput(f"{path} must be UTF-8, byte {fault.start} is not") from fault


def lines_of(path: str | Path) -> list[bytes]:
    """A file's lines, without what ends them; what is no text is left to whoever reads a line."""
    lines = content_of(path).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix(b"\r") for line in lines]


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Turn whatever a library raises about a file's content into one line that says what could not be read."""
    try:
        yield
    except RecordwiseError:
        raise
    except Exception as fault:  # a damaged file fails in as many ways as there are formats
        raise InvalidInput(f"{what} could not be read: {first_line(fault)}") from fault
