"""Readers: every format gives back what was written, and every mistake is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from recordwise.data import Column, Kind, Loaded, Schema, kind_of, read
from recordwise.errors import InvalidInput
from recordwise.records import read_labels

VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)
CLASSES = np.array([0, 1, 1, 0])


def refused(path: Path, rule: str, **arguments: object) -> None:
    with pytest.raises(InvalidInput, match=rule) as caught:
        read(path, **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_npy_is_memory_mapped_and_takes_labels_from_the_file_beside_it(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VECTORS)
    np.save(tmp_path / "y.npy", CLASSES)
    loaded = read(tmp_path / "x.npy", labels="y.npy")
    assert isinstance(loaded.samples, np.memmap)
    assert np.array_equal(loaded.samples, VECTORS)
    assert np.array_equal(loaded.labels, CLASSES)
    assert read(tmp_path / "x.npy").labels is None


def test_npz_arrays_are_chosen_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=VECTORS, y=CLASSES, other=CLASSES)
    loaded = read(tmp_path / "d.npz", samples="X", labels="y")
    assert np.array_equal(loaded.samples, VECTORS)
    assert np.array_equal(loaded.labels, CLASSES)
    refused(tmp_path / "d.npz", "holds X, y, other: samples must name one", labels="y")
    refused(tmp_path / "d.npz", r"labels must name an array of d.npz \(X, y, other\), got 'z'", samples="X", labels="z")
    np.savez(tmp_path / "one.npz", X=VECTORS, y=CLASSES)
    assert np.array_equal(read(tmp_path / "one.npz", labels="y").samples, VECTORS)
    refused(tmp_path / "one.npz", r"labels must name an array of one.npz \(X, y\), got 'z'", labels="z")


def test_a_pickle_in_an_npy_file_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    refused(tmp_path / "x.npy", "must hold plain numbers, text or dates, it holds object")


def typed(loaded: Loaded) -> Any:
    """As the schema that the file itself fixes reads it."""
    return Schema.of_loaded(loaded).pool(loaded.samples)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_keeps_numbers_categories_and_gaps(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"d.{form}"
    columns = {"age": [31.0, None, 4.5], "job": ["clerk", "cook", None], "rich": [1, 0, 1]}
    if form == "csv":
        path.write_text("age,job,rich\n31,clerk,1\n,cook,0\n4.5,,1\n")
    else:
        pq.write_table(pa.table(columns), path)
    loaded = read(path, labels="rich")
    assert loaded.columns == ("age", "job")
    samples = typed(loaded)
    assert kind_of(samples) is Kind.TABLE
    assert samples[0].tolist() == [31.0, "clerk"]
    assert np.isnan(samples[1, 0])
    assert samples[2, 1] is None
    assert read_labels(loaded.labels, [0, 1], 1)[0].ravel().tolist() == [1, 0, 1]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_are_chosen_by_name(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"d.{form}"
    if form == "csv":
        path.write_text('a,b,text,p,q\n1,2,good day,1,0\n3,4,"so, so",1,1\n')
    else:
        pq.write_table(
            pa.table({"a": [1, 3], "b": [2, 4], "text": ["good day", "so, so"], "p": [1, 1], "q": [0, 1]}), path
        )
    assert typed(read(path, samples=["b", "a"])).tolist() == [[2, 1], [4, 3]]
    text = read(path, samples="text", labels=["p", "q"])
    assert kind_of(typed(text)) is Kind.TEXT
    assert typed(text).tolist() == ["good day", "so, so"]
    assert read_labels(text.labels, ["p", "q"], 2)[0].tolist() == [[0, -1], [0, 1]]
    refused(path, "has no column 'c', its columns are a, b, text, p, q", samples="c")
    refused(path, "must be columns other than the labels", samples=["a", "p"], labels="p")


def test_the_mark_that_spreadsheets_put_before_a_csv_is_no_part_of_its_first_name(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("age,y\n1,0\n2,1\n", encoding="utf-8-sig")
    assert read(tmp_path / "d.csv", labels="y").columns == ("age",)


def test_a_parquet_column_of_lists_is_a_matrix_of_vectors(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": VECTORS.tolist(), "y": CLASSES}), tmp_path / "d.parquet")
    loaded = read(tmp_path / "d.parquet", samples="v", labels="y")
    schema = Schema.of_loaded(loaded)
    assert np.array_equal(schema.pool(loaded.samples), VECTORS)
    pq.write_table(pa.table({"v": [[1.0], None, [1.0, 2.0, 3.0], [1.0, None, 3.0]]}), tmp_path / "ragged.parquet")
    ragged = schema.read(read(tmp_path / "ragged.parquet", samples="v").samples)
    assert ragged.readable.tolist() == [False, False, True, False] and ragged.samples[2].tolist() == [1, 2, 3]
    with pytest.raises(InvalidInput, match="must have 1 cells in every row, row 1 has 0"):  # a pool is public
        typed(read(tmp_path / "ragged.parquet", samples="v"))
    refused(tmp_path / "d.parquet", "only sample column", samples=["v", "y"])


def test_what_a_cell_of_a_parquet_file_holds_is_never_refused(tmp_path: Path) -> None:
    words = pa.array([b"good", b"\xff\xfe"], type=pa.binary())
    words = pa.Array.from_buffers(pa.string(), 2, words.buffers())  # a writer that does not check
    columns = {
        "word": words,
        "kind": words.dictionary_encode(),
        "day": pa.array([0, 2**31 - 1], type=pa.int32()).cast(pa.date32()),
        "moment": pa.array([0, 2**62], type=pa.timestamp("us", tz="UTC")),
        "instant": pa.array([0, 1], type=pa.timestamp("ns")),
        "y": words,
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    loaded = read(tmp_path / "x.parquet", labels="y")
    first, second = loaded.samples.tolist()
    assert first[:2] == ["good", "good"] and None not in first
    assert second[:4] == [None] * 4 and second[4] == first[4], "Python's dates know no nanoseconds"
    assert loaded.labels is not None and loaded.labels.tolist() == ["good", None]


def test_text_lines_are_samples(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("eins\nzwei drei\n", encoding="utf-8")
    (tmp_path / "y.txt").write_text("a\nb\n")
    loaded = read(tmp_path / "x.txt", labels="y.txt")
    assert loaded.samples.tolist() == ["eins", "zwei drei"]
    assert loaded.labels is not None
    assert loaded.labels.tolist() == ["a", "b"]


def picture(path: Path, value: int, mode: str = "L", size: tuple[int, int] = (5, 4)) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    Image.new(mode, size, value if mode == "L" else (value, value, 0)).save(path)


def test_an_image_folder_gives_one_class_per_subfolder_in_the_order_of_names(tmp_path: Path) -> None:
    picture(tmp_path / "b" / "1.png", 10)
    picture(tmp_path / "a" / "2.png", 30)
    picture(tmp_path / "a" / "1.png", 20)
    loaded = read(tmp_path)
    samples = typed(loaded)
    assert samples.shape == (3, 4, 5)
    assert samples[:, 0, 0].tolist() == [20, 30, 10]
    assert loaded.labels is not None
    assert loaded.labels.tolist() == ["a", "a", "b"]


def test_a_flat_image_folder_is_an_unlabelled_pool_and_has_colours_if_one_image_has(tmp_path: Path) -> None:
    picture(tmp_path / "1.png", 10)
    picture(tmp_path / "2.png", 20, "RGB")
    loaded = read(tmp_path)
    assert loaded.labels is None
    samples = typed(loaded)
    assert samples.shape == (2, 4, 5, 3)
    assert samples[:, 0, 0].tolist() == [[10, 10, 10], [20, 20, 0]]


def test_a_pool_s_images_of_different_sizes_are_refused_or_resized(tmp_path: Path) -> None:
    picture(tmp_path / "1.png", 10)
    picture(tmp_path / "2.png", 20, size=(8, 8))
    with pytest.raises(InvalidInput, match="row 0 is 5 x 4 pixels and row 1 8 x 8 pixels; say image_size"):
        typed(read(tmp_path))
    assert typed(read(tmp_path, image_size=(6, 7))).shape == (2, 6, 7)


def test_bad_image_folders_are_refused_but_no_image_is(tmp_path: Path) -> None:
    refused(tmp_path, "holds no images")
    (tmp_path / "b").mkdir()
    nobody = read(tmp_path)
    assert len(nobody) == 0 and nobody.labels is not None and nobody.labels.dtype.kind == "U", "no record, but a class"
    (tmp_path / "b").rmdir()
    (tmp_path / "1.png").write_bytes(b"not an image")
    assert read(tmp_path).samples == [None]
    picture(tmp_path / "a" / "1.png", 3)
    refused(tmp_path, "it holds both")
    refused(tmp_path / "a", "samples and labels name nothing", labels="y")


def test_bad_files_are_refused_in_one_line(tmp_path: Path) -> None:
    refused(tmp_path / "missing.csv", "does not exist")
    (tmp_path / "d.xyz").touch()
    refused(tmp_path / "d.xyz", "must be .npy, .npz, .parquet, .csv, .tsv, .xlsx, .txt, a folder")
    for name in ("d.npy", "d.npz", "d.parquet"):
        (tmp_path / name).write_bytes(b"garbage")
        refused(tmp_path / name, f"{name} could not be read")
    (tmp_path / "d.csv").write_text("a,a\n1,2\n")
    refused(tmp_path / "d.csv", "header of different names")
    (tmp_path / "d.csv").write_text("")
    refused(tmp_path / "d.csv", "header of different names")
    (tmp_path / "d.csv").write_bytes(b"\xff\xfea\x00,\x00")
    refused(tmp_path / "d.csv", "must be UTF-8, its header is not")
    for left_open in ('a,b\n1,"2\n', 'a\n"'):
        (tmp_path / "d.csv").write_text(left_open)
        refused(tmp_path / "d.csv", "must close every quote")
    np.save(tmp_path / "x.npy", VECTORS)
    np.save(tmp_path / "y.npy", CLASSES[:3])
    refused(tmp_path / "x.npy", "labels must be as many as the 4 samples, got 3", labels="y.npy")
    refused(tmp_path / "x.npy", "does not exist", labels="z.npy")
    refused(tmp_path / "x.npy", "samples must be left out", samples="x")


def test_what_a_row_of_a_csv_holds_is_never_refused(tmp_path: Path) -> None:
    rows = [b"1,2", b"", b"3", b"4,5,6", b"\xff7,8", b",", b'"9"x,10', b'"1\n1",12', b"9" * 200_000 + b",1"]
    (tmp_path / "d.csv").write_bytes(b"\n".join([b"a,b", *rows]))
    loaded = read(tmp_path / "d.csv")
    schema = Schema(kind="table", columns=(Column(name="a"), Column(name="b")))
    found = schema.read(loaded.samples)
    assert found.readable.tolist() == [True, False, False, True, True, True, True, True]  # an empty line is no row
    expected = [
        [1, 2],
        [np.nan, np.nan],
        [np.nan, np.nan],
        [np.nan, 8],
        [np.nan, np.nan],
        [np.nan, 10],
        [np.nan, 12],
        [np.nan, 1],
    ]
    np.testing.assert_array_equal(found.samples.astype(float), expected)


def test_lines_that_are_not_text_are_their_own_fault(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbfone\r\n\xff\n\xe2\x80\xa8three\x0b\n\n")
    assert read(tmp_path / "x.txt").samples.tolist() == ["one", None, "\u2028three\x0b", ""]
