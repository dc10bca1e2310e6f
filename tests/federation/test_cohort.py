"""Simulated cohorts have the law of real devices' messages."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from recordwise.errors import InvalidInput
from recordwise.federation.cohort import simulate_cohort
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import (
    Collision,
    LocalMechanism,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.votes.ballot import Ballot, Votes

FALSE_FAILURE = 1e-9
BALLOT = Ballot(num_queries=2, num_classes=2)
COUNTS = np.array([[7, 1], [0, 4]])
DRAWS = 800


def real(protocol: LocalMechanism | DistributedLaplace | ShuffleMulti, seed: int) -> np.ndarray:
    """The tally of real messages, one client per device."""
    noise = SeededNoise(seed)
    cells = np.repeat(np.arange(4), COUNTS.ravel())
    messages = [
        protocol.client(Votes(BALLOT, np.array([[cell // 2]], np.int32), np.array([[cell % 2]], np.int32)), noise)
        for cell in cells
    ]
    return protocol.server(messages, noise).estimate


def same_law(one: np.ndarray, other: np.ndarray) -> float:
    """p-value of two samples of one number having the same law, by their frequencies in ten equal parts."""
    cuts = np.unique(np.quantile(np.concatenate([one, other]), np.linspace(0, 1, 11)[1:-1]))
    table = np.array([np.bincount(np.searchsorted(cuts, part), minlength=len(cuts) + 1) for part in (one, other)])
    return float(chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


@pytest.mark.parametrize("kind", [RandomizedResponse, UnaryEncoding])
def test_binomial_cohorts_have_the_law_of_messages(kind: type[LocalMechanism]) -> None:
    protocol = kind(ballot=BALLOT, epsilon=Fraction(1))
    cells = np.repeat(np.arange(4), COUNTS.ravel())
    votes = Votes(BALLOT, (cells // 2).astype(np.int32)[:, None], (cells % 2).astype(np.int32)[:, None])
    messages = np.array(
        [protocol.server([protocol.client(votes, SeededNoise(s))], SeededNoise(s)).estimate for s in range(DRAWS)]
    )
    simulated = np.array([simulate_cohort(protocol, COUNTS, seed=s).estimate for s in range(DRAWS)])
    broken = np.array([simulate_cohort(protocol, COUNTS[::-1].copy(), seed=s).estimate for s in range(DRAWS)])
    for cell in np.ndindex(2, 2):
        assert same_law(messages[:, *cell], simulated[:, *cell]) > FALSE_FAILURE
    assert same_law(messages[:, 0, 0], broken[:, 0, 0]) < FALSE_FAILURE
    # Cells are independent in both: sums over cells agree too.
    assert same_law(messages.sum(axis=(1, 2)), simulated.sum(axis=(1, 2))) > FALSE_FAILURE


@pytest.mark.parametrize("kind", [Collision, SubsetSelection])
def test_other_cohorts_are_made_of_the_devices_own_messages(kind: type[LocalMechanism]) -> None:
    protocol = kind(ballot=BALLOT, epsilon=Fraction(1))
    simulated = np.array([simulate_cohort(protocol, COUNTS, seed=s).estimate for s in range(250)])
    one_by_one = np.array([real(protocol, 10_000 + s) for s in range(250)])
    for cell in np.ndindex(2, 2):
        assert same_law(simulated[:, *cell], one_by_one[:, *cell]) > FALSE_FAILURE


@pytest.mark.parametrize(
    "protocol",
    [
        DistributedLaplace(ballot=BALLOT, epsilon=Fraction(1), survivors=8, parties=20, largest_count=12),
        ShuffleMulti(ballot=BALLOT, epsilon=Fraction(2), delta=Fraction(1, 100), senders=12),
    ],
)
def test_cohorts_that_share_noise_have_the_law_of_its_sum(protocol: DistributedLaplace | ShuffleMulti) -> None:
    simulated = np.array([simulate_cohort(protocol, COUNTS, seed=s).estimate for s in range(250)])
    one_by_one = np.array([real(protocol, 10_000 + s) for s in range(250)])
    for cell in np.ndindex(2, 2):
        assert same_law(simulated[:, *cell], one_by_one[:, *cell]) > FALSE_FAILURE


def test_a_shuffled_cohort_is_a_local_one_with_the_shuffled_guarantee() -> None:
    protocol = ShuffleSingle(
        ballot=BALLOT, epsilon=Fraction(4), delta=Fraction(1, 100), senders=12, mechanism="randomized-response"
    )
    tally = simulate_cohort(protocol, COUNTS, seed=3)
    assert np.array_equal(tally.estimate, simulate_cohort(protocol.local, COUNTS, seed=3).estimate)
    assert tally.guarantee.honest_parties == 12
    with pytest.raises(InvalidInput, match="as planned, got 11"):
        simulate_cohort(protocol, COUNTS - np.array([[1, 0], [0, 0]]), seed=3)


def test_a_simulated_tally_is_never_called_private() -> None:
    for kind in (UnaryEncoding, Collision):
        tally = simulate_cohort(kind(ballot=BALLOT, epsilon=Fraction(1)), COUNTS, seed=0)
        assert not tally.guarantee.private
        assert tally.law.messages == 12  # type: ignore[union-attr]


def test_fifty_million_devices_take_no_longer_than_a_few() -> None:
    """The error, in standard deviations of the known law, stays below what a chance of 1e-9 allows."""
    ballot = Ballot(num_queries=10, num_classes=10)
    protocol = UnaryEncoding(ballot=ballot, epsilon=Fraction(1, 2))
    counts = np.full((10, 10), 500_000)
    tally = simulate_cohort(protocol, counts, seed=0)
    error = float(np.abs(tally.estimate - counts).max())
    assert 100 * tally.law.two_sided_tail(error) > FALSE_FAILURE
    assert error > tally.noise_std / 2  # there is noise


@pytest.mark.parametrize(
    ("protocol", "counts", "rule"),
    [
        (CentralLaplace(ballot=BALLOT, epsilon=Fraction(1)), COUNTS, "local, shuffled or distributed"),
        (UnaryEncoding(ballot=BALLOT, epsilon=Fraction(1)), COUNTS[:1], r"\(2, 2\)"),
        (UnaryEncoding(ballot=BALLOT, epsilon=Fraction(1)), 0 * COUNTS, "not all zero"),
        (Collision(ballot=BALLOT, epsilon=Fraction(1)), -COUNTS, ">= 0"),
        (
            UnaryEncoding(ballot=Ballot(num_queries=2, num_classes=2, votes_per_record=2), epsilon=Fraction(1)),
            COUNTS,
            "must be 1",
        ),
        (
            DistributedLaplace(
                ballot=BALLOT, epsilon=Fraction(1), survivors=20, parties=30, largest_count=9, colluding=0
            ),
            COUNTS,
            "20 to 30 devices",
        ),
    ],
)
def test_impossible_cohorts_are_refused(protocol: Any, counts: np.ndarray, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        simulate_cohort(protocol, counts, seed=0)
