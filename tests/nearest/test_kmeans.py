from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from recordwise.errors import InvalidInput
from recordwise.nearest.poll import Metric
from recordwise.nearest.search import nearest_queries
from recordwise.queries import kmeans
from recordwise.votes.ballot import NOBODY

DIGITS = load_digits().data.astype(np.float32)
RNG = np.random.default_rng(0)


def inertia(vectors: np.ndarray, centres: np.ndarray, owner: np.ndarray) -> float:
    return float(((vectors - centres[owner]) ** 2).sum())


def test_inertia_is_lower_than_scikit_learns() -> None:
    ours = [inertia(DIGITS, *kmeans(DIGITS, 50, metric=Metric.EUCLIDEAN, seed=seed)) for seed in range(3)]
    theirs = [KMeans(50, n_init=1, random_state=seed).fit(DIGITS).inertia_ for seed in range(3)]
    assert np.mean(ours) < 0.99 * np.mean(theirs)  # measured 2 % below


@pytest.mark.parametrize("metric", Metric)
def test_groups_that_lie_apart_are_one_cluster_each(metric: Metric) -> None:
    groups = RNG.normal(size=(60, 20))
    sizes = RNG.integers(5, 60, len(groups))
    group = np.repeat(np.arange(len(groups)), sizes)
    vectors = (groups[group] + 0.02 * RNG.normal(size=(len(group), 20))).astype(np.float32)
    for seed in range(3):
        _, owner = kmeans(vectors, len(groups), metric=metric, seed=seed)
        assert len(np.unique(np.stack([owner, group]), axis=1).T) == len(groups)


def test_many_clusters_of_few_samples_start_from_drawn_ones() -> None:
    vectors = RNG.normal(size=(50, 3)).astype(np.float32)
    _, owner = kmeans(vectors, 30, metric=Metric.EUCLIDEAN, seed=0)
    assert set(owner) == set(range(30))


def test_cosine_clusters_are_those_of_unit_vectors() -> None:
    lengths = RNG.uniform(0.1, 10, (len(DIGITS), 1)).astype(np.float32)
    centres, owner = kmeans(DIGITS * lengths, 30, metric=Metric.COSINE, seed=0)
    unit = normalize(DIGITS)
    theirs = KMeans(30, n_init=1, random_state=0).fit(unit).inertia_
    assert inertia(unit, centres, owner) < 1.05 * theirs


small = st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=1, max_size=40)


@settings(deadline=None)
@given(points=small, clusters=st.integers(1, 8), seed=st.integers(0, 5), metric=st.sampled_from(Metric))
def test_no_cluster_is_empty_and_everyone_belongs_to_the_nearest(points, clusters, seed, metric) -> None:
    vectors = np.array(points, dtype=np.float32)
    usable = vectors.any(axis=1) if metric is Metric.COSINE else np.ones(len(vectors), dtype=bool)
    kept = vectors[usable]
    if metric is Metric.COSINE and len(kept):
        kept = normalize(kept).round(5)
    different = len(np.unique(kept, axis=0)) if len(kept) else 0
    if clusters > different:
        with pytest.raises(InvalidInput, match=r"num_queries must be <= the pool's \d+ (different )?samples, got"):
            kmeans(vectors, clusters, metric=metric, seed=seed)
        return
    centres, owner = kmeans(vectors, clusters, metric=metric, seed=seed)
    assert centres.shape == (clusters, 2)
    assert set(owner[usable]) == set(range(clusters))
    assert (owner[~usable] == NOBODY).all()
    assert np.array_equal(owner, nearest_queries(vectors, centres, 1, metric=metric)[:, 0])


def test_the_same_seed_gives_the_same_clusters_and_another_one_others() -> None:
    first, again, other = (kmeans(DIGITS, 20, metric=Metric.EUCLIDEAN, seed=seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_heavier_samples_get_smaller_clusters() -> None:
    vectors = RNG.normal(size=(2000, 2)).astype(np.float32)
    right = vectors[:, 0] > 0
    centres, _ = kmeans(vectors, 100, metric=Metric.EUCLIDEAN, seed=0, weights=np.where(right, 50.0, 1.0))
    assert (centres[:, 0] > 0).mean() > 0.75


def test_samples_without_weight_move_no_centre() -> None:
    vectors = np.array([[0.0], [1.0], [100.0], [101.0]], dtype=np.float32)
    centres, owner = kmeans(vectors, 2, metric=Metric.EUCLIDEAN, seed=0, weights=np.array([1.0, 1.0, 0.0, 0.0]))
    assert sorted(centres.ravel()) == [0, 1]
    assert owner.tolist() in ([0, 1, 1, 1], [1, 0, 0, 0])


def test_few_different_samples_among_many_are_found() -> None:
    vectors = np.zeros((5000, 2), dtype=np.float32)
    vectors[:3] = [[1, 0], [2, 0], [3, 0]]  # the starting points' sample of 80 rarely holds them
    centres, _ = kmeans(vectors, 4, metric=Metric.EUCLIDEAN, seed=0)
    assert sorted(centres[:, 0]) == [0, 1, 2, 3]


def test_opposite_directions_in_one_cluster_keep_a_direction() -> None:
    centres, owner = kmeans(np.array([[1, 0], [-1, 0]], dtype=np.float32), 1, metric=Metric.COSINE, seed=0)
    assert np.linalg.norm(centres) == 1
    assert owner.tolist() == [0, 0]
