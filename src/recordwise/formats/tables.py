"""CSV and Parquet as containers: where rows end, which columns there are. What a cell means is not decided here."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from recordwise.errors import InvalidInput, MissingExtra
from recordwise.formats.files import MOST_CONTENT, opened, understood

END = 'end"of"file'  # reads otherwise where a quote is still open
MOST_COLUMNS = 100_000
# A run of equal cells takes no space in a file. Beyond this many cells a file must be large to hold many.
MOST_CELLS, MOST_CELLS_PER_BYTE = 1 << 28, 100
MOST_HEADER = 1 << 28  # bytes of a Parquet file's own description


def csv_file(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header of a CSV file, and its rows of text, of whatever length.

    Bytes that are not UTF-8 stand in their cell as lone surrogates, which no schema reads. An empty line is no row.
    Only the file as a whole is refused: no header, or a quote left open, which leaves unclear where any row ends.
    """
    with opened(path) as binary, understood(str(path)), _cells_of_any_length():
        if (size := os.fstat(binary.fileno()).st_size) > MOST_CONTENT:
            raise InvalidInput(f"{path.name} must have at most {MOST_CONTENT:,} bytes, it has {size:,}")
        # Spreadsheets put a mark before the first name. A row of our own shows whether a quote was left open.
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape", newline="")
        lines = csv.reader(chain(text, [END]), skipinitialspace=True)
        header = [name.strip() for name in next(lines, [])]
        rows = [line for line in lines if line]
    if not header or header == [END] or len(set(header)) != len(header):
        raise InvalidInput(f"{path.name} must have a header of different names, header is {header}")
    if len(header) > MOST_COLUMNS:
        raise InvalidInput(f"{path.name} must have at most {MOST_COLUMNS:,} columns, it has {len(header):,}")
    if not rows or rows.pop() != [END]:
        raise InvalidInput(f"{path.name} must close every quote it opens, one is left open")
    if any("\udc80" <= letter <= "\udcff" for name in header for letter in name):
        raise InvalidInput(f"{path.name} must be UTF-8, its header is not")
    return header, rows


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    """A long cell is that record's own business and must not stop the others from being read."""
    before = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        yield
    finally:
        csv.field_size_limit(before)


@contextmanager
def parquet_file(path: Path) -> Iterator[ParquetTable]:
    """A Parquet file whose description says that it fits."""
    try:
        import pyarrow.parquet as pq
    except ImportError as fault:
        raise MissingExtra("Parquet needs pyarrow: install recordwise[parquet]") from fault
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

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """These columns, or all of them, as an Arrow table."""
        return self._held.read(columns=None if columns is None else list(columns))
