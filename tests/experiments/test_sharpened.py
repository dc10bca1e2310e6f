"""Vectors as they are, sharpened, and sharpened with weights, asked and taught alike."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.sharpened import OURS, PLAIN, SHARPENED, WEIGHTED, row_of, seen, weighted
from experiments.unseen import Bed, unit_length

from recordwise.randomness import seeded


@pytest.fixture(scope="module")
def bed() -> Bed:
    """Three classes apart in two directions, and six loud directions that say nothing about them."""
    rng = seeded(0, "sharpened bed")
    parts = []
    for size in (600, 900, 200):
        label = np.arange(size) % 3
        place = 8 * np.column_stack([label == 0, label == 1]) + rng.normal(size=(size, 2))
        parts.append((np.hstack([place, 3 * rng.normal(size=(size, 6))]).astype(np.float32), label))
    vectors, labels = zip(*parts, strict=True)
    return Bed(vectors, labels, "none")


@pytest.mark.parametrize("way", [PLAIN, SHARPENED])
def test_a_row_says_in_which_vectors_queries_were_asked(bed: Bed, way: str) -> None:
    row = row_of("digits", seen(bed, way), way, OURS, 1.0, 9)
    assert (row["way"], len(row["seeds"])) == (way, len(row["test_accuracy"]))
    assert ("sharpened" in row["encoder"]) == (way == SHARPENED)
    assert min(row["test_accuracy"]) > 0.9


def test_clusters_follow_classes_better_in_sharpened_vectors(bed: Bed) -> None:
    pure = {
        way: row_of("digits", seen(bed, way), way, OURS, 1.0, 9)["best_label_accuracy"] for way in (PLAIN, SHARPENED)
    }
    assert pure[PLAIN] < pure[SHARPENED]


def test_noisy_sgd_can_be_given_the_weights(bed: Bed) -> None:
    sharp = seen(bed, SHARPENED)
    scaled, as_they_are = unit_length(sharp)[0], unit_length(weighted(sharp), scale=False)[0]
    assert np.abs(as_they_are[:, 2:]).mean() < 0.5 * np.abs(scaled[:, 2:]).mean()  # what says nothing hardly counts
    assert np.allclose(np.linalg.norm(as_they_are, axis=1), 1, atol=1e-5)
    row = row_of("digits", sharp, SHARPENED, WEIGHTED, 1.0, 9)
    assert (row["neighbours"], row["delta"]) == ("add-remove", 1e-5)
