"""Readers: what they give back, what they refuse before anything is allocated, and that nothing reads beside them."""

from __future__ import annotations

import ast
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from bad_data import bomb, header, huge_picture, many
from ended import at_most
from PIL import Image

import recordwise
from recordwise.errors import InvalidInput
from recordwise.formats import (
    Archive,
    array_file,
    array_from,
    content_of,
    csv_file,
    documents,
    files,
    json_from,
    lines_of,
    picture_file,
    pictures,
    toml_file,
)

ROOT = Path(recordwise.__file__).parent


def test_arrays_come_back_as_they_were(tmp_path: Path) -> None:
    for array in (
        np.arange(12.0).reshape(3, 4),
        np.asfortranarray(np.arange(12).reshape(3, 4)),
        np.array(["é", "bc"]),
        np.array(5),
        np.zeros((0, 3)),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([True, False]),
    ):
        file = io.BytesIO()
        np.save(file, array)
        (tmp_path / "x.npy").write_bytes(file.getvalue())
        np.savez_compressed(tmp_path / "x.npz", one=array)
        with Archive(tmp_path / "x.npz") as archive:
            assert list(archive) == ["one"]
            found = [array_from(file.getvalue()), np.asarray(array_file(tmp_path / "x.npy")), archive["one"]]
        for one in found:
            assert one.dtype == array.dtype and one.shape == array.shape and np.array_equal(one, array)


def test_a_header_is_believed_when_the_bytes_are_there() -> None:
    for content in (header((1 << 60,)), header((3,), rest=bytes(16)), header((3,), rest=bytes(32)), header((-1,))):
        with pytest.raises(InvalidInput):
            array_from(content)
    assert array_from(header((3,), rest=bytes(24))).tolist() == [0, 0, 0]


def test_an_archive_is_measured_before_it_is_unpacked() -> None:
    with pytest.raises(InvalidInput, match="must unpack to at most"):
        Archive(bomb())
    with pytest.raises(InvalidInput, match="10,000 parts"):
        Archive(many())
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", b"")
    with pytest.raises(InvalidInput, match=r"as numpy\.savez writes"):
        Archive(file.getvalue())


def test_one_altered_byte_of_an_array_s_content_is_found() -> None:
    file = io.BytesIO()
    np.savez(file, x=np.arange(100))
    content = bytearray(file.getvalue())
    content[300] ^= 1
    with Archive(bytes(content)) as archive, pytest.raises(InvalidInput, match="could not be read"):
        archive["x"]


def test_json_is_bounded_in_size_depth_and_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json_from(b'{"a": [1, 2.5, "\\ud83d\\ude00", null]}') == {"a": [1, 2.5, "😀", None]}
    assert json_from(json.dumps({"[": "]" * 500 + "[" * 500, "é": ["\\\\", '"[']}).encode())["["]
    assert json_from(b"[" * 100 + b"]" * 100)
    for content in (
        b"[" * 101 + b"]" * 101,
        b'{"a":' * 200_000,
        b"9" * 301,
        b"1e999",
        b"NaN",
        b"-Infinity",
        b'"\\ud800"',
        b"\xff",
        b'"' + b"x" * 100,
        b"",
    ):
        with pytest.raises(InvalidInput) as caught:
            json_from(content)
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 400
    with pytest.raises(InvalidInput, match="at most 9 bytes"):
        json_from(b"[" + b" " * 9, most=9)


def test_toml_is_bounded_too(tmp_path: Path) -> None:
    for number, content in enumerate(
        (
            "a" + ".a" * 50_000 + " = 1",
            "a = " + "[" * 50_000,
            "a = " + "[" * 200 + "]" * 200,
            "a = " + "{b = " * 300 + "1" + "}" * 300,
            "a = 9223372036854775808",
            'a = "x\\u0000"',
            '"\\u0000" = 1',
            "a = 1\na = 2",
        )
    ):
        (tmp_path / f"{number}.toml").write_text(content)
        with pytest.raises(InvalidInput), at_most(10):
            toml_file(tmp_path / f"{number}.toml")
    (tmp_path / "good.toml").write_text('\ufeffa.b."c.d" = 1\ntext = """' + "a. b. " * 500 + '"""\n', encoding="utf-8")
    assert toml_file(tmp_path / "good.toml")["a"] == {"b": {"c.d": 1}}


def test_files_and_pictures_are_measured_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(files.MOST_CONTENT + 1)
    for read in (content_of, lines_of, lambda path: csv_file(path)):
        with pytest.raises(InvalidInput, match="must have at most"):
            read(tmp_path / "sparse")
    (tmp_path / "huge.png").write_bytes(huge_picture())
    with pytest.raises(InvalidInput, match=r"exceeds limit|pixels"):
        picture_file(tmp_path / "huge.png")
    Image.new("L", (30, 40)).save(tmp_path / "small.png")
    assert picture_file(tmp_path / "small.png").shape == (40, 30)
    monkeypatch.setattr(pictures, "MOST_PIXELS", 1199)
    with pytest.raises(InvalidInput, match="at most 1,199 pixels, it has 1,200"):
        picture_file(tmp_path / "small.png")


def test_the_depth_is_that_of_brackets_outside_text() -> None:
    assert documents._depth(b'["' + b"[" * 200 + b'", "\\"[", [[]]]' + b"[]" * 60) == 3


# Files of published data sets are compared with their checksums before anything is made of them; `vision.training`
# reads its own checkpoints with PyTorch's reader of weights.
OWN = {
    "data/adult.py",
    "data/cifar10.py",
    "data/mnist.py",
    "data/source.py",
    "data/svhn.py",
    "data/webp.py",
    "vision/training.py",
}
DIRECT = {
    "load", "loads", "loadtxt", "genfromtxt", "fromfile", "open_memmap", "read_array", "read_table", "read_schema",
    "read_csv", "read_parquet", "read_json", "ParquetFile", "ZipFile", "TarFile", "reader", "DictReader", "load_file",
    "safe_open", "read_text", "read_bytes", "loadmat",
}  # fmt: skip
MODULES = {
    "np", "numpy", "npy", "json", "tomllib", "pq", "csv", "pd", "pandas", "zipfile", "tarfile", "pickle", "joblib",
}  # fmt: skip


def direct(path: Path) -> list[str]:
    """Calls in a source file that read a format by themselves."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner, name = ast.unparse(node.func.value), node.func.attr
        reads_a_file = name in ("read_text", "read_bytes") or (owner == "Image" and name == "open")
        if reads_a_file or (name in DIRECT and owner.split(".")[0] in MODULES):
            found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {owner}.{name}")
    return found


def test_nothing_is_parsed_beside_the_readers() -> None:
    others = [
        path for path in ROOT.rglob("*.py") if str(path.relative_to(ROOT)) not in OWN and path.parent.name != "formats"
    ]
    assert len(others) > 150
    assert [call for path in others for call in direct(path)] == []
    assert direct(ROOT / "formats" / "documents.py"), "the check is idle"
