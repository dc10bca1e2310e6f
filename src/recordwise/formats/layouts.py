"""How text spells a table: its encoding, its delimiter, its decimal sign. Declared, or guessed from a public file.

A private file is read by a layout that somebody wrote down before it was opened. Were it guessed from the file, one
record could change how all others are read.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from recordwise.errors import InvalidInput, shown
from recordwise.formats.files import MOST_CONTENT, ending, understood, unpacked
from recordwise.formats.long_cells import cells_of_any_length

COMMA, TAB = ",", "\t"
DELIMITERS = (COMMA, ";", TAB, "|")
DECIMALS = (".", ",")
# What each is called by the decoder, and what stands for bytes that it cannot decode: a lone surrogate each, so that
# no schema reads that cell, and every other one is as it was.
ENCODINGS = {
    "utf-8": ("utf-8-sig", "surrogateescape"),  # spreadsheets put a mark before the first name
    "utf-8-sig": ("utf-8-sig", "surrogateescape"),
    "latin-1": ("latin-1", "surrogateescape"),
    "cp1252": ("cp1252", "surrogateescape"),
    "utf-16": ("utf-16", "surrogatepass"),
}
ENDINGS = {".csv": COMMA, ".tsv": TAB}
_LOOKED_AT = 1 << 20  # bytes of a public file, for a guess
_LINES = 200
# 1,5 and 1.234,5: a decimal comma must be there, for 1.234 alone may be either.
WITH_COMMA = re.compile(r"\s*([+-]?)((?:\d{1,3}(?:\.\d{3})+)|\d*),(\d*(?:[eE][+-]?\d+)?)\s*", re.ASCII)
WITH_POINT = re.compile(r"\s*[+-]?\d+\.\d+\s*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a file spells its cells. Public.

    Attributes:
      delimiter: Between the cells of a text file; by its ending where None: a comma in .csv, a tab in .tsv.
      encoding: Of a text file.
      decimal: Where "," a cell that is a number with a decimal comma is that number; dots may group its thousands.
      sheet: Of a workbook; the first one where None.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter not in (None, *DELIMITERS):
            known = ", ".join(map(repr, DELIMITERS))
            raise InvalidInput(f"delimiter must be one of {known}, got {shown(self.delimiter)}")
        if self.encoding not in ENCODINGS:
            raise InvalidInput(f"encoding must be one of {', '.join(ENCODINGS)}, got {shown(self.encoding)}")
        if self.decimal not in DECIMALS:
            raise InvalidInput(f"decimal must be '.' or ',', got {shown(self.decimal)}")

    def between(self, path: Path) -> str:
        """What stands between the cells of this file."""
        return self.delimiter or ENDINGS.get(ending(path), COMMA)

    def decoder(self, start: bytes) -> tuple[str, str]:
        """The encoding's name and its way with bad bytes, for a file that starts so."""
        name, errors = ENCODINGS[self.encoding]
        if name == "utf-16" and start[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            name = "utf-16-le"  # as the decoder takes it on most machines, and here on all
        return name, errors

    def number(self, cell: str) -> str:
        """A cell with a decimal point where it is a number with a decimal comma; as it stands otherwise."""
        found = WITH_COMMA.fullmatch(cell) if self.decimal == COMMA else None
        if found is None or not (found[2] or found[3][:1].isdigit()):
            return cell
        return f"{found[1]}{found[2].replace('.', '')}.{found[3]}"


def text_lines(path: Path, layout: Layout) -> list[str]:
    """A file's lines, without what ends them; bytes that the encoding has no text for are lone surrogates."""
    with unpacked(path) as file, understood(str(path)):
        content = file.read(MOST_CONTENT + 1)
        if len(content) > MOST_CONTENT:
            raise InvalidInput(f"{path} must have at most {MOST_CONTENT:,} bytes, it has more")
        lines = content.decode(*layout.decoder(content)).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def guessed(path: Path, **known: str | None) -> Layout:
    """The layout that a public text file seems to have; never to be asked of a private one.

    Args:
      known: Parts of the layout that somebody wrote down; None among them is not known.
    """
    said = {name: value for name, value in known.items() if value is not None}
    if ending(path) not in (*ENDINGS, ".txt"):
        return Layout(**said)
    with unpacked(path) as file:
        content = file.read(_LOOKED_AT)
    layout = Layout(**{"encoding": _encoding(content)} | said)
    if ending(path) not in ENDINGS:
        return layout
    name, errors = layout.decoder(content)
    whole = content[: len(content) & ~1] if name.startswith("utf-16") else content
    lines = [*islice(io.StringIO(whole.decode(name, errors), newline=""), _LINES)]
    if len(content) == _LOOKED_AT and 1 < len(lines) < _LINES:
        lines.pop()  # cut off
    with cells_of_any_length():
        delimiter = layout.delimiter or _delimiter(lines, layout.between(path))
        cells = [cell for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) for cell in row]
    commas = sum(WITH_COMMA.fullmatch(cell) is not None for cell in cells)
    points = sum(WITH_POINT.fullmatch(cell) is not None for cell in cells)
    decimal = "," if delimiter != COMMA and commas > points else "."
    found = {"decimal": decimal, "encoding": layout.encoding}
    if delimiter != ENDINGS[ending(path)]:
        found["delimiter"] = delimiter
    return Layout(**found | said)


def _encoding(content: bytes) -> str:
    if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)  # what it lacks at the end may have been cut off
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def _delimiter(lines: list[str], usual: str) -> str:
    """The one that gives all rows the most cells, as many as the header has; the usual one where none does."""
    best, most = usual, 1
    for delimiter in DELIMITERS:
        widths = {len(row) for row in csv.reader(lines, delimiter=delimiter, skipinitialspace=True) if row}
        if len(widths) == 1 and (width := widths.pop()) > most:
            best, most = delimiter, width
    return best
