from __future__ import annotations

import itertools

import numpy as np
import pytest

from recordwise.errors import InvalidInput
from recordwise.labels import graph as module
from recordwise.labels import query_graph
from recordwise.nearest import Metric
from recordwise.randomness import seeded


def by_hand(pool, queries, near, discount):
    graph = np.zeros((len(queries), len(queries)))
    for sample in pool:
        nearest = np.argsort(((queries - sample) ** 2).sum(axis=1), kind="stable")[:near]
        for i, j in itertools.permutations(range(len(nearest)), 2):
            graph[nearest[i], nearest[j]] += discount**i * discount**j
    return graph


@pytest.mark.parametrize(("nearest", "discount"), [(5, 0.5), (5, 1.0), (2, 0.3)])
def test_the_graph_is_what_a_loop_counts(nearest, discount):
    rng = seeded(0, "graph")
    pool, queries = rng.normal(size=(200, 3)), rng.normal(size=(9, 3))
    found = query_graph(pool, queries, nearest=nearest, discount=discount)
    np.testing.assert_allclose(found, by_hand(pool, queries, nearest, discount), rtol=1e-12)
    assert (found == found.T).all()
    assert (np.diag(found) == 0).all()


def test_without_discount_the_graph_counts_samples():
    rng = seeded(1, "graph")
    found = query_graph(rng.normal(size=(50, 2)), rng.normal(size=(6, 2)), discount=1.0)
    assert found.sum() == 50 * 5 * 4
    assert (found == found.astype(int)).all()


def test_the_graph_does_not_depend_on_the_size_of_a_chunk(monkeypatch):
    rng = seeded(2, "graph")
    pool, queries = rng.normal(size=(100, 4)), rng.normal(size=(12, 4))
    whole = query_graph(pool, queries)
    monkeypatch.setattr(module, "CHUNK", 7)
    np.testing.assert_allclose(query_graph(pool, queries), whole, rtol=1e-12)


def test_fewer_queries_than_neighbours_are_all_neighbours():
    rng = seeded(3, "graph")
    assert (query_graph(rng.normal(size=(10, 2)), rng.normal(size=(3, 2)), discount=1.0) == 10 - 10 * np.eye(3)).all()


def test_under_the_cosine_metric_only_directions_matter_and_a_zero_vector_has_none():
    rng = seeded(4, "graph")
    pool, queries = rng.normal(size=(60, 3)), rng.normal(size=(8, 3))
    unit = query_graph(pool, queries / np.linalg.norm(queries, axis=1, keepdims=True), metric=Metric.COSINE)
    stretched = queries * rng.uniform(0.5, 20, size=(8, 1))
    lengths = rng.uniform(0.1, 9, size=(60, 1))
    with_zero = np.vstack([pool * lengths, np.zeros((1, 3))])
    np.testing.assert_allclose(query_graph(with_zero, stretched, metric=Metric.COSINE), unit, rtol=1e-12)


@pytest.mark.parametrize("discount", [0.0, 1.5, float("nan")])
def test_a_discount_outside_its_range_is_refused(discount):
    with pytest.raises(InvalidInput, match="discount"):
        query_graph(np.ones((2, 2)), np.ones((2, 2)), discount=discount)
