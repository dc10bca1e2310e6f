"""Accuracy bounds cover what they bound."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from experiments.printed import cell_failure
from hypothesis import given, settings
from hypothesis import strategies as st

from recordwise.labels import accuracy
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    LocalMechanism,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.local.indicator import Indicator
from recordwise.votes.ballot import Ballot, Votes

ROUNDING = 1e-9


def indicator(mechanism: LocalMechanism) -> Indicator:
    return mechanism.channel.indicator if isinstance(mechanism, Collision) else mechanism.indicator  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from([RandomizedResponse, UnaryEncoding, Collision, SubsetSelection]),
    epsilon=st.fractions(Fraction(1, 10), 8, max_denominator=10),
    records=st.integers(1, 400),
    share=st.floats(0, 1),
    beta=st.floats(0.001, 0.5),
)
def test_the_bound_covers_every_cell_whatever_its_count(
    kind: type[LocalMechanism], epsilon: Fraction, records: int, share: float, beta: float
) -> None:
    """Against the exact law of a cell, which a union over the query's cells then covers too."""
    mechanism = kind(ballot=Ballot(num_queries=8, num_classes=5), epsilon=epsilon)
    alpha = accuracy(mechanism.law(records), mechanism.ballot.num_classes, beta)
    assert cell_failure(indicator(mechanism), records, round(share * records), alpha) <= beta / 5 + ROUNDING


@pytest.mark.parametrize("kind", [Separation, Concatenation])
def test_the_bound_covers_products_too(kind: type[LocalMechanism]) -> None:
    """300 tallies of 40 records at beta = 0.05: more than 40 failures have a probability below 1e-6."""
    ballot = Ballot(num_queries=3, num_classes=3)
    mechanism = kind(ballot=ballot, epsilon=Fraction(3))
    votes = Votes(ballot, np.zeros((40, 1), np.int32), np.zeros((40, 1), np.int32))
    noise = SeededNoise(5)
    alpha = accuracy(mechanism.law(40), mechanism.ballot.num_classes, 0.05)
    failures = 0
    for _ in range(300):
        tally = mechanism.server([mechanism.client(votes, noise)], noise)
        failures += int(np.abs(tally.estimate[0] - votes.counts()[0]).max() > alpha)
    assert failures <= 40


def test_the_bound_is_of_the_order_of_the_noise() -> None:
    mechanism = Collision(ballot=Ballot(num_queries=10, num_classes=10), epsilon=Fraction(2, 5))
    assert accuracy(mechanism.law(30_000), mechanism.ballot.num_classes, 0.05) < 4 * mechanism.noise_std(30_000)


def test_a_law_bounds_a_binomial_s_tails_and_is_not_wild() -> None:
    mechanism = RandomizedResponse(ballot=Ballot(num_queries=2, num_classes=2), epsilon=Fraction(1))
    law = mechanism.law(500)
    for z in (0.5, 1, 2, 3, 4):
        exact = cell_failure(mechanism.indicator, 500, 0, z * law.std)
        assert exact <= law.two_sided_tail(z * law.std) <= max(1, 40 * exact)
    assert law.two_sided_tail(0) == 1
    assert law.two_sided_tail(-1) == 1
    assert law.two_sided_tail(500 * 100) == 0
    assert law.log_likelihood([0.0])[0] > law.log_likelihood([law.std])[0]
