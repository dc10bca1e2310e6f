from __future__ import annotations

import numpy as np
import pytest

from recordwise.errors import InvalidInput
from recordwise.queries.consensus import consensus


def test_clusterings_that_differ_only_in_numbering_agree_everywhere() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 6, 300)
    found = consensus([rng.permutation(6)[truth] for _ in range(4)], 6)
    assert found.unanimous.all()
    assert len({tuple(pair) for pair in zip(found.clusters, truth, strict=True)}) == 6  # a renaming, nothing else


def test_errors_in_different_places_are_outvoted_and_not_trusted() -> None:
    truth = np.repeat(np.arange(4), 100)
    runs = []
    for run, number in enumerate((0, 7, 30)):
        wrong = truth.copy()
        wrong[number : number + 5] = run + 1  # each run loses another five points of the first cluster
        runs.append(np.random.default_rng(run).permutation(4)[wrong])
    found = consensus(runs, 4)
    assert (~found.unanimous).sum() == 15
    assert not found.unanimous[[0, 7, 30]].any()
    assert (found.clusters[:100] == found.clusters[50]).all()


def test_the_first_decides_a_tie() -> None:
    found = consensus([np.array([0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1])], 3)
    assert found.clusters.tolist() == [0, 0, 1, 1, 2]
    assert found.unanimous.tolist() == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("clusterings", "line"),
    [
        ([np.zeros(3, int)], "two or more, got 1"),
        ([np.zeros(3, int), np.zeros(4, int)], "same points"),
        ([np.zeros(3, int), np.full(3, 2)], r"lie in \[0, 2\)"),
        ([np.zeros(3, int), np.full(3, -1)], r"lie in \[0, 2\)"),
    ],
)
def test_what_cannot_be_matched_is_refused(clusterings: list[np.ndarray], line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        consensus(clusterings, 2)
