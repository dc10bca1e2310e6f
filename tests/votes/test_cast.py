from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.nearest import oracle
from tests.nearest.hard import hard_problem, kinds, seeds

from recordwise.errors import InvalidInput
from recordwise.nearest import Metric
from recordwise.privacy.guarantee import Neighbours
from recordwise.randomness import seeded
from recordwise.votes import NOBODY, Ballot, cast_votes

Labels = list[set[int]]


def random_sets(rng: np.random.Generator, num_records: int, num_classes: int, r: int) -> Labels:
    return [set(rng.choice(num_classes, rng.integers(0, r + 1), replace=False).tolist()) for _ in range(num_records)]


@given(seed=seeds, kind=kinds, k=st.integers(1, 5), r=st.integers(1, 3), metric=st.sampled_from(Metric))
@settings(max_examples=60, deadline=None)
def test_one_record_changes_no_more_cells_than_the_ballot_says(
    seed: int, kind: str, k: int, r: int, metric: Metric
) -> None:
    records, queries = hard_problem(seed, kind, num_records=20)
    queries = queries[queries.any(axis=1)]
    form = Ballot(num_queries=len(queries), num_classes=4, votes_per_record=min(k, len(queries)), labels_per_record=r)
    labels = random_sets(seeded(seed, "labels"), len(records), 4, r)

    def counts(keep: slice) -> NDArray[np.int64]:
        return cast_votes(records[keep], labels[keep], queries, form, metric=metric).counts()

    without_last, without_first, whole = counts(slice(None, -1)), counts(slice(1, None)), counts(slice(None))
    added = whole - without_last
    assert set(np.unique(added)) <= {0, 1}
    assert added.sum() <= form.cells_changed(Neighbours.ADD_REMOVE)
    replaced = np.abs(without_first - without_last)  # the first record turned into the last
    assert replaced.max() <= 1
    assert replaced.sum() <= form.cells_changed(Neighbours.REPLACE)
    assert (replaced**2).sum() <= form.cells_changed(Neighbours.REPLACE)


def test_votes_are_the_nearest_queries_and_the_classes() -> None:
    records, queries = hard_problem(3, "plain")
    form = Ballot(num_queries=len(queries), num_classes=5, votes_per_record=2)
    labels = seeded(3, "labels").integers(0, 5, len(records))
    votes = cast_votes(records, labels, queries, form)
    np.testing.assert_array_equal(votes.queries, oracle.nearest(records, queries, 2))
    np.testing.assert_array_equal(votes.labels[:, 0], labels)
    tally = np.zeros((len(queries), 5), dtype=np.int64)
    for row, label in zip(oracle.nearest(records, queries, 2), labels, strict=True):
        tally[row, label] += 1
    np.testing.assert_array_equal(votes.counts(), tally)


def test_a_record_far_from_every_query_casts_no_vote() -> None:
    form = Ballot(num_queries=2, num_classes=2)
    votes = cast_votes([[0.0], [50.0]], [0, 1], [[0.0], [1.0]], form, max_distance=3.0)
    assert votes.queries.tolist() == [[0], [NOBODY]]
    assert votes.counts().sum() == 1


def test_labels_above_r_are_truncated_only_when_asked() -> None:
    form = Ballot(num_queries=1, num_classes=3)
    assert cast_votes([[0.0]], [{2, 1}], [[0.0]], form).labels.tolist() == [[NOBODY]]
    assert cast_votes([[0.0]], [{2, 1}], [[0.0]], form, truncate_labels=True).labels.tolist() == [[1]]


@pytest.mark.parametrize("label", [2, -1, 0.5, math.nan, None, "1", {0, 1}, {0, 7}, [0, 1, 1], 10**30], ids=str)
def test_a_record_that_cannot_vote_abstains_and_changes_no_other(label: object) -> None:
    form = Ballot(num_queries=3, num_classes=2)
    vectors, queries = np.array([[0.0, 0.0], [1.0, 5.0], [2.0, 1.0]]), [[0.0, 0.0], [1.0, 4.0], [9.0, 9.0]]
    rest = cast_votes(vectors[:2], [0, 1], queries, form)
    votes = cast_votes(vectors, [0, 1, label], queries, form)
    assert votes.labels[2].tolist() == [NOBODY]
    assert np.array_equal(votes.cells()[:2], rest.cells())
    assert np.array_equal(votes.counts(), rest.counts())
    vectors[2, 1] = math.nan
    assert np.array_equal(cast_votes(vectors, [0, 1, 1], queries, form).counts(), rest.counts())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0]}, "labels must be as many as the 2 vectors, got 1"),
        ({"queries": np.zeros((4, 2))}, "queries must be the 3 of the ballot, got shape"),
        ({"vectors": np.zeros((2, 5))}, r"vectors must have shape \(n, 2\)"),
    ],
)
def test_a_mistake_is_refused_in_one_line(change: object, message: str) -> None:
    form = Ballot(num_queries=3, num_classes=2)
    arguments = {"vectors": np.zeros((2, 2)), "labels": [0, 1], "queries": np.ones((3, 2)), "ballot": form}
    with pytest.raises(InvalidInput, match=message):
        cast_votes(**(arguments | change))  # type: ignore[operator]
