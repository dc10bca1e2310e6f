"""Workbooks as containers: a sheet's rows, and their cells as far as each can be read.

openpyxl's own loops refuse a workbook for one cell that announces a number and holds none, or for one text in a font
that it does not know; and a row that says a wrong number takes others with it. So cells and texts are read one by one
here, and what a row says of its place, or a text of its looks, is not read at all.
"""

from __future__ import annotations

import importlib
import os
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from recordwise.extras.asking import optional

from recordwise.errors import InvalidInput
from recordwise.formats.files import MOST_RATIO, MOST_UNPACKED, opened, understood
from recordwise.formats.tables import check_header

SPACE = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
ROWS, ROW, STRING, TEXT, RUN = (f"{SPACE}{tag}" for tag in ("sheetData", "row", "si", "t", "r"))


def excel_file(path: Path, sheet: str | None = None) -> tuple[list[str], list[list[Any] | None]]:
    """The header of a sheet, and its rows of cells, each of its own type; None for a row with cells beyond the header.

    Cells that are not there, or cannot be read, are None, and a row without any is none. Formulas are what they last
    gave.
    """
    library = optional("openpyxl.reader.excel", "a workbook", extra="excel")
    with opened(path) as file, understood(str(path)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a cell, which may be a record's
        with zipfile.ZipFile(file) as parts:
            size, most = sum(part.file_size for part in parts.infolist()), _most_unpacked(file)
        if size > most:
            raise InvalidInput(f"{path.name} must unpack to at most {most:,} bytes, it has {size:,}")
        reader = library.ExcelReader(file, read_only=True, data_only=True, keep_links=False)
        reader.read_strings = lambda: reader.shared_strings.extend(_strings(reader, library))
        reader.read()
        book = reader.wb
        try:
            if sheet is not None and sheet not in book.sheetnames:
                raise InvalidInput(f"{path.name} has no sheet {sheet!r}, its sheets are {', '.join(book.sheetnames)}")
            held = [row for row in _rows(book[book.sheetnames[0] if sheet is None else sheet]) if row]
        finally:
            book.close()
    first = held[0] if held else {}
    names = [first.get(place) for place in range(1, max(first, default=0) + 1)]
    header = ["" if name is None else str(name).strip() for name in names]
    while header and not header[-1]:
        header.pop()
    check_header(path.name, header)
    width = len(header)
    return header, [None if max(row) > width else [row.get(place) for place in range(1, width + 1)] for row in held[1:]]


def _most_unpacked(file: BinaryIO) -> int:
    return max(MOST_UNPACKED, MOST_RATIO * os.fstat(file.fileno()).st_size)


def _strings(reader: Any, library: Any) -> Iterator[str]:
    """The texts that cells name by their number."""
    part = reader.package.find(library.SHARED_STRINGS)
    if part is None:
        return
    with reader.archive.open(part.PartName[1:]) as source:
        for _, element in importlib.import_module("openpyxl.xml.functions").iterparse(source):
            if element.tag == STRING:
                texts = [*element.findall(TEXT), *element.findall(f"{RUN}/{TEXT}")]
                yield "".join(text.text or "" for text in texts).replace("x005F_", "")  # as openpyxl unescapes
                element.clear()


def _rows(page: Any) -> Iterator[dict[int, Any]]:
    """Each row's cells by the number of their column, in the order of the file."""
    library, book = importlib.import_module("openpyxl.worksheet._reader"), page.parent
    with page._get_source() as source:
        parser = library.WorkSheetParser(
            source,
            page._shared_strings,
            data_only=True,
            epoch=book.epoch,
            date_formats=book._date_formats,
            timedelta_formats=book._timedelta_formats,
        )
        for _, element in library.iterparse(source):
            if element.tag == ROWS:
                return
            if element.tag == ROW:
                yield dict(_cells(parser, element))
                element.clear()


def _cells(parser: Any, row: Any) -> Iterator[tuple[int, Any]]:
    parser.col_counter = 0
    for element in row:
        try:
            cell = parser.parse_cell(element)
        except Exception:  # whatever is wrong with it, this one cell is not readable
            yield parser.col_counter, None
            continue
        if cell["value"] is not None:
            yield cell["column"], cell["value"]
