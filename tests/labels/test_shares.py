"""How many records vote at a query, and whether classes lie apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.labels.simulated import tally_of

from recordwise.errors import InvalidInput
from recordwise.labels import decode
from recordwise.labels.shares import contrast, turnout, voters_at
from recordwise.privacy.noise import DiscreteLaplace, Law, Normal, SeededNoise
from recordwise.protocols.release import Tally


def noisy(counts: object, epsilon: str, seed: int = 0) -> Tally:
    law = DiscreteLaplace(2 / Fraction(epsilon))
    exact = np.asarray(counts)
    return tally_of(exact + law.sample(exact.shape, SeededNoise(seed)), law)


def test_abstaining_records_are_seen_in_the_sums() -> None:
    rng = np.random.default_rng(0)
    sizes = np.full(60, 100)
    rates = np.where(np.arange(60) < 20, 30.0, 100.0)  # in a third of the queries seven of ten abstain
    counts = rng.poisson(rates[:, None] * [0.9, 0.1])
    found = turnout(noisy(counts, "1"), sizes, num_records=6_000)
    off = np.abs(found.rates - counts.sum(axis=1)).mean()
    assert off < 5 < 20 < np.abs(100 - counts.sum(axis=1)).mean()  # and not the pool's share
    assert found.spread > 0


def test_loud_noise_leaves_the_share_of_the_pool() -> None:
    sizes = np.arange(1, 41) * 5
    counts = np.random.default_rng(0).poisson(sizes[:, None] * [0.3, 0.7])
    found = turnout(noisy(counts, "0.01"), sizes, num_records=int(sizes.sum()))
    assert found.spread == 0
    assert found.rates == pytest.approx(found.voting * sizes, rel=0.1)


def test_the_number_of_records_may_be_unknown() -> None:
    sizes = np.full(50, 40)
    counts = np.random.default_rng(0).poisson(sizes[:, None] * [0.5, 0.5])
    found = turnout(noisy(counts, "0.5"), sizes)
    assert found.voting == 1
    assert found.rates.sum() == pytest.approx(2_000, rel=0.1)


def test_unseen_rows_change_nothing() -> None:
    sizes = np.full(30, 50)
    tally = noisy(np.random.default_rng(0).poisson(np.full((30, 3), 10)), "1")
    seen = np.arange(30) % 3 > 0
    other = tally.estimate.copy()
    other[~seen] = 1_000
    before = turnout(tally, sizes, num_records=900, seen=seen)
    after = turnout(tally_of(other, tally.law), sizes, num_records=900, seen=seen)
    assert (before.rates == after.rates).all()


def test_missing_votes_are_not_read_as_the_other_class() -> None:
    """2448 : 0 at a query where the pool promises far more: with pool shares the decoder doubts the only class seen."""
    counts = np.array([[2448, 0], [900, 300], [5000, 10], [40, 700]])
    sizes = np.array([9_000, 1_200, 5_000, 800])
    tally = noisy(counts, "1")
    rates = turnout(tally, sizes, num_records=12_000).rates
    labels = decode(tally, sizes=rates, graph=None, num_records=round(rates.sum()))
    assert labels.probabilities[0, 0] > 0.95
    blind = decode(tally, sizes=sizes, graph=None, num_records=12_000)
    assert blind.probabilities[0, 0] < labels.probabilities[0, 0] - 0.2


def test_classes_that_lie_apart_are_told_from_those_that_do_not() -> None:
    rng = np.random.default_rng(0)
    rates = np.full(80, 60.0)
    alike = noisy(rng.poisson(rates[:, None] * [0.5, 0.3, 0.2]), "1")
    apart = noisy(rng.poisson(rates[:, None] * np.eye(3)[np.arange(80) % 3]), "1")
    nothing, everything = contrast(alike, rates), contrast(apart, rates)
    assert not nothing.separates and nothing.explained < 0.05
    assert everything.separates and everything.explained > 0.9


def test_queries_of_other_sizes_do_not_look_like_classes_that_lie_apart() -> None:
    rates = np.geomspace(5, 500, 80)
    alike = noisy(np.random.default_rng(1).poisson(rates[:, None] * [0.8, 0.2]), "1")
    assert not contrast(alike, np.full(80, rates.mean())).separates or contrast(alike, rates).explained < 0.05


def test_what_queries_lean_to_and_what_neighbours_share_is_seen_through_loud_noise() -> None:
    """Forty votes a query beside noise of deviation 14; noise is replayed."""
    rates, graph = np.full(30, 40.0), np.exp(-np.abs(np.subtract.outer(np.arange(30), np.arange(30))) / 2.0)
    rng, apart, alike = np.random.default_rng(0), 0, 0
    for seed in range(6):
        leaning = 0.2 / 10 + 0.8 * np.eye(10)[np.arange(30) // 3]
        apart += contrast(noisy(rng.poisson(rates[:, None] * leaning), "0.2", seed), rates, graph).separates
        alike += contrast(noisy(rng.poisson(np.full((30, 10), 4.0)), "0.2", seed + 100), rates, graph).separates
    assert apart == 6 and alike <= 1


def test_what_does_not_fit_is_refused() -> None:
    tally = noisy(np.ones((4, 2), dtype=int), "1")
    with pytest.raises(InvalidInput, match="sizes must be those of the 4 queries"):
        turnout(tally, np.ones(3))
    with pytest.raises(InvalidInput, match="rates must be those of the 4 queries"):
        contrast(tally, np.ones(3))
    for rate in (-1.0, 1e20, float("inf"), float("nan")):
        with pytest.raises(InvalidInput, match=r"^rates must lie in \[0, 2\^62\], got "):
            contrast(tally, np.full(4, rate))
    with pytest.raises(InvalidInput, match=r"^graph must have shape \(4, 4\), got \(3, 3\)$"):
        contrast(tally, np.ones(4), np.ones((3, 3)))


def test_what_nobody_has_or_nobody_owns_is_refused_in_one_line() -> None:
    tally = noisy(np.full((4, 2), 9), "1")
    for refused in (turnout, decode):
        more = {} if refused is turnout else {"graph": None}
        with pytest.raises(InvalidInput, match=r"^sizes must be [^\n]* not all zero, got [^\n]*a sum of 0$"):
            refused(tally, sizes=np.zeros(4), **more)
        with pytest.raises(
            InvalidInput, match=r"^num_records must be a whole number <= 1,099,511,627,776, got [0-9]+$"
        ):
            refused(tally, sizes=np.ones(4), num_records=10**15, **more)


@pytest.mark.parametrize("cell", [1e15, -1e17])
def test_a_damaged_tally_is_refused_by_whoever_reads_it(cell: float) -> None:
    damaged = tally_of(np.where(np.eye(4, 2), cell, 9.0), DiscreteLaplace(2))
    with pytest.raises(InvalidInput, match="estimate must be votes of at most"):
        turnout(damaged, np.ones(4))
    with pytest.raises(InvalidInput, match="estimate must be votes of at most"):
        contrast(damaged, np.ones(4))


@pytest.mark.parametrize("num_records", [None, 1, 10**9, 2**40])
@pytest.mark.parametrize("law", [DiscreteLaplace(2), DiscreteLaplace(2**40), Normal(1e-300), Normal(1e30)], ids=repr)
def test_any_noise_and_any_number_of_records_leave_numbers(num_records: int | None, law: Law) -> None:
    """Noise alone may sum to more votes than anybody has records; and be too small for a float's square."""
    tally = tally_of(np.arange(8.0).reshape(4, 2) + np.round(3 * law.std), law)
    found = turnout(tally, np.arange(4), num_records=num_records)
    assert np.isfinite(found.rates).all() and (found.rates > 0).all()
    apart = contrast(tally, found.rates)
    assert 0 <= apart.explained <= 1 and 0 < apart.chance <= 1
    sizes, voters = voters_at(tally, np.arange(4), num_records)
    for decoder in tally.decoders:
        labels = decode(tally, sizes=sizes, graph=None, num_records=voters, decoder=decoder)
        np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1)
        labels = decode(tally, sizes=np.arange(4), graph=None, num_records=num_records, decoder=decoder)
        np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1)
