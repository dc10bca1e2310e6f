"""How text spells a table: what is declared is followed, what is public may be guessed from, and nothing else."""

from __future__ import annotations

import csv
import gzip
import re
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import pytest

from recordwise.data import read
from recordwise.errors import InvalidInput, MissingExtra
from recordwise.formats import Layout, files, guessed, text_lines
from recordwise.formats.long_cells import LONGEST, cells_of_any_length

ROWS = [["Größe", "Ort", "Nr"], ["1,5", "Köln", "a"], ["1.234,75", "Mainz", "b"], ["-2,0e1", "Trier", "c"]]


def write(path: Path, delimiter: str = ",", encoding: str = "utf-8", rows: list[list[str]] = ROWS) -> Path:
    quoted = [[f'"{cell}"' if delimiter in cell else cell for cell in row] for row in rows]
    content = "\n".join(delimiter.join(row) for row in quoted).encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "utf-16"])
@pytest.mark.parametrize("name", ["d.csv", "d.csv.gz"])
def test_a_table_reads_the_same_in_every_layout(name: str, encoding: str, delimiter: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, delimiter, encoding)
    loaded = read(path, layout=Layout(delimiter=delimiter, encoding=encoding, decimal=","), ids="Nr")
    assert loaded.columns == ("Größe", "Ort")
    assert loaded.samples == [["1.5", "Köln"], ["1234.75", "Mainz"], ["-2.0e1", "Trier"]]
    assert loaded.ids is not None and loaded.ids.tolist() == ["a", "b", "c"] and loaded.ids_name == "Nr"
    seen = guessed(path)
    assert seen.delimiter == (None if delimiter == "," else delimiter)
    assert seen.encoding in {encoding, "cp1252"} if encoding in ("latin-1", "cp1252") else encoding.startswith("utf")
    assert seen.decimal == ("." if delimiter == "," else ",")  # a comma between cells is no sign of commas in them
    assert guessed(path, encoding=encoding, decimal=",").decimal == ","


def test_a_comma_is_a_decimal_sign_in_numbers_alone() -> None:
    layout = Layout(decimal=",")
    for cell in ("Mainz, am Rhein", "1,2,3", ",", "-,", "12.34,5", "1.5", "1.234", "01.02.2024", "", "1,5 kg"):
        assert layout.number(cell) == cell, cell
    assert [layout.number(cell) for cell in ("1,", ",5", " +1,5 ", "1.234.567,8")] == ["1.", ".5", "+1.5", "1234567.8"]
    assert Layout().number("1,5") == "1,5"


def test_a_tab_stands_between_the_cells_of_a_tsv_file(tmp_path: Path) -> None:
    path = write(tmp_path / "d.tsv", "\t")
    assert read(path).columns == ("Größe", "Ort", "Nr") and guessed(path).delimiter is None


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"delimiter": ":"}, "delimiter must be one of"),
        ({"encoding": "ebcdic"}, "encoding must be one of utf-8"),
        ({"decimal": "'"}, "decimal must be"),
    ],
)
def test_a_layout_is_one_of_a_few(settings: dict[str, str], rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        Layout(**settings)


def test_another_layout_than_the_declared_one_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", ";", "latin-1")
    with pytest.raises(InvalidInput, match="must be UTF-8, its header is not; say its encoding"):
        read(path, labels="Ort")
    with pytest.raises(InvalidInput, match=r"has no column 'Ort', its columns are .*; say its delimiter"):
        read(path, labels="Ort", layout=Layout(encoding="latin-1"))


def test_lines_of_text_in_every_encoding(tmp_path: Path) -> None:
    for encoding in ("utf-8", "latin-1", "cp1252", "utf-16"):
        (tmp_path / "d.txt").write_bytes("Köln\r\nMainz\n".encode(encoding))
        assert text_lines(tmp_path / "d.txt", Layout(encoding=encoding)) == ["Köln", "Mainz"]
    (tmp_path / "d.txt").write_bytes(b"a\n\xff\nb")
    assert read(tmp_path / "d.txt").samples.tolist() == ["a", None, "b"]
    (tmp_path / "d.txt").write_bytes("a\n".encode("utf-16-le") + b"\x00\xd8" + "\nb".encode("utf-16-le"))
    assert read(tmp_path / "d.txt", layout=Layout(encoding="utf-16")).samples.tolist() == ["a", None, "b"]


def test_what_a_packed_file_unpacks_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_UNPACKED", 1 << 16)
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(b"a\n" + b"0" * (1 << 20)))
    with pytest.raises(InvalidInput, match="must unpack to at most"):
        read(tmp_path / "d.csv.gz")
    (tmp_path / "d.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(InvalidInput, match="could not be read"):
        read(tmp_path / "d.csv.gz")


def test_a_workbook_needs_an_extra_and_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl.reader.excel", None)
    (tmp_path / "d.xlsx").touch()
    with pytest.raises(MissingExtra, match=r"a workbook needs openpyxl: pip install 'recordwise\[excel\]'"):
        read(tmp_path / "d.xlsx")


def test_a_workbook_s_cells_keep_their_types(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "first"
    sheet = book.create_sheet("second")
    for row in (["age", "when", "note"], [7, datetime(2024, 1, 31), None], [], [1.5], [1, 2, 3, 4], ["x", "y", True]):
        sheet.append(row)
    book.save(tmp_path / "d.xlsx")
    loaded = read(tmp_path / "d.xlsx", layout=Layout(sheet="second"), labels="note")
    assert loaded.columns == ("age", "when")
    assert loaded.samples == [[7, datetime(2024, 1, 31)], [1.5, None], None, ["x", "y"]]
    assert loaded.labels is not None and loaded.labels.tolist() == [None, None, None, True]
    with pytest.raises(InvalidInput, match="no sheet 'third', its sheets are first, second"):
        read(tmp_path / "d.xlsx", layout=Layout(sheet="third"))
    with pytest.raises(InvalidInput, match="must have a header"):
        read(tmp_path / "d.xlsx")


def test_a_dataset_on_disk_is_its_own_files_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../d.arrow"}]}')
    with pytest.raises(InvalidInput, match="must hold the files of its own rows"):
        read(tmp_path)
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "d.arrow"}]}')
    (tmp_path / "d.arrow").write_bytes(b"no arrow at all")
    with pytest.raises(InvalidInput, match="could not be read"):
        read(tmp_path)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(InvalidInput, match=r"several datasets \(train, test\): name the folder of one"):
        read(tmp_path)


CELL = '<c r="A3" t="n"><v>2</v></c>'
SPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
STRINGS = "xl/sharedStrings.xml"
SPREADSHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml"
SHARED = f'<Override PartName="/{STRINGS}" ContentType="{SPREADSHEET}.sharedStrings+xml"/>'
FONT = f'<sst xmlns="{SPACE}"><si><r><rPr><family val="99"/></rPr><t>tw</t></r><r><t>o</t></r></si></sst>'
BAD_CELLS = {
    "no number": ('<c r="A3" t="n"><v>nan</v></c>', None),
    "a number of 5,000 digits": (f'<c r="A3" t="n"><v>{"1" * 5000}</v></c>', None),
    "no string of the book": ('<c r="A3" t="s"><v>9999</v></c>', None),
    "a string in a font that is none": ('<c r="A3" t="s"><v>0</v></c>', "two"),
    "no date": ('<c r="A3" t="d"><v>soon</v></c>', None),
    "no place": ('<c r="3A" t="n"><v>2</v></c>', None),
    "its row says to be the last": (CELL, 2),
}


@pytest.mark.parametrize("name", BAD_CELLS)
def test_a_cell_that_a_workbook_spells_wrongly_is_missing_and_every_other_row_stays(name: str, tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["a", "y"], [1, True], [2, False], [3, True]):
        book.active.append(row)
    book.save(tmp_path / "d.xlsx")
    cell, read_as = BAD_CELLS[name]
    heads = [f'<c r="{place}1" t="inlineStr"><is><t>{head}</t></is></c>' for place, head in (("A", "a"), ("B", "y"))]
    with zipfile.ZipFile(tmp_path / "d.xlsx") as plain, zipfile.ZipFile(tmp_path / "e.xlsx", "w") as altered:
        for part in plain.namelist():
            text = plain.read(part).decode()
            if part == "[Content_Types].xml" and "sharedStrings" not in text:
                text = text.replace("</Types>", f"{SHARED}</Types>")
            if part == STRINGS:
                continue
            if part.endswith("sheet1.xml"):
                assert CELL in text
                text = re.sub(r'(<row r="1"[^>]*>).*?</row>', rf"\1{''.join(heads)}</row>", text)
                text = text.replace(CELL, cell)
                text = text.replace('<row r="3"', '<row r="1048576"') if cell == CELL else text
            altered.writestr(part, text)
        altered.writestr(STRINGS, FONT)
    loaded = read(tmp_path / "e.xlsx", labels="y")
    assert loaded.samples == [[1], [read_as], [3]]
    assert loaded.labels is not None and loaded.labels.tolist() == [True, False, True]


def test_a_long_cell_is_read_and_the_limit_is_the_callers_again(tmp_path: Path) -> None:
    usual = csv.field_size_limit()
    long = "x" * (usual + 1)
    path = write(tmp_path / "d.csv", ";", rows=[["a", "b"], [long, "1,5"]])
    assert guessed(path).delimiter == ";" and read(path, layout=guessed(path)).samples == [[long, "1.5"]]
    assert csv.field_size_limit() == usual


def test_readers_that_overlap_leave_each_other_the_limit() -> None:
    usual = csv.field_size_limit()
    first, second = cells_of_any_length(), cells_of_any_length()
    with first:
        second.__enter__()
    assert csv.field_size_limit() == LONGEST  # the other still reads
    second.__exit__(None, None, None)
    assert csv.field_size_limit() == usual
