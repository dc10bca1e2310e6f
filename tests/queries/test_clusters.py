from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.datasets import load_digits

from recordwise.errors import InvalidInput
from recordwise.nearest.poll import Metric
from recordwise.queries import KMeansQueries, Queries, UncertainQueries, Uncertainty
from recordwise.votes.ballot import NOBODY

DIGITS = load_digits().data.astype(np.float32)
RNG = np.random.default_rng(0)
PROBABILITIES = RNG.dirichlet(np.ones(4), len(DIGITS))


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("real_samples", [False, True])
def test_queries_cover_the_pool(metric: Metric, real_samples: bool) -> None:
    queries = KMeansQueries(num_queries=40, seed=0, metric=metric, real_samples=real_samples).ask(DIGITS)
    assert len(queries) == 40
    assert queries.sizes.min() >= 1
    assert queries.sizes.sum() == len(DIGITS)
    assert queries.metric is metric
    if real_samples:
        assert queries.samples is not None
        assert np.array_equal(queries.vectors, DIGITS[queries.samples])
        assert queries.owner[queries.samples].tolist() == list(range(40))  # a query answers for itself
    else:
        assert queries.samples is None


def test_clusters_of_digits_are_mostly_of_one_digit() -> None:
    target = load_digits().target
    owner = KMeansQueries(num_queries=60, seed=0).ask(DIGITS).owner
    counts = np.zeros((60, 10))
    np.add.at(counts, (owner, target), 1)
    assert counts.max(axis=1).sum() / len(target) > 0.85


def test_uncertainty_is_entropy_or_margin() -> None:
    probabilities = np.array([[1.0, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5, 0], [0.6, 0.3, 0.1]])
    relative = entropy(probabilities, axis=1) / np.log(3)
    np.testing.assert_allclose(Uncertainty.ENTROPY.of(probabilities), relative, atol=1e-12)
    np.testing.assert_allclose(Uncertainty.MARGIN.of(probabilities), [0, 1, 1, 0.7])
    assert Uncertainty.ENTROPY.of(np.ones((2, 1))).tolist() == [0, 0]
    for bad in (np.array([[np.nan, 1.0]]), np.array([[-0.1, 1.1]]), np.ones(3)):
        with pytest.raises(InvalidInput, match="probabilities must lie in"):
            Uncertainty.MARGIN.of(bad)


@pytest.mark.parametrize("uncertainty", Uncertainty)
def test_later_queries_gather_where_the_student_is_unsure(uncertainty: Uncertainty) -> None:
    pool = RNG.normal(size=(2000, 2)).astype(np.float32)
    unsure = np.abs(pool[:, 0]) < 0.3
    probabilities = np.where(unsure[:, None], 0.5, [[1.0, 0.0]])

    def share(focus: float) -> float:
        wish = UncertainQueries(num_queries=50, seed=0, uncertainty=uncertainty, focus=focus)
        queries = wish.ask(pool, probabilities)
        assert queries.sizes.sum() == len(pool)  # nobody is left out
        return float((np.abs(queries.vectors[:, 0]) < 0.3).mean())

    assert share(0.0) < share(0.5) < share(1.0)


def test_a_student_that_is_sure_of_everything_is_asked_evenly() -> None:
    even = KMeansQueries(num_queries=20, seed=4).ask(DIGITS)
    sure = UncertainQueries(num_queries=20, seed=4).ask(DIGITS, np.tile([1.0, 0.0], (len(DIGITS), 1)))
    assert np.array_equal(even.vectors, sure.vectors)


def test_samples_are_not_asked_twice() -> None:
    first = KMeansQueries(num_queries=30, seed=0, real_samples=True).ask(DIGITS)
    assert first.samples is not None
    second = UncertainQueries(num_queries=30, seed=0, real_samples=True).ask(DIGITS, PROBABILITIES, asked=first.samples)
    assert second.samples is not None
    assert not set(first.samples) & set(second.samples)


def test_queries_are_a_function_of_pool_and_seed() -> None:
    wish = UncertainQueries(num_queries=10, seed=3)
    assert np.array_equal(wish.ask(DIGITS, PROBABILITIES).vectors, wish.ask(DIGITS, PROBABILITIES).vectors)


def test_bad_wishes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="num_queries must be a whole number >= 1, got 0"):
        KMeansQueries(num_queries=0, seed=0)
    with pytest.raises(InvalidInput, match=r"focus must lie in \[0, 1\], got nan"):
        UncertainQueries(num_queries=2, seed=0, focus=float("nan"))
    with pytest.raises(InvalidInput, match="num_queries must be <= the pool's 3 samples, got 4"):
        KMeansQueries(num_queries=4, seed=0).ask(DIGITS[:3])
    with pytest.raises(InvalidInput, match="num_queries must be <= the pool's 1 different samples, got 2"):
        KMeansQueries(num_queries=2, seed=0).ask(np.ones((9, 2)))
    with pytest.raises(InvalidInput, match="pool must be finite, row 1"):
        KMeansQueries(num_queries=2, seed=0).ask(np.array([[1.0], [np.nan], [2.0]]))
    with pytest.raises(InvalidInput, match="as many as the 3 pool samples, got 2"):
        UncertainQueries(num_queries=2, seed=0).ask(DIGITS[:3], PROBABILITIES[:2])


def test_queries_must_hang_together() -> None:
    vectors = np.eye(2, dtype=np.float32)
    assert Queries(vectors=vectors, owner=np.array([0, NOBODY, 0, 1])).sizes.tolist() == [2, 1]
    with pytest.raises(InvalidInput, match="owner must name one of the 2 queries"):
        Queries(vectors=vectors, owner=np.array([0, 2]))
    with pytest.raises(InvalidInput, match="samples must name one of the 2 pool samples"):
        Queries(vectors=vectors, owner=np.array([0, 1]), samples=np.array([0, 2]))
