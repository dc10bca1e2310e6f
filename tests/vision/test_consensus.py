from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from recordwise.arrays import Ints
from recordwise.errors import InvalidInput
from recordwise.vision.consensus import Consensus, consensus, settled


def of_pool(clusterings: Sequence[Ints], clusters: int) -> Consensus:
    return consensus(clusterings, pool=clusterings, clusters=clusters)


def test_clusterings_that_differ_only_in_numbering_agree_everywhere() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 6, 300)
    found = of_pool([rng.permutation(6)[truth] for _ in range(4)], 6)
    assert found.unanimous.all()
    assert len({tuple(pair) for pair in zip(found.clusters, truth, strict=True)}) == 6  # a renaming, nothing else


def three_that_err(truth: Ints) -> list[Ints]:
    """Each loses another five points of the first cluster, and numbers its clusters in its own way."""
    runs = []
    for run, number in enumerate((0, 7, 30)):
        wrong = truth.copy()
        wrong[number : number + 5] = run + 1
        runs.append(np.random.default_rng(run).permutation(4)[wrong])
    return runs


def test_errors_in_different_places_are_outvoted_and_not_trusted() -> None:
    found = of_pool(three_that_err(np.repeat(np.arange(4), 100)), 4)
    assert (~found.unanimous).sum() == 15
    assert not found.unanimous[[0, 7, 30]].any()
    assert (found.clusters[:100] == found.clusters[50]).all()


def test_other_points_are_numbered_as_the_pool_is() -> None:
    truth = np.repeat(np.arange(4), 100)
    runs = three_that_err(truth)
    others = [run[100:] for run in runs]  # seen through the same networks, all of them right
    found = consensus(others, pool=runs, clusters=4)
    assert found.unanimous.all()
    assert np.array_equal(found.clusters, of_pool(runs, 4).clusters[100:])


def test_the_first_decides_a_tie() -> None:
    found = of_pool([np.array([0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1])], 3)
    assert found.clusters.tolist() == [0, 0, 1, 1, 2]
    assert found.unanimous.tolist() == [True, True, True, True, False]


def test_a_dispute_is_settled_by_neighbours_that_nobody_disputes() -> None:
    rng = np.random.default_rng(1)
    truth = np.repeat(np.arange(3), 50)
    places = rng.normal(size=(150, 2)) + 20 * np.stack([np.cos(truth), np.sin(truth)], axis=1)
    first, second = truth.copy(), truth.copy()
    first[:10], second[:10] = 1, 2  # ten points of the first cluster, which both get wrong, each in its own way
    pool = of_pool([first, second], 3)
    assert not (pool.clusters[:10] == 0).any()
    assert np.array_equal(settled(pool, places, pool=pool, pool_vectors=places), truth)


def test_nothing_is_settled_where_nobody_agrees() -> None:
    pool = Consensus(clusters=np.array([0, 1]), unanimous=np.array([False, False]))
    with pytest.raises(InvalidInput, match="on none"):
        settled(pool, np.eye(2), pool=pool, pool_vectors=np.eye(2))


@pytest.mark.parametrize(
    ("clusterings", "line"),
    [
        ([np.zeros(3, int)], "two or more"),
        ([np.zeros(3, int), np.zeros(4, int)], "same points"),
        ([np.zeros(3, int), np.full(3, 2)], r"lie in \[0, 2\)"),
        ([np.zeros(3, int), np.full(3, -1)], r"lie in \[0, 2\)"),
    ],
)
def test_what_cannot_be_matched_is_refused(clusterings: list[Ints], line: str) -> None:
    with pytest.raises(InvalidInput, match=line):
        of_pool(clusterings, 2)
