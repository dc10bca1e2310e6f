"""NumPy's own files: .npy, and .npz archives of them. A header is believed when the file is as long as it says."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, shown
from recordwise.formats.files import CHUNK, MOST_RATIO, MOST_UNPACKED, opened, understood

PLAIN = "biufcUSMm"  # numbers, text and times; objects would be pickles, and rows of fields are no arrays
MOST_MEMBERS = 10_000
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as NumPy writes
HEADERS = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}


def array_file(path: str | Path) -> NDArray[Any]:
    """The array of a .npy file, memory-mapped."""
    with opened(path) as file, understood(str(path)):
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        shape, order, dtype = _header(file, size, str(path))
        if not math.prod(shape):
            return np.empty(shape, dtype)
        return np.memmap(file, dtype=dtype, mode="r", offset=file.tell(), shape=shape, order=order)


def array_from(content: bytes) -> NDArray[Any]:
    """The array of a .npy file's bytes, as a copy."""
    with understood("an array"):
        file = io.BytesIO(content)
        shape, order, dtype = _header(file, len(content), "an array")
        return _filled(file, shape, order, dtype)


class Archive(Mapping[str, NDArray[Any]]):
    """The arrays of a .npz file by their names, unpacked when they are asked for.

    Guarantees:
      - how large all of them are is known, and bounded, before one is unpacked;
      - nothing is allocated that an entry's announced size does not fill.
    """

    def __init__(
        self, source: str | Path | bytes, *, what: str = "", most: int | None = None, members: int = MOST_MEMBERS
    ) -> None:
        """Open an archive.

        Args:
          source: A path, or the archive's own bytes.
          what: What messages call it; the path where left out.
          most: Bytes that all arrays may have together; as much as its own size allows where left out.
          members: Arrays that it may hold.
        """
        self._what = what or ("an archive" if isinstance(source, bytes) else str(source))
        self._file: BinaryIO = io.BytesIO(source) if isinstance(source, bytes) else opened(source)
        try:
            with understood(self._what):
                packed = self._file.seek(0, io.SEEK_END)
                self._zip = zipfile.ZipFile(self._file)
                entries = self._zip.infolist()
                size = sum(entry.file_size for entry in entries)
                bound = max(MOST_UNPACKED, MOST_RATIO * packed) if most is None else most
                if len(entries) > members or size > bound:
                    raise InvalidInput(
                        f"{self._what} must unpack to at most {bound:,} bytes in {members:,} parts, it has {size:,} in "
                        f"{len(entries):,}"
                    )
                self._entries = {entry.filename.removesuffix(".npy"): entry for entry in entries}
                if len(self._entries) != len(entries) or any(one.compress_type not in PACKINGS for one in entries):
                    raise InvalidInput(f"{self._what} must hold arrays of different names, as numpy.savez writes them")
        except BaseException:
            self._file.close()
            raise

    def __getitem__(self, name: str) -> NDArray[Any]:
        entry = self._entries[name]
        with understood(f"{name!r} of {self._what}"), self._zip.open(entry) as file:
            shape, order, dtype = _header(file, entry.file_size, f"{name!r} of {self._what}")  # type: ignore[arg-type]
            array = _filled(file, shape, order, dtype)  # type: ignore[arg-type]
            file.read(1)  # at its end an entry's checksum is compared
            return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self._zip.close()
        self._file.close()


def _header(file: BinaryIO, size: int, what: str) -> tuple[tuple[int, ...], Any, np.dtype[Any]]:
    """Shape, order and type, which must account for every byte."""
    version = npy.read_magic(file)
    if version not in HEADERS:
        raise InvalidInput(f"{what} must be of NumPy's format 1.0 or 2.0, got {version}")
    shape: tuple[Any, ...]
    shape, columns_first, dtype = HEADERS[version](file)
    if dtype.kind not in PLAIN:
        raise InvalidInput(f"{what} must hold plain numbers, text or dates, it holds {str(dtype)[:60]}")
    if not all(type(side) is int and side >= 0 for side in shape):
        raise InvalidInput(f"{what} must have a shape of whole numbers, it has {shown(shape)}")
    count: int = math.prod(shape)
    needed, held = count * dtype.itemsize, size - file.tell()
    if needed != held or (count and not dtype.itemsize):
        raise InvalidInput(f"{what} must have the {needed:,} bytes that its header announces, it has {held:,}")
    return shape, "F" if columns_first else "C", dtype


def _filled(file: BinaryIO, shape: tuple[Any, ...], order: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    count = math.prod(shape)
    flat = np.empty(count, dtype)
    if count and dtype.itemsize:
        rest = flat.view(np.uint8).data.cast("B")
        while rest:
            part = file.read(min(CHUNK, len(rest)))
            if not part:
                raise InvalidInput("it ends too early")
            rest[: len(part)] = part
            rest = rest[len(part) :]
    return flat.reshape(shape, order=order)
