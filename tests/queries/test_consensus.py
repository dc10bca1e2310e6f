from __future__ import annotations

import numpy as np
import pytest

from recordwise.errors import InvalidInput
from recordwise.queries.consensus import consensus


def one_hot(clusters: np.ndarray, count: int) -> np.ndarray:
    return np.eye(count)[clusters]


def test_clusterings_that_differ_only_in_numbering_agree_everywhere() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 6, 300)
    found = consensus([one_hot(rng.permutation(6)[truth], 6) for _ in range(4)])
    assert found.unanimous.all()
    assert len({tuple(pair) for pair in zip(found.clusters, truth, strict=True)}) == 6  # a renaming, nothing else


def test_errors_in_different_places_are_outvoted_and_not_trusted() -> None:
    truth = np.repeat(np.arange(4), 100)
    runs = []
    for run, number in enumerate((0, 7, 30)):
        wrong = truth.copy()
        wrong[number : number + 5] = run + 1  # each run loses another five points of the first cluster
        runs.append(one_hot(np.random.default_rng(run).permutation(4)[wrong], 4))
    found = consensus(runs)
    assert (~found.unanimous).sum() == 15
    assert not found.unanimous[[0, 7, 30]].any()
    assert (found.clusters[:100] == found.clusters[50]).all()


def test_sureness_counts_where_votes_are_split() -> None:
    sure, unsure = np.array([[0.9, 0.1], [0.1, 0.9], [1, 0]]), np.array([[0.45, 0.55], [0.1, 0.9], [1, 0]])
    found = consensus([unsure, sure])
    assert found.clusters.tolist() == [0, 1, 0]
    assert found.unanimous.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("clusterings", "line"),
    [
        ([np.ones((3, 2))], "two or more, got 1"),
        ([np.ones((3, 2)), np.ones((4, 2))], "of one shape"),
        ([np.ones((3, 2)), np.full((3, 2), np.nan)], "probabilities"),
        ([np.ones((3, 2)), -np.ones((3, 2))], "probabilities"),
    ],
)
def test_what_cannot_be_matched_is_refused(clusterings: list[np.ndarray], line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        consensus(clusterings)
