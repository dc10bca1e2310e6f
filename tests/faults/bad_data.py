"""Files of data that cannot be: every format, damaged, and every form that an array can have and a sample cannot."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from damage import DAMAGES
from numpy.lib import format as npy
from PIL import Image

from recordwise.randomness import seeded

Write = Callable[[Path], object]
N = 30


def header(shape: object, descr: object = "<f8", version: int = 1, rest: bytes = b"") -> bytes:
    """A .npy file with a header of one's own."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    size = len(text).to_bytes(2 if version == 1 else 4, "little")
    return npy.magic(version, 0) + size + text + rest


def zipped(name: str, content: bytes, packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", packing) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def bomb() -> bytes:
    """A small archive that announces four gigabytes."""
    content = bytearray(zipped("X.npy", header((1 << 27, 4))))
    place = content.index(b"PK\x01\x02") + 24  # the size of its one entry, in the archive's directory
    content[place : place + 4] = (0xFFFFFFF0).to_bytes(4, "little")
    return bytes(content)


def many() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(10_001):
            archive.writestr(f"{number}.npy", b"")
    return file.getvalue()


def huge_picture() -> bytes:
    """A PNG that announces 10^10 pixels."""
    file = io.BytesIO()
    Image.new("L", (4, 4)).save(file, format="PNG")
    content = bytearray(file.getvalue())
    content[16:24] = (100_000).to_bytes(4, "big") * 2
    content[29:33] = zlib.crc32(content[12:29]).to_bytes(4, "big")
    return bytes(content)


def arrays() -> dict[str, Any]:
    """Arrays that are no samples: each would be one row for each of N samples, if it were."""
    days = np.arange(3 * N).reshape(N, 3)
    return {
        "complex": np.ones((N, 3), complex),
        "datetime": days.astype("datetime64[D]"),
        "timedelta": days.astype("timedelta64[s]"),
        "structured": np.zeros(N, dtype=[("a", "f8"), ("b", "i4")]),
        "void": np.zeros((N, 3), dtype="V8"),
        "0-d": np.array(5.0),
        "1-d": np.arange(N) * 1.0,
        "5-d": np.zeros((N, 1, 1, 1, 1)),
        "no columns": np.zeros((N, 0)),
        "no rows": np.zeros((0, 3)),
        "no side": np.zeros((N, 0, 3)),
        "words": np.full((N, 3), "x"),
        "empty words": np.full((N, 3), ""),
        "bytes": np.full((N, 3), b"\xff"),
        "NaN": np.full((N, 3), np.nan),
        "infinite": np.full((N, 3), np.inf),
        "huge": np.full((N, 3), 1e308),
        "boolean": np.ones((N, 3), bool),
        "half": np.ones((N, 3), np.float16),
        "long": np.ones((N, 3), np.longdouble),
        "other width": np.ones((N, 4)),
    }


def contents() -> dict[str, tuple[str, bytes | Callable[[], bytes]]]:
    """(ending, content) of files that are no data; what takes seconds to make is made when it is written."""
    good = io.BytesIO()
    np.save(good, np.ones((N, 3)))
    return {
        "a pickle": ("npy", _saved(np.array([{}, []], dtype=object))),
        "a long header": ("npy", header("x" * 60_000)),
        "a deep header": ("npy", header("(" * 5000)),
        "a huge shape": ("npy", header((1 << 60, 3))),
        "a shape beyond numbers": ("npy", header((10**400, 3))),
        "a negative shape": ("npy", header((-1, 3))),
        "a shape of words": ("npy", header(("a",))),
        "a boolean shape": ("npy", header((True, 3), rest=bytes(24))),
        "rows of nothing": ("npy", header((1 << 40,), "<U0")),
        "a type beyond types": ("npy", header((N, 3), "<U999999999999")),
        "a type that is none": ("npy", header((N, 3), "<q9")),
        "code for a type": ("npy", header((N, 3), "__import__('os')")),
        "version 3": ("npy", npy.magic(3, 0) + good.getvalue()[8:]),
        "version 9": ("npy", b"\x93NUMPY\x09\x00" + good.getvalue()[8:]),
        "no magic": ("npy", b"\x93NUMPX" + good.getvalue()[6:]),
        "a bomb": ("npz", bomb()),
        "many parts": ("npz", many),
        "no parts": ("npz", zipped("x", b"")[:0] or b"PK\x05\x06" + bytes(18)),
        "a part that is no array": ("npz", zipped("X.npy", b"words")),
        "a part of another packing": ("npz", zipped("X.npy", good.getvalue(), zipfile.ZIP_LZMA)),
        "a part with an odd name": ("npz", zipped("../X\x01.npy", good.getvalue())),
        "a csv of nulls": ("csv", b"a,b,c\n\x00,\x00,\x00\n"),
        "a csv of huge numbers": ("csv", b"a,b,c\n" + b"1e308,-1e308,3\n-1e308,1e308,1\n" * 15),
        "a csv of tiny numbers": ("csv", b"a,b,c\n" + b"1e-308,0,1\n0,5e-324,2\n" * 15),
        "a csv of huge numbers and words": ("csv", b"a,b,c\n" + b"1e308,x,3\n-1e308,y,\n" * 15),
        "a csv without rows": ("csv", b"a,b,c\n"),
        "a csv of other columns": ("csv", b"p,q,r\n1,2,3\n"),
        "a csv of one long line": ("csv", b"a,b,c\n" + b"9" * 300_000),
        "a csv of many columns": ("csv", ",".join(f"c{place}" for place in range(100_001)).encode()),
        "a csv with open quotes": ("csv", b'a,b,c\n"1,2,3\n'),
        "a csv in another alphabet": ("csv", "a,b,c\n1,2,3\n".encode("utf-16")),
        "a parquet of lists": ("parquet", _parquet(pa.table({"a": [[1, 2]] * N, "b": [[1]] * N}))),
        "a parquet of structures": ("parquet", _parquet(pa.table({"a": [{"x": 1}] * N}))),
        "a parquet without columns": ("parquet", _parquet(pa.table({}))),
        "a parquet of times": ("parquet", _parquet(pa.table({"a": pa.array([1] * N, pa.duration("s"))}))),
        "a parquet of nothing": ("parquet", _parquet(pa.table({"a": pa.nulls(N), "b": pa.nulls(N), "c": pa.nulls(N)}))),
        "a parquet of decimals": ("parquet", _parquet(pa.table({"a": pa.array([1] * N).cast(pa.decimal128(30, 2))}))),
        "a parquet with a name twice": ("parquet", _parquet(pa.table([[1], [2]], names=["a", "a"]))),
        "a parquet of too many equal cells": ("parquet", _equal),
        "text that is none": ("txt", b"\xff\xfe\n" * N),
        "no text": ("txt", b""),
        "an unknown ending": ("xyz", b"1"),
    }


def _saved(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _parquet(table: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def _equal() -> bytes:
    """A small file of many rows: each page says that one value is repeated."""
    table = pa.table({"a": pa.DictionaryArray.from_arrays(pa.array(np.zeros(1 << 22, np.int8)), pa.array(["x"]))})
    return _parquet(pa.concat_tables([table] * 80))


def good_files() -> dict[str, bytes]:
    """A good pool in every format, by the file's name."""
    values = seeded(0, "data").normal(size=(N, 3))
    table = {name: values[:, place] for place, name in enumerate("abc")}
    archive = io.BytesIO()
    np.savez(archive, X=values)
    packed = io.BytesIO()
    np.savez_compressed(packed, X=values)
    rows = "\n".join(",".join(map(str, row)) for row in values.tolist())
    return {
        "x.npy": _saved(values),
        "x.npz": archive.getvalue(),
        "packed.npz": packed.getvalue(),
        "x.csv": f"a,b,c\n{rows}\n".encode(),
        "x.parquet": _parquet(pa.table(table)),
        "x.txt": b"\n".join(b"word %d" % number for number in range(N)),
    }


def bad_data() -> Iterator[tuple[str, str, Write]]:
    """(what, the file's name, what writes it) of each."""
    for name, array in arrays().items():
        yield f"{name}, npy", "x.npy", lambda path, array=array: path.write_bytes(_saved(array))  # type: ignore[misc]
        yield f"{name}, npz", "x.npz", lambda path, array=array: np.savez(path, X=array)  # type: ignore[misc]
    for name, (ending, content) in contents().items():

        def write_content(path: Path, content: bytes | Callable[[], bytes] = content) -> None:
            path.write_bytes(content() if callable(content) else content)

        yield name, f"x.{ending}", write_content
    for file, content in good_files().items():
        for name, damage in DAMAGES.items():

            def write(path: Path, content: bytes = content, damage: Any = damage) -> None:
                path.write_bytes(content)
                damage(path)

            yield f"{file}: {name}", file, write
    pictures: dict[str, dict[str, bytes]] = {
        "no image": {"1.png": b"words"},
        "a huge image": {"1.png": huge_picture()},
        "a script for a printer": {"1.eps": b"%!PS", "1.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"},
        "nothing": {},
        "an empty image": {"1.png": b""},
    }
    for name, files in pictures.items():

        def folder(path: Path, files: dict[str, bytes] = files) -> None:
            path.mkdir()
            for file, content in files.items():
                (path / file).write_bytes(content)

        yield f"images: {name}", "pictures", folder
