"""Every encoder and student that ONNX can hold answers alike in both forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from tests.handover.students import POOL, RNG, TEXTS, published

from recordwise.data.schema import Schema
from recordwise.handover.onnx_model import onnx_model
from recordwise.published import Published

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")


def agree(model: Published, samples: Any, inputs: Mapping[str, Any]) -> None:
    content = onnx_model(model)
    assert content is not None
    labels, probabilities = runtime.InferenceSession(content).run(None, dict(inputs))
    expected = model.predict_proba(samples)
    assert np.allclose(probabilities, expected, atol=1e-6)
    if labels.ndim == 2:
        assert np.array_equal(labels, model.student.predict(model.encoder.transform(samples)))
        return
    ordered = np.sort(expected, axis=1)
    sure = ordered[:, -1] - ordered[:, -2] > 1e-5
    assert sure.mean() > 0.9 and np.array_equal(labels[sure], model.predict(samples)[sure])


@pytest.mark.parametrize(
    "kind", ["linear", "mlp", "table", "network", "regions", "some classes", "one class", "several"]
)
@pytest.mark.parametrize("num_classes", [2, 4])
def test_students_answer_alike(kind: str, num_classes: int) -> None:
    agree(published(POOL, "scaler", kind, num_classes), POOL, {"samples": POOL})


def test_samples_far_from_any_pool_are_answered_alike() -> None:
    far = POOL * np.where(np.arange(300) % 2 == 0, 1e30, 1.0)[:, None].astype(np.float32)
    agree(published(POOL, "scaler", "regions", 3), far, {"samples": far})


@pytest.mark.parametrize("spec", ["pca", "scaler+pca", "sharpened"])
def test_encoders_of_vectors_answer_alike(spec: str) -> None:
    far = POOL * np.where(np.arange(300) % 50 == 0, 1e4, 1.0)[:, None].astype(np.float32)
    model = published(POOL, spec)
    agree(model, far, {"samples": far})


@pytest.mark.parametrize("kind", ["table", "linear", "mlp"])
def test_a_threshold_goes_with_the_file(kind: str) -> None:
    model = published(POOL, "scaler", kind, num_classes=2)
    model.student.threshold = 0.9
    content = onnx_model(model)
    assert content is not None
    labels, probabilities = runtime.InferenceSession(content).run(None, {"samples": POOL})
    assert np.array_equal(labels, probabilities[:, 1] >= 0.9) and labels.sum() < (probabilities[:, 1] > 0.5).sum()


@pytest.mark.parametrize("shape", [(17, 19), (16, 18, 3)])
@pytest.mark.parametrize("spec", ["hog+pca", "hog", "pca"])
def test_images_answer_alike(spec: str, shape: tuple[int, ...]) -> None:
    images = RNG.integers(0, 256, (40, *shape)).astype(np.uint8)
    images[:3] = images[:3] // 200 * 255  # many flat places: gradients without a direction
    images[3] = 7
    agree(published(images, spec), images, {"samples": images.astype(np.float32)})


def cell(place: int) -> list[Any]:
    """A row of a table with gaps, whose dates are of more than two years."""
    day = date.fromordinal(738_000 + 37 * place % 1100)
    words = ("Köln", "Bonn", "Ulm", None, "Aach")
    return [
        float(RNG.normal()) * 10 if place % 7 else None, words[place % 5], day if place % 11 else None,
        datetime(2021, 3, 1 + place % 28, place % 24, 59 * place % 60), place % 3, f"w{place % 130:03d}",
    ]  # fmt: skip


COLUMNS = ["age", "label", "admitted", "_seen at", "ward", "code"]
ODD = [
    [None, None, None, None, None, None],
    [1e300, "Nowhere", date(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), 7, "w500"],
    [-3.5, "Ulm", date(1969, 7, 20), datetime(1950, 6, 15, 12, 30), 2, "w004"],
    [float("inf"), "köln", date(2024, 2, 29), datetime(2024, 2, 29, 23, 59, 59, 999999), 1, "w129"],
]


def days(cells: list[Any]) -> Any:
    """Days since 1970, counted another way than Recordwise does."""
    counted = np.array(cells, dtype="datetime64[us]").astype(np.float64) / 86_400e6
    return np.where(np.isnat(np.array(cells, dtype="datetime64[us]")), np.nan, counted)


def test_tables_answer_alike_on_odd_rows() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([cell(place) for place in range(400)], columns=COLUMNS).astype({"label": object})
    model = published(frame, "table")
    kinds = [column.kind for column in model.schema.columns]
    assert kinds == ["number", "category", "date", "date", "number", "category"]
    rows = [cell(place) for place in range(400, 450)] + ODD
    asked = pandas.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(COLUMNS, object))
    inputs = {
        name: days(list(column)) if kind == "date"
        else np.array([np.nan if one is None else one for one in column], dtype=np.float64) if kind == "number"
        else np.array(["" if one is None else one for one in column], dtype=object)
        for name, kind, column in zip(COLUMNS, kinds, zip(*rows, strict=True), strict=True)
    }  # fmt: skip
    order = [3, 5, 0, 2, 1, 4]
    agree(model, asked.iloc[:, order], inputs)


def test_a_declared_column_and_its_range_go_with_the_file() -> None:
    schema = Schema(
        kind="table",
        columns=(
            {"name": "age", "range": (0, 120)},
            {"name": "town", "kind": "category", "categories": ["Bonn", "Ulm", "Köln"]},  # the pool has no Köln
            {"name": "empty", "kind": "date"},
        ),
    )
    pool = np.array([[place, ("Bonn", "Ulm", None)[place % 3], None] for place in range(60)], dtype=object)
    model = published(pool, "table+pca", schema=schema)
    asked = [[500, "Köln", None], [30, "Ulm", 1.0], [-1, "", None], [30, "Paris", None]]
    inputs = {
        "age": np.array([500.0, 30, -1, 30]),
        "town": np.array(["Köln", "Ulm", "", "Paris"], dtype=object),
        "empty": np.array([np.nan, 1.0, np.nan, np.nan]),
    }
    agree(model, asked, inputs)


def words_of(texts: list[str]) -> Any:
    found = [re.findall(r"\b\w\w+\b", text.lower()) for text in texts]
    most = max(map(len, found))
    return np.array([[*one, *[""] * (most - len(one))] for one in found], dtype=object)


@pytest.mark.parametrize("spec", ["text", "text+pca", "words"])
def test_text_answers_alike_on_odd_rows(spec: str, tmp_path: Path) -> None:
    if spec == "words":
        (tmp_path / "vectors.txt").write_text("card 1 0 2\nstraße 0 1 1\nété 3 1 0\nunused 1 1 1\n")
        spec = str(tmp_path / "vectors.txt")
    model = published(TEXTS, {"name": "text", "dim": 4} if spec == "text" else spec)
    asked = [*TEXTS[:20], "", "words that nobody knows", "CARD! card-card; (card)", "x1_y été", "\t"]
    agree(model, asked, {"words": words_of(asked)})


def test_what_onnx_cannot_hold_is_left_to_the_other_files() -> None:
    own = published(POOL, "scaler")
    assert onnx_model(replace(own, encoder=Pipeline([("a", own.encoder), ("b", StandardScaler())]))) is None
    assert onnx_model(replace(own, student=LogisticRegression())) is None
    bigrams = published(TEXTS, "text")
    bigrams.encoder.words_.set_params(ngram_range=(1, 2))
    assert onnx_model(bigrams) is None
