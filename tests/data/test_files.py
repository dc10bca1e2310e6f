"""Readers: every format gives back what was written, and every mistake is one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from recordwise.data import Kind, kind_of, read
from recordwise.errors import InvalidInput

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
    refused(tmp_path / "x.npy", "could not be read")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_keeps_numbers_categories_and_gaps(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"d.{form}"
    columns = {"age": [31.0, None, 4.5], "job": ["clerk", "cook", None], "rich": [1, 0, 1]}
    if form == "csv":
        path.write_text("age,job,rich\n31,clerk,1\n,cook,0\n4.5,,1\n")
    else:
        pq.write_table(pa.table(columns), path)
    loaded = read(path, labels="rich")
    assert kind_of(loaded.samples) is Kind.TABLE
    assert loaded.columns == ("age", "job")
    assert loaded.samples[0].tolist() == [31.0, "clerk"]
    assert np.isnan(loaded.samples[1, 0])
    assert loaded.samples[2, 1] is None
    assert loaded.labels is not None
    assert loaded.labels.tolist() == [1, 0, 1]
    assert loaded.labels.dtype == np.int64


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_columns_are_chosen_by_name(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"d.{form}"
    if form == "csv":
        path.write_text('a,b,text,p,q\n1,2,good day,1,0\n3,4,"so, so",1,1\n')
    else:
        pq.write_table(
            pa.table({"a": [1, 3], "b": [2, 4], "text": ["good day", "so, so"], "p": [1, 1], "q": [0, 1]}), path
        )
    assert read(path, samples=["b", "a"]).samples.tolist() == [[2, 1], [4, 3]]
    text = read(path, samples="text", labels=["p", "q"])
    assert kind_of(text.samples) is Kind.TEXT
    assert text.samples.tolist() == ["good day", "so, so"]
    assert text.labels is not None
    assert text.labels.tolist() == [[1, 0], [1, 1]]
    refused(path, "has no column 'c', its columns are a, b, text, p, q", samples="c")
    refused(path, "must be columns other than the labels", samples=["a", "p"], labels="p")


def test_the_mark_that_spreadsheets_put_before_a_csv_is_no_part_of_its_first_name(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("age,y\n1,0\n2,1\n", encoding="utf-8-sig")
    assert read(tmp_path / "d.csv", labels="y").columns == ("age",)


def test_a_parquet_column_of_lists_is_a_matrix_of_vectors(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": VECTORS.tolist(), "y": CLASSES}), tmp_path / "d.parquet")
    loaded = read(tmp_path / "d.parquet", samples="v", labels="y")
    assert np.array_equal(loaded.samples, VECTORS)
    pq.write_table(pa.table({"v": [[1.0], [1.0, 2.0, 3.0]]}), tmp_path / "ragged.parquet")
    refused(tmp_path / "ragged.parquet", "lists of one length", samples="v")
    refused(tmp_path / "d.parquet", "only sample column", samples=["v", "y"])


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
    assert loaded.samples.shape == (3, 4, 5)
    assert loaded.samples[:, 0, 0].tolist() == [20, 30, 10]
    assert loaded.labels is not None
    assert loaded.labels.tolist() == ["a", "a", "b"]


def test_a_flat_image_folder_is_an_unlabelled_pool_and_one_colour_image_makes_all_colour(tmp_path: Path) -> None:
    picture(tmp_path / "1.png", 10)
    picture(tmp_path / "2.png", 20, "RGB")
    loaded = read(tmp_path)
    assert loaded.labels is None
    assert loaded.samples.shape == (2, 4, 5, 3)
    assert loaded.samples[:, 0, 0].tolist() == [[10, 10, 10], [20, 20, 0]]


def test_images_of_different_sizes_are_refused_or_resized(tmp_path: Path) -> None:
    picture(tmp_path / "1.png", 10)
    picture(tmp_path / "2.png", 20, size=(8, 8))
    refused(tmp_path, "1.png is 5 x 4 pixels and 2.png 8 x 8 pixels; say image_size")
    assert read(tmp_path, image_size=(6, 7)).samples.shape == (2, 6, 7)


def test_bad_image_folders_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, "holds no images")
    (tmp_path / "1.png").write_bytes(b"not an image")
    refused(tmp_path, "1.png is not a readable image")
    picture(tmp_path / "a" / "1.png", 3)
    refused(tmp_path, "it holds both")
    refused(tmp_path / "a", "samples and labels name nothing", labels="y")


def test_bad_files_are_refused_in_one_line(tmp_path: Path) -> None:
    refused(tmp_path / "missing.csv", "does not exist")
    (tmp_path / "d.xyz").touch()
    refused(tmp_path / "d.xyz", "must be .npy, .npz, .parquet, .csv, .txt or a folder")
    for name in ("d.npy", "d.npz", "d.parquet"):
        (tmp_path / name).write_bytes(b"garbage")
        refused(tmp_path / name, f"{name} could not be read")
    (tmp_path / "d.csv").write_text("a,b\n\n1,2\n3\n")
    refused(tmp_path / "d.csv", "must have 2 cells in every row, line 4 has 1")
    (tmp_path / "d.csv").write_text("a,a\n1,2\n")
    refused(tmp_path / "d.csv", "header of different names")
    (tmp_path / "d.csv").write_text('a,b\n1,"2\n')
    refused(tmp_path / "d.csv", "line 2")
    (tmp_path / "d.csv").write_text("a,y\n1,\n2,1\n")
    refused(tmp_path / "d.csv", "label column 'y' of d.csv must have no gaps, row 0", labels="y")
    np.save(tmp_path / "x.npy", VECTORS)
    np.save(tmp_path / "y.npy", CLASSES[:3])
    refused(tmp_path / "x.npy", "labels must be as many as the 4 samples, got 3", labels="y.npy")
    refused(tmp_path / "x.npy", "does not exist", labels="z.npy")
    refused(tmp_path / "x.npy", "samples must be left out", samples="x")
