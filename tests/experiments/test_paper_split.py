from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.rows import Setting
from numpy.typing import NDArray

from experiments import compact, dti, paper_split
from recordwise.encoders.hog import Hog
from recordwise.nearest.search import nearest_queries
from recordwise.randomness import seeded

ROWS = paper_split.HERE / "results" / "paper_split.json"
KEYS = {
    "method", "data", "split", "setting", "encoder", "queries", "student", "protocol", "s", "k", "epsilon", "delta",
    "neighbours", "seeds", "test_accuracy", "label_accuracy", "nonprivate_accuracy", "versions", "hardware", "command",
    "date",
}  # fmt: skip
TAUGHT = ["linear", "network"]
STUDENTS = ["nearest query", *TAUGHT]


def strokes(colours: int | None = None) -> dict[str, NDArray[np.uint8]]:
    """Ten classes of bars, each at its own slope, shifted a little and seen through noise."""
    rng = seeded(0, "strokes")
    images = {}
    y, x = np.mgrid[:28, :28] - 13.5
    for part, count in zip(compact.PARTS, (120, 400, 60), strict=True):
        labels = np.arange(count) % 10
        angle = labels[:, None, None] * np.pi / 10
        shift = rng.normal(0, 0.5, (count, 1, 1))
        bars = np.abs(np.sin(angle) * x + np.cos(angle) * y + shift) < 2
        pixels = (200 * bars + rng.integers(0, 30, bars.shape)).astype(np.uint8)
        images[part] = pixels if colours is None else np.repeat(pixels[..., None], colours, axis=3)
        images[f"{part}_labels"] = labels.astype(np.uint8)
    return images


@pytest.fixture(autouse=True)
def nothing_committed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(paper_split, "FEATURES", tmp_path)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few queries, few steps, few neighbours, short histograms."""
    tried = [Setting(s=12, epsilon=20.0), Setting(s=10, epsilon=20.0, protocol="local-collision")]
    monkeypatch.setattr(paper_split, "SETTINGS", {"mnist": tried, "svhn": tried[:1]})
    monkeypatch.setattr(paper_split, "DTI_SEEDS", {10: (1,), 12: (1, 2)})
    monkeypatch.setattr(paper_split, "EPOCHS", 4)
    monkeypatch.setattr(paper_split, "NEIGHBOURS", 3)
    monkeypatch.setattr(paper_split, "Hog", partial(Hog, cell=7))
    monkeypatch.setattr(paper_split, "TEACHING", replace(paper_split.TEACHING, epochs=1))


def test_digits_go_from_images_to_rows(quick: None, tmp_path: Path):
    images, asked = strokes(), {"k-means": TAUGHT, "DTI": STUDENTS}
    rows = [
        *paper_split.rows_of("mnist", images, folder=tmp_path),
        *paper_split.convnet_rows(images, folder=tmp_path),
    ]
    assert [(row["s"], row["queries"], row["student"]) for row in rows] == [
        *((s, how, name) for s in (12, 10) for how, names in asked.items() for name in names),
        *((s, "DTI", name) for s in (12, 10) for name in ("narrow M5", "narrow M5 of shared labels")),
    ]
    for row in rows:
        assert row.keys() >= KEYS
        assert row["split"] == "paper"
        assert row["records"] == 400
        assert len(row["seeds"]) == len(row["test_accuracy"]) == len(row["label_accuracy"]) >= 5
    gradients = rows[0]
    assert np.mean(gradients["label_accuracy"]) > 0.9  # slopes are what gradients see
    assert np.mean(gradients["test_accuracy"]) > 0.9
    assert gradients["nonprivate_accuracy"] > 0.9


def test_colour_images_are_asked_about_by_their_gradients(quick: None, tmp_path: Path):
    rows = list(paper_split.rows_of("svhn", strokes(colours=3), folder=tmp_path))
    assert [row["student"] for row in rows] == STUDENTS
    assert all(row["queries"] == "k-means" and np.mean(row["test_accuracy"]) > 0.8 for row in rows)


def test_the_seed_that_rebuilds_the_pool_best_is_kept_and_is_not_learnt_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    images, settings = strokes(), dti.settings(3, 10)
    first = paper_split.by_transformation(images, settings, (1, 2), folder=tmp_path)
    said = json.loads((tmp_path / "dti-3.json").read_text())
    assert first.seed == said["kept"] == min((1, 2), key=lambda seed: said[f"seed{seed}_error"])
    monkeypatch.setattr(paper_split, "cluster_by_transformation", None)
    again = paper_split.by_transformation(images, settings, (1, 2), folder=tmp_path)
    assert all(np.array_equal(first.vectors[part], again.vectors[part]) for part in compact.PARTS)


def test_an_image_votes_for_the_prototype_that_it_is_nearest_to(tmp_path: Path):
    asked = paper_split.by_transformation(strokes(), dti.settings(4, 10), (1,), folder=tmp_path)
    for vectors in asked.vectors.values():
        voted = nearest_queries(vectors, asked.queries.vectors, 1)[:, 0]
        assert np.array_equal(voted, vectors.argmax(1))
    assert np.array_equal(asked.queries.owner, asked.vectors["public"].argmax(1))


def test_distances_in_steps_keep_who_is_nearest_and_by_how_much():
    far = np.array([[0.5, 0.4, 0.40001, 9.0], [0.2, 0.6, 1.0, 0.8]], dtype=np.float32)  # the mean least one is 0.3
    assert paper_split.in_steps(far).tolist() == [[11, 0, 1, 255], [0, 43, 85, 64]]


def test_labels_that_neighbours_do_not_share_are_not_taught(quick: None, tmp_path: Path):
    images = strokes()
    labels = images["public_labels"].astype(np.int64)
    alike = [np.flatnonzero(labels == label) for label in labels]
    neighbours = torch.from_numpy(np.array([group[:11] for group in alike]))
    teach = partial(paper_split.convolutional, images, paper_split.TEACHING, folder=tmp_path)
    wrong = np.where(np.arange(120) == 119, (labels + 1) % 10, labels)  # nobody's neighbour
    other = np.where(np.arange(120) == 119, (labels + 2) % 10, labels)
    careful, plain = teach(neighbours=neighbours), teach()
    assert np.array_equal(careful(wrong), careful(other))
    kept = {path.name for path in tmp_path.glob("narrow-m5-*.pt")}
    assert len(kept) == 2
    plain(wrong)
    assert len(list(tmp_path.glob("narrow-m5-*.pt"))) == 3


def test_the_same_labels_are_taught_once():
    asked: list[int] = []

    def student(labels: NDArray[np.int64]) -> NDArray[np.int64]:
        asked.append(len(labels))
        return labels

    careful = paper_split.once(student)
    labels = np.array([1, 2, 3])
    assert np.array_equal(careful(labels), careful(labels.copy()))
    careful(labels[:2])
    assert asked == [3, 2]


def test_purity_is_label_accuracy_without_noise():
    clusters, labels = np.array([0, 0, 0, 1, 1]), np.array([3, 3, 4, 5, 5])
    assert paper_split.purity(clusters, labels) == 0.8


def test_committed_rows_say_how_they_were_made():
    rows = json.loads(ROWS.read_text())
    settings = {data: {row["setting"] for row in rows if row["data"] == data} for data in paper_split.SETTINGS}
    assert settings == {data: {one.name for one in every} for data, every in paper_split.SETTINGS.items()}
    for row in rows:
        assert row.keys() >= KEYS
        assert len(row["seeds"]) == len(row["test_accuracy"]) == len(row["label_accuracy"]) >= 5
        assert row["nonprivate_accuracy"] >= max(row["test_accuracy"]) - 0.02


@pytest.mark.parametrize("prototypes", [10, 40])
def test_committed_distances_are_those_of_the_committed_rows(prototypes: int):
    with np.load(paper_split.HERE / "features" / f"mnist-paper-dti-{prototypes}.npz") as file:
        far, seed = {part: file[part] for part in compact.PARTS}, int(file["seed"])
    assert {part: steps.shape for part, steps in far.items()} == {
        "public": (5_000, prototypes), "private": (60_000, prototypes), "test": (5_000, prototypes),
    }  # fmt: skip
    assert all(((steps == 0).sum(axis=1) == 1).all() for steps in far.values())  # one prototype is the nearest
    rows = [row for row in json.loads(ROWS.read_text()) if (row["queries"], row["s"]) == ("DTI", prototypes)]
    assert {entry.split("/")[0] for row in rows for entry in row["seeds"]} == {str(seed)}
