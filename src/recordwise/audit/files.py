"""Neighbouring files: a job's records with one of them added, removed, replaced or moved, from the bytes on.

The job's file is copied with one record changed, often into something that does not fit: another type, nothing at all,
NaN, a number beyond all numbers, bytes that are no text, another image mode or size, a class nobody declared. The copy
is read, encoded and voted anew with what is public held fixed. Every other record's votes must be the same, bit by bit.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from recordwise.audit.replay import NO_CLASS, Change, ReplayResult
from recordwise.data.images import SUFFIXES
from recordwise.data.tables import value_of
from recordwise.errors import InvalidInput
from recordwise.formats import (
    Archive,
    Layout,
    arrow_folder,
    content_of,
    csv_file,
    ending,
    excel_file,
    is_dataset,
    parquet_file,
    text_lines,
)
from recordwise.formats.files import PACKED
from recordwise.formats.layouts import ENCODINGS
from recordwise.formats.tables import STATE
from recordwise.privacy.guarantee import Neighbours
from recordwise.progress import part
from recordwise.protocols.protocol import Protocol as Release
from recordwise.randomness import seeded
from recordwise.sections import Source
from recordwise.votes import Votes

NO_NUMBER = -12_345
LONG = 10_000  # letters of a cell that is too long for anything
WORDS = {
    "words": "A",
    "nothing": "",
    "NaN": "nan",
    "a number beyond all numbers": "1e999",
    "a huge number": "1e300",
    "bytes that are no text": "\udcff",
    "a very long cell": "9" * LONG,
}
Items = Sequence[Any]


class Form(Protocol):
    """How one kind of file holds records: apart from each other, and put together again."""

    items: list[Any]

    def hostile(self, item: Any) -> Iterator[tuple[str, Any]]:
        """What one record may be exchanged for."""

    def write(self, items: Items, folder: Path) -> tuple[Source, list[int]]:
        """A file of these records in a folder, and the row of each."""


def replay_files(
    source: Source,
    votes_of: Callable[[Source], Sequence[Votes]],
    relation: Neighbours,
    protocols: tuple[Release[Any], ...],
    *,
    seed: int = 0,
) -> ReplayResult:
    """Compare the votes of all records but one between a file and its neighbours.

    Args:
      source: Where the records are. It is copied, never written to.
      votes_of: Reads a file and casts its records' votes, once for each round's queries; all else is held fixed.
      seed: Chooses the record that is exchanged; experiment randomness, not noise.
    """
    form = form_of(source)
    before = votes_of(source)
    ballot = before[0].ballot
    changes = []
    total = sum(1 for _ in _neighbours(form, seed))  # each is a copy of all records: they are made one at a time
    for number, (name, kind, items, origin) in enumerate(_neighbours(form, seed)):
        allowed = 0 if kind is None else ballot.cells_changed(kind)
        with tempfile.TemporaryDirectory() as folder:
            copy, place = form.write(items, Path(folder))
            try:
                with part(number, number + 1, total):
                    after = votes_of(copy)
            except InvalidInput:
                changes.append(Change(name=name, moved=None, allowed=allowed))
                continue
        rows = np.array([row for row, old in zip(place, origin, strict=True) if old is not None], dtype=np.int64)
        olds = np.array([old for old in origin if old is not None], dtype=np.int64)
        differing = max(_differing(one, other, olds, rows) for one, other in zip(before, after, strict=True))
        moved = max(int(np.abs(a.counts() - b.counts()).sum()) for a, b in zip(before, after, strict=True))
        changed = (f"votes of {differing} other records",) if differing else ()
        changes.append(Change(name=name, moved=moved, allowed=allowed, changed=changed))
    return ReplayResult(neighbours=relation, changes=tuple(changes), protocols=protocols, what="files")


def _differing(before: Votes, after: Votes, olds: NDArray[np.int64], news: NDArray[np.int64]) -> int:
    """How many of the records that nobody touched vote otherwise."""
    if len(news) and news.max() >= len(after):
        return len(olds)  # records went missing
    same = (before.queries[olds] == after.queries[news]).all(axis=1)
    same &= (before.labels[olds] == after.labels[news]).all(axis=1)
    return int((~same).sum())


def _neighbours(form: Form, seed: int) -> Iterator[tuple[str, Neighbours | None, Items, list[int | None]]]:
    """Each neighbour's records, and for each of them which old record it is; None for a new one."""
    items, n = form.items, len(form.items)
    everyone: list[int | None] = list(range(n))
    rng = seeded(seed, "audit", "files")
    at = int(rng.integers(n))
    order = [int(row) for row in rng.permutation(n)]
    yield "the records are reordered", None, [items[row] for row in order], list(order)
    yield "the records are turned round", None, items[::-1], everyone[::-1]
    for name, row in (("the first record", 0), ("a record", at), ("the last record", n - 1)):
        yield (
            f"{name} is removed",
            Neighbours.ADD_REMOVE,
            items[:row] + items[row + 1 :],
            everyone[:row] + everyone[row + 1 :],
        )
    for name, made in form.hostile(items[at]):
        replaced = [*items[:at], made, *items[at + 1 :]], [*everyone[:at], None, *everyone[at + 1 :]]
        yield f"a record becomes one with {name}", Neighbours.REPLACE, *replaced
        yield f"a record with {name} is added in front", Neighbours.ADD_REMOVE, [made, *items], [None, *everyone]
        yield f"a record with {name} is added at the end", Neighbours.ADD_REMOVE, [*items, made], [*everyone, None]


def form_of(source: Source) -> Form:
    """How the file holds its records."""
    if source.path.is_dir():
        return DatasetFolder(source) if is_dataset(source.path) else ImageFolder(source)
    forms: dict[str, Callable[[Source], Form]] = {
        ".csv": CsvFile,
        ".tsv": CsvFile,
        ".xlsx": Workbook,
        ".parquet": ParquetFile,
        ".npy": ArrayFile,
        ".npz": ArrayFile,
        ".txt": TextFile,
    }
    form = forms.get(ending(source.path))
    if form is None:
        raise InvalidInput(
            f"{source.path} must be {', '.join(forms)}, a folder of images or a Hugging Face dataset on disk"
        )
    return form(source)


def _listed(names: str | list[str] | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else names


class CsvFile:
    """A record is a row of text cells."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.header, self.items = csv_file(source.path, source.layout)

    def hostile(self, item: list[str]) -> Iterator[tuple[str, list[str]]]:
        labels = [self.header.index(name) for name in _listed(self.source.labels)]
        row = item if len(item) == len(self.header) else [""] * len(self.header)
        for name, word in WORDS.items():
            yield name, [cell if place in labels else word for place, cell in enumerate(row)]
        yield "a cell too few", row[:-1] or [""]
        yield "a cell too many", [*row, "1"]
        for name, word in (("a class nobody declared", NO_CLASS), ("no class", "")):
            yield name, [word if place in labels else cell for place, cell in enumerate(row)]

    def write(self, items: Items, folder: Path) -> tuple[Source, list[int]]:
        path, layout, text = folder / self.source.path.name, self.source.layout, io.StringIO(newline="")
        # Quotes around everything keep a row whose only cell is empty from becoming an empty line, which is none.
        rows = csv.writer(text, quoting=csv.QUOTE_ALL, delimiter=layout.between(path))
        rows.writerows(chain([self.header], items))
        _write_text(path, text.getvalue(), layout)
        return self.source.model_copy(update={"path": path}), list(range(len(items)))


def _write_text(path: Path, text: str, layout: Layout) -> None:
    name, errors = ENCODINGS[layout.encoding]
    content = text.encode(name, errors)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix.lower() == PACKED else content)


class Workbook:
    """A record is a row of cells, each of its own type."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.header, self.items = excel_file(source.path, source.sheet)

    def hostile(self, item: list[Any] | None) -> Iterator[tuple[str, list[Any]]]:
        labels = [self.header.index(name) for name in _listed(self.source.labels)]
        row = [None] * len(self.header) if item is None else item
        texts = {name: word for name, word in WORDS.items() if word and word.isascii()}
        for name, cell in (texts | {"numbers": 7, "dates": datetime(1999, 9, 9), "flags": True}).items():
            yield name, [old if place in labels else cell for place, old in enumerate(row)]
        yield "gaps", [old if place in labels else None for place, old in enumerate(row)]
        yield "a cell too many", [*row, 1]
        for name, word in (("a class nobody declared", NO_CLASS), ("no class", None)):
            yield name, [word if place in labels else cell for place, cell in enumerate(row)]

    def write(self, items: Items, folder: Path) -> tuple[Source, list[int]]:
        book = importlib.import_module("openpyxl").Workbook(write_only=True)
        sheet = book.create_sheet(self.source.sheet)
        for row in chain([self.header], items):
            sheet.append([None] * len(self.header) if row is None else row)
        path = folder / "records.xlsx"
        book.save(path)
        return self.source.model_copy(update={"path": path}), list(range(len(items)))


class ParquetFile:
    """A record is a row of a table whose columns have types."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.table = self._opened()
        self.items: list[Any] = list(range(len(self.table)))

    def _opened(self) -> Any:
        with parquet_file(self.source.path) as held:
            return held.read()

    def hostile(self, item: int) -> Iterator[tuple[str, dict[str, Any]]]:
        import pyarrow as pa

        row = {name: value_of(self.table.column(name)[item]) for name in self.table.column_names}
        labels = _listed(self.source.labels)

        def exchanged(word: str, number: float | None, whole: int | None, *, label: bool) -> dict[str, Any]:
            made = dict(row)
            for column in self.table.schema:
                if (column.name in labels) is label:
                    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
                    lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
                    floats = pa.types.is_floating(column.type)
                    integers = pa.types.is_integer(column.type)
                    made[column.name] = (
                        word if text else number if floats else whole if integers else [] if lists else None
                    )
            return made

        yield "gaps", {name: value if name in labels else None for name, value in row.items()}
        yield "NaN", exchanged("nan", float("nan"), None, label=False)
        yield "a number beyond all numbers", exchanged("1e999", float("inf"), 127, label=False)
        yield "a very long cell", exchanged("9" * LONG, 1e30, 0, label=False)
        yield "a class nobody declared", exchanged(NO_CLASS, NO_NUMBER, 99, label=True)
        yield "no class", {name: None if name in labels else value for name, value in row.items()}
        yield "no text and no dates", self._unreadable(item)

    def _unreadable(self, item: int) -> Any:
        """A row of cells that a file can hold and Python cannot: bytes that are not UTF-8, days beyond the calendar."""
        import pyarrow as pa

        one = self.table.slice(item, 1)
        for place, column in enumerate(one.schema):
            if pa.types.is_string(column.type):
                raw = pa.array([b"\xff"], type=pa.binary())
                one = one.set_column(place, column, pa.Array.from_buffers(column.type, 1, raw.buffers()))
            elif pa.types.is_date32(column.type):
                one = one.set_column(place, column, pa.array([2**31 - 1], type=pa.int32()).view(column.type))
            elif pa.types.is_timestamp(column.type):
                one = one.set_column(place, column, pa.array([2**62], type=pa.int64()).view(column.type))
        return one

    def write(self, items: Items, folder: Path) -> tuple[Source, list[int]]:
        import pyarrow as pa

        parts = [
            self.table.slice(item, 1)
            if isinstance(item, int)
            else item
            if isinstance(item, pa.Table)
            else pa.Table.from_pylist([item], schema=self.table.schema)
            for item in items
        ]
        path = self._written(pa.concat_tables(parts) if parts else self.table.slice(0, 0), folder)
        return self.source.model_copy(update={"path": path}), list(range(len(items)))

    def _written(self, table: Any, folder: Path) -> Path:
        import pyarrow.parquet as pq

        pq.write_table(table, folder / "records.parquet")
        return folder / "records.parquet"


class DatasetFolder(ParquetFile):
    """A record is a row of a table whose columns have types, as Hugging Face's datasets keep it."""

    def _opened(self) -> Any:
        return arrow_folder(self.source.path)

    def _written(self, table: Any, folder: Path) -> Path:
        import pyarrow as pa

        with pa.OSFile(str(folder / "data.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        (folder / STATE).write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
        return folder


class ArrayFile:
    """A record is a row of an array, and one of the array of labels."""

    def __init__(self, source: Source) -> None:
        loaded = source.read("private")
        if loaded.labels is None:
            raise InvalidInput("private.labels must name where the records' labels are")
        self.source, self.samples, self.labels = source, np.asarray(loaded.samples), np.asarray(loaded.labels)
        self.items: list[Any] = list(zip(self.samples, self.labels, strict=True))

    def hostile(self, item: Any) -> Iterator[tuple[str, Any]]:
        sample, label = item
        kind = self.samples.dtype.kind
        if kind == "f":
            for name, value in (("NaN", np.nan), ("a number beyond all numbers", np.inf), ("a huge number", -1e30)):
                yield name, (np.full_like(sample, value), label)
        elif kind in "iu":
            for name, number in (("the greatest numbers", "max"), ("the least numbers", "min")):
                yield name, (np.full_like(sample, getattr(np.iinfo(self.samples.dtype), number)), label)
        else:
            for name, word in WORDS.items():
                yield name, (np.full(np.shape(sample), word.encode("utf-8", "replace").decode()), label)
        if self.labels.dtype.kind in "US":
            yield "a class nobody declared", (sample, np.full(np.shape(label), NO_CLASS))
        else:
            strange = np.nan if self.labels.dtype.kind == "f" else 99
            yield "a class nobody declared", (sample, np.full(np.shape(label), strange, dtype=self.labels.dtype))

    def write(self, items: Items, folder: Path) -> tuple[Source, list[int]]:
        samples, labels = (
            np.array([item[part] for item in items]) if items else whole[:0]
            for part, whole in ((0, self.samples), (1, self.labels))
        )
        path = folder / self.source.path.name
        if path.suffix.lower() == ".npz":
            with Archive(self.source.path) as held:
                others: dict[str, Any] = dict(held)
            name = self.source.samples if isinstance(self.source.samples, str) else self._sample_name(list(others))
            np.savez(path, **(others | {name: samples, str(self.source.labels): labels}))
        else:
            np.save(path, samples)
            np.save(folder / str(self.source.labels), labels)
        return self.source.model_copy(update={"path": path}), list(range(len(items)))

    def _sample_name(self, names: list[str]) -> str:
        return next(name for name in names if name != self.source.labels)


class TextFile:
    """A record is a line, and one of the file of labels."""

    def __init__(self, source: Source) -> None:
        self.source = source
        labels = source.path.parent / str(source.labels)
        lines = (text_lines(path, source.layout) for path in (source.path, labels))
        self.items: list[Any] = list(zip(*lines, strict=True))

    def hostile(self, item: tuple[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
        for name, word in WORDS.items():
            yield name, (word, item[1])
        yield "a class nobody declared", (item[0], NO_CLASS)
        yield "no class", (item[0], "")
        yield "a class that is no text", (item[0], "\udcff")

    def write(self, items: Items, folder: Path) -> tuple[Source, list[int]]:
        path, labels = folder / self.source.path.name, folder / str(self.source.labels)
        for place, file in enumerate((path, labels)):
            _write_text(file, "".join(f"{item[place]}\n" for item in items), self.source.layout)
        return self.source.model_copy(update={"path": path}), list(range(len(items)))


class ImageFolder:
    """A record is a file, and the subfolder it lies in is its class."""

    def __init__(self, source: Source) -> None:
        self.source = source
        classes = sorted(path for path in source.path.iterdir() if path.is_dir() and not path.name.startswith("."))
        files = [
            (folder.name, path)
            for folder in classes
            for path in sorted(folder.iterdir())
            if path.suffix.lower() in SUFFIXES and path.is_file()
        ]
        self.items: list[Any] = [(name, path.suffix, content_of(path)) for name, path in files]

    def hostile(self, item: tuple[str, str, bytes]) -> Iterator[tuple[str, tuple[str, str, bytes]]]:
        name, suffix, content = item
        yield "no image", (name, ".png", b"no image")
        yield "half an image", (name, suffix, content[: len(content) // 2])
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"):
            yield f"mode {mode}", (name, ".tif", _picture(mode, (16, 16)))
        for size in ((1, 1), (100, 3)):
            yield f"{size[0]} x {size[1]} pixels", (name, ".tif", _picture("RGB", size))
        yield "a class nobody declared", (NO_CLASS, suffix, content)

    def write(self, items: Items, folder: Path) -> tuple[Source, list[int]]:
        paths = [folder / name / f"{number:09d}{suffix}" for number, (name, suffix, _) in enumerate(items)]
        for path, (_, _, content) in zip(paths, items, strict=True):
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        in_order = {path: row for row, path in enumerate(sorted(paths, key=lambda path: (path.parent.name, path.name)))}
        return self.source.model_copy(update={"path": folder}), [in_order[path] for path in paths]


def _picture(mode: str, size: tuple[int, int]) -> bytes:
    from PIL import Image

    wide = np.arange(size[0] * size[1]).reshape(size[1], size[0])
    if mode == "I;16":
        picture = Image.fromarray((wide * 257).astype(np.uint16))
    else:
        picture = Image.fromarray((wide % 256).astype(np.uint8)).convert(mode)
    file = io.BytesIO()
    picture.save(file, format="TIFF")
    return file.getvalue()
