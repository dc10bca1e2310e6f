"""What the first round may ask: clusters, balanced ones, and queries of the caller's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.nearest import nearest_queries
from recordwise.queries import KMeansQueries, Queries, UncertainQueries, first_queries, queries_from
from recordwise.randomness import seeded

POOL = seeded(0, "pool").normal(size=(120, 2)).astype(np.float32) ** 3
ASKED: dict[str, Any] = {"num_queries": 6, "votes_per_record": 1, "seed": 0}


def test_kmeans_is_the_usual_and_takes_settings() -> None:
    usual = first_queries("kmeans", POOL, **ASKED)
    assert np.array_equal(usual.vectors, KMeansQueries(num_queries=6, seed=0).ask(POOL).vectors)
    real = first_queries({"name": "kmeans", "real_samples": True}, POOL, **ASKED)
    assert real.samples is not None and np.array_equal(real.vectors, POOL[real.samples])


def test_balanced_queries_are_picked_by_more_equally_many() -> None:
    usual, balanced = (first_queries({"name": "kmeans", "balanced": one}, POOL, **ASKED) for one in (False, True))
    loads = [
        np.bincount(nearest_queries(POOL, one.vectors, 1, prices=one.prices)[:, 0], minlength=6)
        for one in (usual, balanced)
    ]
    assert loads[1].std() < loads[0].std() / 2


class Corners:
    """Queries of somebody else's making."""

    def ask(self, pool: Any) -> Queries:
        vectors = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]], dtype=np.float32)
        return Queries(vectors=vectors, owner=nearest_queries(pool, vectors, 1)[:, 0].astype(np.int64))


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "asks"])
def test_queries_of_the_caller_s_own_are_asked(ready: bool) -> None:
    rng = seeded(1, "corners")
    y = rng.integers(4, size=300)
    X = (np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]])[y] * 3 + rng.normal(size=(300, 2))).astype(np.float32)
    own = Corners().ask(X[:100]) if ready else Corners()
    settings = {} if ready else {"num_queries": 4}
    fitted = PrivateDistiller(9.0, queries=own, encoder=Unchanged(), classes=range(4), **settings)
    fitted.fit(X[100:], y[100:], X_public=X[:100])
    assert np.array_equal(fitted.rounds_[0].queries.vectors, Corners().ask(X[:100]).vectors)
    assert fitted.score(X[:100], y[:100]) > 0.9


def test_without_focus_a_later_round_asks_other_clusters_whatever_the_student_says() -> None:
    rng = seeded(1, "focus")
    X, y = rng.normal(size=(300, 2)), rng.integers(2, size=300)
    asked = []
    for labels in (y, 1 - y):
        run = PrivateDistiller(9.0, queries={"focus": 0}, num_queries=8, rounds=2, encoder=Unchanged(), classes=[0, 1])
        run.set_params(student="linear", decoder="argmax").fit(X[100:], labels[100:], X_public=X[:100])
        asked.append([one.queries.vectors for one in run.rounds_])
    assert np.array_equal(asked[0][1], asked[1][1]) and not np.array_equal(asked[0][0], asked[0][1])
    evenly = UncertainQueries(num_queries=8, seed=1, focus=0).ask(X[:100].astype(np.float32), np.eye(2)[y[:100]])
    assert np.array_equal(asked[0][1], evenly.vectors)
    with pytest.raises(InvalidInput, match=r"queries\.focus must lie in \[0, 1\], got 2"):
        queries_from({"focus": 2})


class Unchanged:
    """An encoder that leaves vectors as they are."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def fit(self, pool: Any, y: object = None) -> Unchanged:
        return self

    def transform(self, samples: Any) -> Any:
        return np.asarray(samples, dtype=np.float32)


def test_mistakes_are_refused_in_one_line() -> None:
    with pytest.raises(InvalidInput, match="queries must be 'kmeans'"):
        queries_from("magic")
    with pytest.raises(InvalidInput, match="has no setting 'sides'"):
        queries_from({"name": "kmeans", "sides": 3})
    with pytest.raises(InvalidInput, match=r"an object with ask\(pool\), got 7"):
        queries_from(7)
    with pytest.raises(InvalidInput, match="queries must be 6 of 2 dimensions"):
        first_queries(Corners(), POOL, **ASKED)


def test_queries_that_own_no_sample_of_the_pool_are_refused_before_anything_is_paid() -> None:
    nobody_s = Queries(vectors=POOL[:6], owner=np.full(len(POOL), -1))
    with pytest.raises(InvalidInput, match="must own at least one sample"):
        first_queries(nobody_s, POOL, **ASKED)
