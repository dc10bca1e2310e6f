"""Samples as other libraries hold them: the same records, the same schema, the same cells."""

from __future__ import annotations

import importlib
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from recordwise import PrivateDistiller
from recordwise.data import Kind, Schema, read, rows, taken
from recordwise.data.held import Frame, adopted_labels, labels_in
from recordwise.errors import InvalidInput
from recordwise.hashing import fingerprint
from recordwise.privacy.noise import SeededNoise
from recordwise.records import as_labels

torch = pytest.importorskip("torch")
CELLS = {"age": [20.0, 30.5, None], "ward": ["a", None, "b"], "when": ["x", "y", "z"]}
NUMBERS = np.arange(12, dtype=np.float32).reshape(4, 3)


def frames() -> dict[str, Any]:
    held: dict[str, Any] = {"pyarrow": pa.table(CELLS), "batch": pa.record_batch(CELLS)}
    if importlib.util.find_spec("polars") is not None:
        polars = importlib.import_module("polars")
        held |= {"polars": polars.DataFrame(CELLS), "lazy": polars.LazyFrame(CELLS)}
    if importlib.util.find_spec("datasets") is not None:
        held["datasets"] = importlib.import_module("datasets").Dataset.from_dict(CELLS)
    return held


@pytest.mark.parametrize("name", frames())
def test_tables_of_other_libraries_read_like_those_of_pandas(name: str) -> None:
    expected = pd.DataFrame(CELLS)
    schema, held = Schema.of(expected), frames()[name]
    assert Schema.of(held) == schema
    assert schema.read(held).samples.tolist()[:2] == schema.read(expected).samples.tolist()[:2]
    frame = taken(held)
    assert len(frame) == 3 and fingerprint(frame) == fingerprint(taken(held))
    assert schema.read(rows(frame, slice(1, 2))).samples.tolist() == schema.read(expected[1:2]).samples.tolist()


def test_columns_go_by_their_names_and_a_missing_one_is_refused() -> None:
    schema = Schema.of(pa.table(CELLS))
    turned = pa.table({name: CELLS[name] for name in reversed(CELLS)})
    assert schema.read(turned).samples[:2].tolist() == schema.read(pa.table(CELLS)).samples[:2].tolist()
    with pytest.raises(InvalidInput, match="it lacks ward"):
        schema.read(pa.table(CELLS).drop_columns(["ward"]))


def test_a_lone_column_is_text_or_vectors_or_numbers() -> None:
    assert Schema.of(pa.table({"t": ["one text", "two texts"]})).kind == Kind.TEXT
    assert Schema.of(pd.DataFrame({"t": ["one text", "two texts"]})).kind == Kind.TEXT
    assert Schema.of(pd.DataFrame({"t": pd.Categorical(["a", "b"])})).kind == Kind.TABLE
    vectors = Schema.of(pa.table({"e": NUMBERS.tolist()}))
    assert (vectors.kind, vectors.shape) == (Kind.VECTORS, (3,))
    named = Schema.of(pa.table({"u": [1, 2], "v": [0.5, 1.5]}))
    assert named.kind == Kind.VECTORS and named.names == ("u", "v")
    with pytest.raises(InvalidInput, match="must be the only sample column"):
        Schema.of(pa.table({"e": NUMBERS.tolist(), "u": [1, 2, 3, 4]}))


def test_tensors_and_sparse_matrices_are_arrays() -> None:
    plain = torch.tensor(NUMBERS, requires_grad=True)
    for held in (plain, sparse.csr_array(NUMBERS), sparse.coo_matrix(NUMBERS), sparse.csc_array(NUMBERS)):
        assert np.array_equal(taken(held), NUMBERS)
    assert taken(torch.ones(2, 2, dtype=torch.bfloat16)).dtype == np.float32
    with pytest.raises(InvalidInput, match="project its columns first"):
        taken(sparse.csr_array((10**6, 10**6)))


class Pairs(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 4

    def __getitem__(self, place: int) -> tuple[Any, Any]:
        if place == 2:
            raise OSError("this one cannot be read")
        return torch.tensor(NUMBERS[place]), torch.tensor(place % 2)


def test_one_sample_of_a_dataset_that_cannot_be_read_is_missing_alone() -> None:
    samples = taken(Pairs())
    read = Schema.of(NUMBERS).read(samples)
    assert read.readable.tolist() == [True, True, False, True]
    assert np.array_equal(read.samples[[0, 1, 3]], NUMBERS[[0, 1, 3]])
    assert labels_in(Pairs()) == [0, 1, None, 1]
    assert labels_in(NUMBERS) is None
    assert labels_in(torch.utils.data.Subset(Pairs(), [1, 0])) == [1, 0]
    with pytest.raises(InvalidInput, match=r"not its loader: pass loader\.dataset"):
        labels_in(torch.utils.data.DataLoader(Pairs()))
    assert labels_in(torch.utils.data.TensorDataset(torch.tensor(NUMBERS))) is None


class OneSparse(Pairs):
    def __getitem__(self, place: int) -> tuple[Any, Any]:
        sample, label = torch.tensor(NUMBERS[place]), torch.tensor([place % 2])
        return (sample.to_sparse(), label.to_sparse()) if place == 2 else (sample, label[0])


def test_one_tensor_that_no_array_holds_is_missing_alone() -> None:
    assert Schema.of(NUMBERS).read(taken(OneSparse())).readable.tolist() == [True, True, False, True]
    assert labels_in(OneSparse()) == [0, 1, None, 1]


def test_images_with_their_channels_first_are_known_by_their_shape() -> None:
    pixels = np.arange(2 * 3 * 8 * 9, dtype=np.uint8).reshape(2, 3, 8, 9)
    schema = Schema.of(pixels)
    assert schema.shape == (8, 9, 3)
    last = np.moveaxis(pixels, 1, 3)
    for held in (pixels, last, list(pixels), torch.tensor(pixels), [torch.tensor(one).numpy() for one in pixels]):
        assert np.array_equal(schema.read(held).samples, last)
    assert Schema.of(np.zeros((5, 3, 8, 3), dtype=np.uint8)).shape == (3, 8, 3)  # as it stands: either may be meant


def test_labels_of_other_libraries() -> None:
    for held in (pa.array([1, 0]), pa.chunked_array([[1], [0]]), torch.tensor([1, 0]), pd.Series([1, 0])):
        assert [int(one) for one in as_labels(held, 2)] == [1, 0]
    assert adopted_labels(pa.array(["a", None])).tolist() == ["a", None]


def people(count: int) -> dict[str, list[Any]]:
    """A table of two kinds of people; every ninth has no town."""
    when = [date(2024, 1, 1) + timedelta(days=place) for place in range(count)]
    towns = [("Bonn", "Ulm")[place % 2] if place % 9 else None for place in range(count)]
    return {"age": [40.0 + 20 * (place % 2) + place % 7 for place in range(count)], "town": towns, "when": when}


def fits(samples: Any, labels: Any, pool: Any, turned: Any) -> None:
    """Whatever holds them, they teach the same as arrays do, in any order of columns."""
    model = PrivateDistiller(4.0, classes=["old", "young"], num_queries=8)
    model.fit(samples, labels, X_public=pool, noise=SeededNoise(0))
    expected = [("young", "old")[place % 2] for place in range(60)]
    assert model.predict(turned).tolist() == expected


def test_polars_teaches_and_is_asked() -> None:
    polars = pytest.importorskip("polars")
    pool, records = (polars.DataFrame(people(count)) for count in (60, 120))
    labels = polars.Series([("young", "old")[place % 2] for place in range(120)])
    fits(records, labels, pool.lazy(), pool.select("when", "town", "age"))
    text = polars.Series("t", ["one text", "two texts"])
    assert Schema.of(text).kind == Schema.of(text.to_frame()).kind == Kind.TEXT
    vectors = polars.Series("e", NUMBERS.tolist(), dtype=polars.Array(polars.Float32, 3))
    assert Schema.of(vectors.to_frame()).shape == (3,)


def test_a_dataset_of_hugging_face_teaches_and_is_asked() -> None:
    datasets = pytest.importorskip("datasets")
    pool, records = (datasets.Dataset.from_dict(people(count)) for count in (60, 120))
    named = records.add_column("who", [("young", "old")[place % 2] for place in range(120)])
    fits(records, named["who"], pool, pool.select_columns(["when", "town", "age"]))
    with pytest.raises(InvalidInput, match="must be one split of a dataset, got train, test: name one"):
        Schema.of(datasets.DatasetDict({"train": pool, "test": pool}))
    with pytest.raises(InvalidInput, match="a stream has none"):
        Schema.of(pool.to_iterable_dataset())


def test_a_folder_that_hugging_face_wrote_is_read_like_the_dataset(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    kinds = datasets.ClassLabel(names=["old", "young"])
    held = datasets.Dataset.from_dict({**people(6), "who": [0, 1] * 3}).cast_column("who", kinds)
    held.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": held}).save_to_disk(tmp_path / "splits")
    for folder in (tmp_path / "one", tmp_path / "splits" / "train"):
        loaded = read(folder, labels="who")
        assert loaded.labels is not None and loaded.labels.tolist() == ["old", "young"] * 3
        schema = Schema.of_loaded(loaded)
        assert schema == Schema.of(held.remove_columns("who"))
        assert schema.read(loaded.samples).samples.tolist() == schema.read(held.remove_columns("who")).samples.tolist()


def test_a_dataset_of_pytorch_teaches_and_is_asked() -> None:
    rows = torch.tensor([[place % 2 * 9.0 + place % 5, 1.0] for place in range(120)])
    labels = torch.tensor([place % 2 for place in range(120)])
    model = PrivateDistiller(4.0, classes=[0, 1], num_queries=8)
    pool = torch.utils.data.TensorDataset(rows[:60] + 0.01)
    model.fit(torch.utils.data.TensorDataset(rows, labels), None, X_public=pool, noise=SeededNoise(0))
    assert np.array_equal(model.predict(rows.requires_grad_()), labels)


def test_a_frame_gives_rows_and_columns() -> None:
    frame = Frame(["a", "b"], [np.array([1.0, 2.0]), np.array(["x", None], dtype=object)])
    assert frame.shape == (2, 2) and frame.to_numpy().tolist() == [[1.0, "x"], [2.0, None]]
    assert frame.iloc[:, [1]].columns == ["b"] and frame.iloc[:, 0].to_numpy().tolist() == [1.0, 2.0]
    assert dict(frame.dtypes.items())["a"] == np.float64
