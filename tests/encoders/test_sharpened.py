"""Vectors in which clusters scatter alike in all directions."""

from __future__ import annotations

import numpy as np
import pytest

from recordwise.encoders import Sharpened
from recordwise.errors import InvalidInput
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded


def _stretched(size: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Four classes apart in two directions, and three loud directions that say nothing about them."""
    rng = seeded(0, "sharpened")
    label = rng.integers(0, 4, size)
    place = np.column_stack([label % 2, label // 2]) * 6.0 + rng.normal(size=(size, 2))
    return np.hstack([place, rng.normal(size=(size, 3)) * 4]).astype(np.float32), label


def _purity(vectors: np.ndarray, label: np.ndarray, queries: int) -> float:  # type: ignore[type-arg]
    owner = KMeansQueries(num_queries=queries, seed=0).ask(vectors).owner
    counts = np.zeros((queries, 4))
    np.add.at(counts, (owner, label), 1)
    return float(counts.max(axis=1).sum() / len(label))


def test_clusters_of_sharpened_vectors_follow_the_classes_better() -> None:
    pool, label = _stretched(2000)
    sharp = Sharpened(clusters=40).fit(pool).transform(pool)
    assert _purity(pool, label, 8) < 0.9
    assert _purity(sharp, label, 8) > 0.97


def test_clusters_scatter_alike_in_all_directions() -> None:
    pool, _ = _stretched(2000)
    encoder = Sharpened(clusters=40, rounds=1).fit(pool)
    owner = KMeansQueries(num_queries=40, seed=0).ask(pool).owner
    sharp = encoder.transform(pool).astype(np.float64)
    within = sharp - np.stack([sharp[owner == one].mean(axis=0) for one in range(40)])[owner]
    assert np.allclose(within.T @ within / len(pool), np.eye(5), atol=0.05)  # the ridge takes a little


def test_a_pool_of_few_or_equal_samples_is_no_error() -> None:
    assert Sharpened().fit(np.ones((5, 3))).transform(np.ones((2, 3))).shape == (2, 3)
    few = Sharpened(clusters=60).fit(np.eye(3)).transform(np.eye(3))
    assert np.isfinite(few).all()


@pytest.mark.parametrize("settings", [{"clusters": 0}, {"rounds": 0}, {"ridge": 0.0}, {"ridge": float("nan")}])
def test_senseless_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        Sharpened(**settings).fit(np.eye(3))  # type: ignore[arg-type]
