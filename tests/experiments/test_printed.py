"""The paper's printed bounds do not always hold; ours do in the same places."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from experiments.printed import cell_failure, printed_theorem_1, printed_theorem_2

from recordwise.labels import accuracy
from recordwise.protocols.local import Collision, RandomizedResponse
from recordwise.protocols.local.channel import Channel
from recordwise.protocols.local.indicator import Indicator
from recordwise.votes.ballot import Ballot


def all_cells_hold(flip: Indicator, records: int, alpha: float, classes: int) -> float:
    """Failure of a query without votes; the bits of randomized response are independent."""
    return 1 - (1 - cell_failure(flip, records, 0, alpha)) ** classes


@pytest.mark.parametrize(("records", "beta", "failure"), [(10, 0.05, 0.125), (5, 0.01, 0.031), (20, 0.05, 0.0515)])
def test_printed_theorem_1_fails(records: int, beta: float, failure: float) -> None:
    ballot = Ballot(num_queries=20, num_classes=10)
    mechanism = RandomizedResponse(ballot=ballot, epsilon=Fraction(8))
    printed = printed_theorem_1(ballot, 8, records, beta)
    assert all_cells_hold(mechanism.indicator, records, printed, 10) == pytest.approx(failure, rel=0.02)
    assert failure > beta
    ours = accuracy(mechanism.law(records), 10, beta)
    assert all_cells_hold(mechanism.indicator, records, ours, 10) <= beta


@pytest.mark.parametrize(("epsilon", "k", "records"), [(3, 1, 1000), (2, 4, 1000), (6, 4, 3000)])
def test_printed_theorem_2_fails(epsilon: int, k: int, records: int) -> None:
    """On a cell that everyone votes for, with the whole number of buckets next to the theorem's own."""
    ballot = Ballot(num_queries=20, num_classes=10, votes_per_record=k)
    buckets = round(2 * k - 1 + k * math.exp(epsilon))
    channel = Channel(domain=200, capacity=k, epsilon=Fraction(epsilon), buckets=buckets, independence=k + 1)
    printed = printed_theorem_2(ballot, epsilon, records, 0.01)
    assert cell_failure(channel.indicator, records, records, printed) > 0.02
    mechanism = Collision(ballot=ballot, epsilon=Fraction(epsilon))
    honest = accuracy(mechanism.law(records), mechanism.ballot.num_classes, 0.01)
    assert cell_failure(mechanism.channel.indicator, records, records, honest) <= 0.001
