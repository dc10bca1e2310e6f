"""Local privacy beyond the contract that every protocol keeps (`tests/protocols/test_contract.py`)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from exact_laws import Law, every_vote, exact_law, largest_ratio

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.local.channel import Channel
from recordwise.votes.ballot import Ballot

ROUNDING = 1 + 1e-12  # probabilities are added as fractions within 2^-200 of the truth

ONE_VOTE = Ballot(num_queries=2, num_classes=2)
TWO_QUERIES = Ballot(num_queries=3, num_classes=2, votes_per_record=2)
TWO_BY_TWO = Ballot(num_queries=2, num_classes=2, votes_per_record=2, labels_per_record=2)


def test_collision_is_private_for_every_hash_function() -> None:
    """Every way four points can fall into four buckets, not only those of keys that happened to be drawn."""
    channel = Channel(domain=4, capacity=2, epsilon=Fraction(1), buckets=4, independence=3)

    @cache
    def law_given(hits: tuple[int, ...]) -> Law:  # a point is hashed to itself here: the points are the buckets hit
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(channel.family), "draw", lambda *_: np.zeros((1, 3), np.int64))
            patch.setattr(type(channel.family), "apply", lambda _, keys, at: at)
            return exact_law(lambda walk: channel.randomize(np.array([hits]), walk)[0, -1])

    sets = [(a, b) for a in range(-1, 4) for b in range(-1, 4) if a == -1 or a != b]
    for table in itertools.product(range(4), repeat=4):
        laws = [law_given(tuple(-1 if point == -1 else table[point] for point in points)) for points in sets]
        assert largest_ratio(laws) <= math.e * ROUNDING
    assert largest_ratio([law_given((0, 1)), law_given((2, 3))]) == pytest.approx(math.e, rel=1e-12)


def test_collision_refuses_more_votes_than_it_was_built_for() -> None:
    channel = Channel(domain=4, capacity=1, epsilon=Fraction(1), buckets=4, independence=2)
    with pytest.raises(InvalidInput, match="at most c = 1 points, got 2"):
        channel.randomize(np.array([[0, 1]]), SystemNoise())


@pytest.mark.parametrize("buckets", [1, 2])
def test_collision_refuses_too_few_buckets(buckets: int) -> None:
    with pytest.raises(InvalidInput, match=r"l must be at least c \+ 1 = 3 buckets"):
        Channel(domain=4, capacity=2, epsilon=Fraction(1), buckets=buckets, independence=3)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_an_epsilon_that_promises_nothing_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput):
        Collision(ballot=ONE_VOTE, epsilon=epsilon)  # type: ignore[arg-type]


def test_an_abstaining_record_sends_a_message_like_any_other() -> None:
    for kind in (RandomizedResponse, UnaryEncoding, Collision, SubsetSelection, Separation, Concatenation):
        mechanism = kind(ballot=ONE_VOTE, epsilon=Fraction(1))
        nothing = next(every_vote(ONE_VOTE))
        bodies = mechanism.client(nothing, SystemNoise()).bodies
        assert bodies.shape == (1, mechanism.message_size)
        mechanism.check(bodies)


def test_the_guarantee_says_local_pure_and_record() -> None:
    sentence = str(Collision(ballot=ONE_VOTE, epsilon=Fraction(2, 5)).guarantee)
    assert sentence.startswith("Pure differential privacy, local trust: replacing any one record")
    assert "e^0.4" in sentence
