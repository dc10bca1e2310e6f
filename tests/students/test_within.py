"""How far a student is believed within a query."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from recordwise.arrays import Doubles, Floats, Ints, Singles, softmax
from recordwise.labels import query_graph
from recordwise.labels.likelihood import CellLaw
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import KMeansQueries
from recordwise.students.counts import Asked, TableStudent, learn_from_counts
from recordwise.students.table import CountTable, mean_over
from recordwise.students.within import (
    LEAST,
    believable,
    folds_of,
    mates_of,
    regions_of,
    strength_of,
    with_regions,
)
from recordwise.votes import Ballot, cast_votes

RNG = np.random.default_rng(0)


def table_of(shares: Doubles, *, votes: float, std: float) -> CountTable:
    """A released table of queries with these class shares, one pool sample each."""
    s = len(shares)
    cells = RNG.poisson(votes * shares) + std * RNG.normal(size=shares.shape)
    return CountTable(
        mean=mean_over(np.arange(s), s), cells=cells, law=CellLaw(scale=None, variance=std**2),
        rates=np.full(s, votes), grain=np.full(s, 0.01), prior=np.full(shares.shape, 1 / shares.shape[1]),
        counted=np.ones(s),
    )  # fmt: skip


@pytest.mark.parametrize("s", [2, 7, 40])
def test_mates_are_pairs_and_the_closest_two_are_one(s: int) -> None:
    centres = RNG.normal(size=(s, 3))
    mates = mates_of(centres)
    paired = np.flatnonzero(mates >= 0)
    assert len(paired) == s - s % 2 and (mates[mates[paired]] == paired).all() and (mates[paired] != paired).all()
    distance = np.linalg.norm(centres[:, None] - centres[None], axis=2) + np.diag(np.full(s, np.inf))
    one, other = np.unravel_index(distance.argmin(), distance.shape)
    assert mates[one] == other


def test_equal_centres_still_find_mates() -> None:
    assert sorted(mates_of(np.zeros((5, 2))))[0] == -1 and (mates_of(np.zeros((4, 2))) >= 0).all()


def test_mates_are_held_out_together() -> None:
    mates = mates_of(RNG.normal(size=(21, 3)))
    folds = folds_of(mates, 4, RNG)
    paired = np.flatnonzero(mates >= 0)
    assert (folds[paired] == folds[mates[paired]]).all() and set(folds) == {0, 1, 2, 3}


# With 400 queries of 500 votes a slope has a standard error near 0.02: six of them are never reached by chance.
@pytest.mark.parametrize("real", [0.25, 0.6, 1.0])
def test_a_student_is_believed_as_far_as_its_differences_are_real(real: float) -> None:
    level = RNG.uniform(0.3, 0.7, size=200).repeat(2)
    claimed = np.tile([0.2, -0.2], 200)
    truth, said = (np.stack([level + step, 1 - level - step], axis=1) for step in (real * claimed, claimed))
    mates: Ints = np.arange(400) ^ 1
    found = believable([said], [table_of(truth, votes=500, std=2)], [mates])
    assert abs(found - real) < 0.12


def test_noise_that_hides_all_differences_leaves_it_open() -> None:
    said = RNG.dirichlet(np.ones(3), size=20)
    found = believable([said], [table_of(said, votes=10, std=1e5)], [np.arange(20) ^ 1])
    assert abs(found - 0.5) < 0.01


def test_rows_that_do_not_count_say_nothing() -> None:
    said = RNG.dirichlet(np.ones(3), size=20)
    table = replace(table_of(said, votes=1e4, std=0.1), counted=np.zeros(20))
    assert believable([said], [table], [np.arange(20) ^ 1]) == pytest.approx(0.5)


# Of 400 queries' shares the variance is known to a tenth, and so is the strength: twice too much or too little is seen.
def test_a_student_is_as_strong_as_what_is_released_stays_near_it() -> None:
    said = np.tile([0.4, 0.6], (400, 1))
    strong = {}
    for strength in (40.0, 200.0):
        off = np.sqrt(0.24 / (1 + strength)) * RNG.normal(size=(400, 1))
        strong[strength] = strength_of([said], [table_of(said + [[1, -1]] * off, votes=2000, std=5)])
    assert 40 < strong[40.0] < 160 and 200 < strong[200.0] < 800
    # Where nothing strays but by noise and chance, it is as strong as it may be.
    assert strength_of([said], [table_of(said, votes=2000, std=5)]) > 700


def test_a_strong_student_is_left_by_noisy_shares_less() -> None:
    said = np.tile([0.3, 0.7], (50, 1))
    table = table_of(said, votes=100, std=10)
    weak, strong = (np.abs(replace(table, strength=one).believed(said) - said).mean() for one in (10, 100))
    assert strong < weak / 3


def apart(*, counted: Doubles) -> tuple[Singles, Ints, CountTable]:
    """A pool in six clusters that lie far apart, and a table of it that hardly has noise."""
    centres = 10 * RNG.normal(size=(6, 4))
    owner = np.arange(60) % 6
    pool = (centres[owner] + 0.1 * RNG.normal(size=(60, 4))).astype(np.float32)
    table = table_of(RNG.dirichlet(np.ones(3), size=6), votes=1e6, std=1e-3)
    return pool, owner, replace(table, mean=mean_over(owner, 6), counted=counted)


def test_a_sample_gets_the_shares_of_the_queries_around_it() -> None:
    pool, owner, table = apart(counted=(np.arange(6) != 2).astype(np.float64))
    logits = RNG.normal(size=(60, 3)).astype(np.float32)
    regions = regions_of(pool, np.ones(4), softmax(logits), [table])
    assert len(regions[0].shares) == 5  # a query that does not count is no region
    near = regions[0].near(pool)
    assert np.allclose(near.sum(axis=1), 1)
    believed = table.cells / 1e6
    for place, query in enumerate([0, 1, 3, 4, 5]):
        assert np.allclose(near[owner == query, place], 1)  # the others lie far away
        alone = with_regions(pool[owner == query], logits[owner == query], regions, 0.0)
        assert np.allclose(alone, np.maximum(believed[query], LEAST), atol=1e-3)
        # The student itself is moved so that its mean is what is believed, but for the doubt that always meets it.
        moved = with_regions(pool[owner == query], logits[owner == query], regions, 1.0)
        assert np.allclose(moved.mean(axis=0), believed[query], atol=0.01)
    assert np.allclose(with_regions(pool, logits, (), 0.3), softmax(logits))


def test_odds_are_the_students_to_the_power_of_the_slope() -> None:
    pool, _, table = apart(counted=np.ones(6))
    logits = RNG.normal(size=(60, 3)).astype(np.float32)
    regions = regions_of(pool, np.ones(4), softmax(logits), [table])
    own, around, both = (np.log(with_regions(pool, logits, regions, slope)) for slope in (1.0, 0.0, 0.4))
    odds = [one - one[:, :1] for one in (own, around, both)]
    assert np.allclose(odds[2], 0.4 * odds[0] + 0.6 * odds[1])


def test_between_two_queries_shares_change_softly_and_means_stay() -> None:
    """Two halves of one cloud: at their border both count alike, and over each half the mean is what was released."""
    rng = np.random.default_rng(3)
    pool = rng.normal(size=(4_000, 1)).astype(np.float32)
    owner = (pool[:, 0] > 0).astype(np.int64)
    wanted = np.array([[0.8, 0.2], [0.3, 0.7]])
    table = replace(table_of(wanted, votes=1e8, std=1e-3), mean=mean_over(owner, 2))
    nothing = np.zeros((4_000, 2), dtype=np.float32)
    regions = regions_of(pool, np.ones(1), softmax(nothing), [table])
    _, at = regions[0].around(np.array([[-3.0], [-0.1], [0.1], [3.0]], dtype=np.float32))
    assert (np.diff(at[:, 1]) > 0).all() and at[1, 0] - at[2, 0] < 0.15 < at[0, 0] - at[1, 0]
    _, shares = regions[0].around(pool)
    assert np.allclose(table.mean @ shares, wanted, atol=0.02)


def test_queries_of_one_sample_each_are_regions_too() -> None:
    pool = RNG.normal(size=(8, 3)).astype(np.float32)
    table = table_of(RNG.dirichlet(np.ones(2), size=8), votes=1e6, std=1e-3)
    for one in (pool, np.zeros_like(pool)):  # the second: all samples are the same
        regions = regions_of(one, np.ones(3), np.full((8, 2), 0.5, dtype=np.float32), [table])
        found = with_regions(one, np.zeros((8, 2), dtype=np.float32), regions, 0.5)
        assert np.isfinite(found).all() and np.allclose(found.sum(axis=1), 1)
    assert np.allclose(regions[0].near(one), 1 / 8)


def surprise(student: TableStudent, samples: Floats, labels: Ints) -> float:
    """Mean log-loss."""
    return float(-np.log(student.predict_proba(samples)[np.arange(len(labels)), labels]).mean())


def test_regions_mend_a_student_that_misfits() -> None:
    """Classes of several bell curves each: a line predicts queries well on average, and their samples badly."""
    rng = np.random.default_rng(0)
    centres = 1.5 * rng.normal(size=(5, 4, 6))
    labels = [rng.integers(5, size=size) for size in (2_000, 12_000, 3_000)]
    pool, records, test = (
        (centres[one, rng.integers(4, size=len(one))] + rng.normal(size=(len(one), 6))).astype(np.float32)
        for one in labels
    )
    queries = KMeansQueries(num_queries=120, seed=0).ask(pool)
    votes = cast_votes(records, labels[1], queries.vectors, Ballot(num_queries=120, num_classes=5))
    protocol = CentralLaplace(ballot=votes.ballot, epsilon=Fraction(1))
    release = protocol.server([protocol.client(votes, SeededNoise(0))], SeededNoise(0))
    graph = query_graph(pool, queries.vectors)
    learnt = learn_from_counts(
        pool, [Asked(release=release, owner=queries.owner, graph=graph, num_records=len(records))]
    )
    student = learnt.student
    alone = TableStudent(student.coefficients, student.scaler, student.shift)
    assert learnt.slope < 0.8
    assert surprise(student, test, labels[2]) < surprise(alone, test, labels[2]) - 0.2
    assert student.score(test, labels[2]) > alone.score(test, labels[2]) + 0.1
