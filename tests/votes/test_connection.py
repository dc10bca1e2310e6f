from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from recordwise.errors import InvalidInput
from recordwise.nearest import Metric, nearest_queries
from recordwise.privacy.guarantee import Neighbours
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.votes import Ballot, balanced_prices, cast_votes


def uneven(seed: int, num_records: int) -> NDArray[np.float64]:
    """Three clumps of very different sizes."""
    rng = seeded(seed, "uneven")
    centres = rng.standard_normal((3, 8))
    return centres[rng.choice(3, num_records, p=[0.8, 0.15, 0.05])] + 0.4 * rng.standard_normal((num_records, 8))


def loads(records: NDArray[np.float64], queries: NDArray[np.float64], k: int, **rule: object) -> NDArray[np.float64]:
    picks = nearest_queries(records, queries, k, **rule)  # type: ignore[arg-type]
    return np.bincount(picks.ravel(), minlength=len(queries)) / (len(records) * k / len(queries))


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("k", [1, 3])
def test_prices_from_the_pool_even_out_the_votes_of_other_records(metric: Metric, k: int) -> None:
    pool, records = uneven(1, 2000), uneven(1, 6000)[2000:]
    queries = uneven(2, 40) * 0.2 + pool[::50] * 0.8
    prices = balanced_prices(pool, queries, k, metric=metric)
    assert prices.min() == 0
    free, priced = (loads(records, queries, k, metric=metric, prices=some) for some in (None, prices))
    assert priced.std() < free.std() / 2
    assert priced.min() > max(0.3, free.min())
    assert loads(pool, queries, k, metric=metric, prices=prices).std() < 0.1


def test_many_queries_of_clusters_that_differ_in_size_are_evened_out() -> None:
    """Here larger steps went to and fro, and never found prices better than none."""
    rng = np.random.default_rng(0)
    centres, common = rng.normal(size=(10, 16)) * 2, 0.6 ** np.arange(10)
    label = rng.choice(10, 1500, p=common / common.sum())
    pool = centres[label] + rng.normal(size=(1500, 16)) * np.linspace(0.1, 1, 10)[label][:, None]
    pool = pool * 0.8 ** np.arange(16)
    queries = KMeansQueries(num_queries=60, seed=0).ask(pool.astype(np.float32)).vectors.astype(np.float64)
    prices = balanced_prices(pool, queries, 1)
    assert loads(pool, queries, 1).std() > 1.5
    assert loads(pool, queries, 1, prices=prices).std() < 0.6


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_one_replaced_record_changes_at_most_2k_votes_under_prices(seed: int, k: int) -> None:
    rng = seeded(seed, "replaced")
    records, queries = rng.standard_normal((30, 4)), rng.standard_normal((8, 4))
    prices = balanced_prices(rng.standard_normal((100, 4)), queries, k, rounds=20)
    labels = rng.integers(0, 3, 30)
    form = Ballot(num_queries=8, num_classes=3, votes_per_record=k)
    before = cast_votes(records[:-1], labels[:-1], queries, form, prices=prices).counts()
    after = cast_votes(records[1:], labels[1:], queries, form, prices=prices).counts()  # the first became the last
    assert np.abs(before - after).sum() <= form.cells_changed(Neighbours.REPLACE) == 2 * k


def joint_counts(records: NDArray[np.float64], labels: NDArray[np.int64], queries: NDArray[np.float64]) -> object:
    """The balanced assignment of all private records together: no query may be left empty."""
    distance = np.abs(records[:, None] - queries[None])
    rows, asked = linear_sum_assignment(distance**2)
    counts = np.zeros((len(queries), 2), dtype=np.int64)
    np.add.at(counts, (asked, labels[rows]), 1)
    return counts


def test_balancing_private_records_jointly_loses_the_bound_on_a_chain() -> None:
    """q1 - r1 - q2 - r2 - ... - qm: one record moves from one end to the other and pushes all others along."""
    m = 20
    queries = np.arange(m, dtype=np.float64)
    chain, labels = np.arange(m - 1) + 0.5, np.arange(m) % 2
    left, right = np.append(chain, -0.5), np.append(chain, m - 0.5)  # the last record differs, and it alone
    joint = np.abs(joint_counts(left, labels, queries) - joint_counts(right, labels, queries)).sum()  # type: ignore[operator]
    assert joint >= 2 * (m - 2)
    form = Ballot(num_queries=m, num_classes=2)
    prices = balanced_prices(seeded(0, "pool").uniform(-0.5, m - 0.5, (500, 1)), queries[:, None], 1)
    alone = [
        cast_votes(some[:, None], labels, queries[:, None], form, prices=prices).counts() for some in (left, right)
    ]
    assert np.abs(alone[0] - alone[1]).sum() <= 2


def test_prices_do_not_matter_where_every_query_is_chosen() -> None:
    assert balanced_prices(np.eye(3), np.eye(3), 3).tolist() == [0, 0, 0]
    assert balanced_prices(np.zeros((4, 2)), np.zeros((3, 2)), 1).tolist() == [0, 0, 0]  # no distances, no scale


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pool": np.empty((0, 2))}, "pool must not be empty"),
        ({"pool": [[np.nan, 0.0]]}, "pool must be finite"),
        ({"k": 4}, "k must be <= the 3 queries"),
        ({"rounds": 0}, "rounds must be a whole number >= 1"),
    ],
)
def test_a_mistake_is_refused_in_one_line(change: dict[str, object], message: str) -> None:
    arguments = {"pool": np.ones((5, 2)), "queries": np.ones((3, 2)), "k": 1} | change
    with pytest.raises(InvalidInput, match=message):
        balanced_prices(**arguments)  # type: ignore[arg-type]
