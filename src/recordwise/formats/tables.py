"""CSV, Parquet and Arrow as containers: where rows end, which columns there are.

What a cell means is not decided here.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from recordwise.extras.asking import optional

from recordwise.errors import InvalidInput, shown
from recordwise.formats.documents import json_file, json_from
from recordwise.formats.files import MOST_CONTENT, content_of, opened, understood, unpacked
from recordwise.formats.layouts import Layout
from recordwise.formats.long_cells import cells_of_any_length
from recordwise.progress import done

PLAIN = Layout()
OFTEN = 1 << 12  # rows between two looks at how far the file is read
END = 'end"of"file'  # reads otherwise where a quote is still open
MOST_COLUMNS = 100_000
# A run of equal cells takes no space in a file. Beyond this many cells a file must be large to hold many.
MOST_CELLS, MOST_CELLS_PER_BYTE = 1 << 28, 100
MOST_HEADER = 1 << 28  # bytes of a Parquet file's own description


def csv_file(path: Path, layout: Layout = PLAIN) -> tuple[list[str], list[list[str]]]:
    """The header of a text table, and its rows of text, of whatever length.

    Bytes that the encoding has no text for stand in their cell as lone surrogates, which no schema reads. An empty line
    is no row. Only the file as a whole is refused: no header, or a quote left open, which leaves unclear where any row
    ends.
    """
    with unpacked(path) as binary, understood(str(path)), cells_of_any_length():
        start = binary.read(2)
        size = binary.seek(0, os.SEEK_END)
        binary.seek(0)
        if size > MOST_CONTENT:
            raise InvalidInput(f"{path.name} must have at most {MOST_CONTENT:,} bytes, it has {size:,}")
        encoding, errors = layout.decoder(start)
        text = io.TextIOWrapper(binary, encoding=encoding, errors=errors, newline="")
        # A row of our own shows whether a quote was left open.
        lines = csv.reader(chain(text, [END]), delimiter=layout.between(path), skipinitialspace=True)
        header = [name.strip() for name in next(lines, [])]
        rows = []
        for number, line in enumerate(lines):
            if line:
                rows.append(line)
            if number % OFTEN == 0:
                done(binary.tell(), size)
    check_header(path.name, header)
    if header == [END] or not rows or rows.pop() != [END]:
        raise InvalidInput(f"{path.name} must close every quote it opens, one is left open")
    if any("\ud800" <= letter <= "\udfff" for name in header for letter in name):
        raise InvalidInput(f"{path.name} must be {layout.encoding.upper()}, its header is not; say its encoding")
    return header, rows


def check_header(name: str, header: list[str]) -> None:
    """Refuse a table whose columns have no names, or the same one twice."""
    if not header or header == [END] or len(set(header)) != len(header):
        raise InvalidInput(f"{name} must have a header of different names, header is {shown(header)}")
    if len(header) > MOST_COLUMNS:
        raise InvalidInput(f"{name} must have at most {MOST_COLUMNS:,} columns, it has {len(header):,}")


@contextmanager
def parquet_file(path: Path) -> Iterator[ParquetTable]:
    """A Parquet file whose description says that it fits."""
    pq = optional("pyarrow.parquet", "Parquet", extra="parquet")
    with opened(path) as file, understood(str(path)):
        size = os.fstat(file.fileno()).st_size
        held = pq.ParquetFile(file, thrift_string_size_limit=MOST_HEADER, thrift_container_size_limit=MOST_HEADER)
        about = held.metadata
        cells, most = about.num_rows * about.num_columns, max(MOST_CELLS, MOST_CELLS_PER_BYTE * size)
        if about.num_columns > MOST_COLUMNS or not 0 <= cells <= most:
            raise InvalidInput(
                f"{path.name} must have at most {MOST_COLUMNS:,} columns and {most:,} cells, it has "
                f"{about.num_columns:,} and {cells:,}"
            )
        yield ParquetTable(held)


class ParquetTable:
    """The columns of an open Parquet file."""

    def __init__(self, held: Any) -> None:
        self._held = held
        self.names: list[str] = list(held.schema_arrow.names)
        self.kinds: dict[str, Any] = dict(zip(self.names, held.schema_arrow.types, strict=True))

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """These columns, or all of them, as an Arrow table."""
        return self._held.read(columns=None if columns is None else list(columns))


STATE, SPLITS = "state.json", "dataset_dict.json"  # what lies in a folder of Hugging Face's datasets


def is_dataset(folder: Path) -> bool:
    """Whether a folder is one that `save_to_disk` of Hugging Face's datasets wrote."""
    return (folder / STATE).is_file() or (folder / SPLITS).is_file()


def arrow_folder(folder: Path) -> Any:
    """The rows of a Hugging Face dataset on disk, as an Arrow table."""
    pa = optional("pyarrow", "a dataset on disk", extra="parquet")
    if (folder / SPLITS).is_file():
        splits = json_file(folder / SPLITS).get("splits", [])
        raise InvalidInput(f"{folder} holds several datasets ({', '.join(map(str, splits))}): name the folder of one")
    state = json_file(folder / STATE)
    with understood(str(folder)):
        names = [str(one["filename"]) for one in state["_data_files"]]
        if state.get("_indices_files") or any(Path(name).name != name for name in names):
            raise InvalidInput(f"{folder} must hold the files of its own rows, as save_to_disk writes them")
        parts = [pa.ipc.open_stream(content_of(folder / name)).read_all() for name in names]
        table = pa.concat_tables(parts)
        _check_offsets(table)
    if table.num_columns > MOST_COLUMNS:
        raise InvalidInput(f"{folder} must have at most {MOST_COLUMNS:,} columns, it has {table.num_columns:,}")
    return table


def _check_offsets(table: Any) -> None:
    """Refuse a table whose offsets point elsewhere, for they would be followed.

    Text is looked at as bytes: whether a cell's are text is that cell's own business.
    """
    for column in table.columns:
        for chunk in column.chunks:
            parts = [chunk.indices, chunk.dictionary] if hasattr(chunk, "dictionary") else [chunk]
            for part in parts:
                part.view(_raw(part.type)).validate(full=True)


def _raw(kind: Any) -> Any:
    """A type of the same layout, without text."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _raw(part.type), part.nullable) for part in kind])
    for is_list, made in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if is_list(kind):
            return made(pa.field(kind.value_field.name, _raw(kind.value_type), kind.value_field.nullable))
    return kind


def features_of(table: Any) -> dict[str, Any]:
    """What Hugging Face's datasets noted of an Arrow table's columns, by name; nothing where they noted none."""
    noted = (table.schema.metadata or {}).get(b"huggingface")
    if noted is None:
        return {}
    description = json_from(noted, "the description of its columns")
    features = description.get("info", {}).get("features", {}) if isinstance(description, dict) else {}
    return features if isinstance(features, dict) else {}
