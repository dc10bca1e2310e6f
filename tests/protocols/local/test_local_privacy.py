"""Exact privacy of every local mechanism: all votes, all messages, the probabilities of the code that runs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from local_coins import Law, every_vote, exact_law, largest_ratio, message_law

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import Real, SystemNoise, exp
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    LocalMechanism,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.local.channel import Channel
from recordwise.protocols.local.indicator import Indicator
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot

ROUNDING = 1 + 1e-12  # probabilities are added as fractions within 2^-200 of the truth

ONE_VOTE = Ballot(num_queries=2, num_classes=2)
TWO_QUERIES = Ballot(num_queries=3, num_classes=2, votes_per_record=2)
TWO_BY_TWO = Ballot(num_queries=2, num_classes=2, votes_per_record=2, labels_per_record=2)


def worst_over_keys(mechanism: LocalMechanism, keys_per_message: int, tries: int) -> float:
    """The largest ratio over all pairs of votes, all messages and many hash functions.

    Privacy must hold for every single hash function, so each key is judged on its own.
    """
    channels = mechanism.channels if isinstance(mechanism, Separation) else (mechanism.channel,)  # type: ignore[attr-defined]
    rng = seeded(1, "keys")
    worst = 0.0
    for _ in range(tries):
        keys = [rng.integers(0, c.family.prime, (1, c.independence)) for c in channels]
        assert len(keys) == keys_per_message
        laws = [message_law(mechanism, votes, keys) for votes in every_vote(mechanism.ballot)]
        assert all(sum(law.values()) == 1 for law in laws)
        worst = max(worst, largest_ratio(laws))
    return worst


@pytest.mark.parametrize("epsilon", ["1/2", "2"])
@pytest.mark.parametrize(
    ("kind", "ballot"),
    [
        (RandomizedResponse, ONE_VOTE),
        (RandomizedResponse, TWO_BY_TWO),
        (UnaryEncoding, ONE_VOTE),
        (UnaryEncoding, Ballot(num_queries=4, num_classes=1, votes_per_record=2)),
        (SubsetSelection, ONE_VOTE),
        (SubsetSelection, Ballot(num_queries=5, num_classes=1)),
    ],
)
def test_bit_messages_are_private_and_waste_nothing(kind: type[LocalMechanism], ballot: Ballot, epsilon: str) -> None:
    mechanism = kind(ballot=ballot, epsilon=Fraction(epsilon))
    laws = [
        exact_law(lambda votes=votes: mechanism.randomize(votes, None).tobytes())  # type: ignore[misc]
        for votes in every_vote(ballot)
    ]
    bound = math.exp(mechanism.epsilon)
    if ballot is TWO_BY_TWO:  # two full vote sets on four cells cannot be disjoint, so the worst case is not reached
        assert largest_ratio(laws) <= bound * ROUNDING
    else:
        assert 0.99 * bound <= largest_ratio(laws) <= bound * ROUNDING


@pytest.mark.parametrize("epsilon", ["1/2", "3/2"])
@pytest.mark.parametrize(
    ("kind", "ballot", "keys", "tries"),
    [
        (Collision, ONE_VOTE, 1, 12),
        (Collision, TWO_QUERIES, 1, 8),
        (Collision, TWO_BY_TWO, 1, 3),
        (Separation, ONE_VOTE, 2, 8),
        (Concatenation, ONE_VOTE, 1, 12),
    ],
)
def test_hashed_messages_are_private_and_waste_nothing(
    kind: type[LocalMechanism], ballot: Ballot, keys: int, tries: int, epsilon: str
) -> None:
    mechanism = kind(ballot=ballot, epsilon=Fraction(epsilon))
    worst = worst_over_keys(mechanism, keys, tries)
    assert worst <= math.exp(mechanism.epsilon) * ROUNDING
    if ballot is not TWO_BY_TWO:  # four votes on four cells: no two full vote sets are disjoint
        assert worst >= 0.99 * math.exp(mechanism.epsilon)


def test_collision_is_private_for_every_hash_function() -> None:
    """Every way four points can fall into four buckets, not only those of keys that happened to be drawn."""
    channel = Channel(domain=4, capacity=2, epsilon=Fraction(1), buckets=4, independence=3)

    @cache
    def law_given(hits: tuple[int, ...]) -> Law:  # a point is hashed to itself here: the points are the buckets hit
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(channel.family), "draw", lambda *_: np.zeros((1, 3), np.int64))
            patch.setattr(type(channel.family), "apply", lambda _, keys, at: at)
            return exact_law(lambda: channel.randomize(np.array([hits]), None)[0, -1])  # type: ignore[arg-type]

    sets = [(a, b) for a in range(-1, 4) for b in range(-1, 4) if a == -1 or a != b]
    for table in itertools.product(range(4), repeat=4):
        laws = [law_given(tuple(-1 if point == -1 else table[point] for point in points)) for points in sets]
        assert largest_ratio(laws) <= math.e * ROUNDING
    assert largest_ratio([law_given((0, 1)), law_given((2, 3))]) == pytest.approx(math.e, rel=1e-12)


def test_randomized_response_without_the_factor_two_is_caught() -> None:
    class Broken(RandomizedResponse):
        @property
        def indicator(self) -> Indicator:  # type: ignore[override]
            kept = exp(self.epsilon / self.ballot.cells_per_record)
            return Indicator(hit=kept / (kept + 1), miss=1 / (kept + 1))

    mechanism = Broken(ballot=ONE_VOTE, epsilon=Fraction(1))
    laws = [
        exact_law(lambda votes=votes: mechanism.randomize(votes, None).tobytes())  # type: ignore[misc]
        for votes in every_vote(ONE_VOTE)
    ]
    assert largest_ratio(laws) == pytest.approx(math.exp(2))


def test_collision_refuses_more_votes_than_it_was_built_for() -> None:
    channel = Channel(domain=4, capacity=1, epsilon=Fraction(1), buckets=4, independence=2)
    with pytest.raises(InvalidInput, match="at most c = 1 points, got 2"):
        channel.randomize(np.array([[0, 1]]), SystemNoise())


def test_collision_with_too_many_votes_is_caught() -> None:
    """Two votes reported with the probabilities for one: e^eps / Omega each, where Omega = e^eps + l - 1."""

    class Careless(Channel):
        @property
        def hot(self) -> Real:  # type: ignore[override]
            return 2 * exp(self.epsilon) / (exp(self.epsilon) + (self.buckets - 1))

    careless = Careless(domain=4, capacity=2, epsilon=Fraction(1), buckets=4, independence=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(careless.family), "draw", lambda *_: np.zeros((1, 3), np.int64))
        patch.setattr(type(careless.family), "apply", lambda _, keys, at: at)
        laws = [exact_law(lambda p=p: careless.randomize(np.array([p]), None)[0, -1]) for p in ((0, 1), (2, 3))]  # type: ignore
    assert largest_ratio(laws) > 5 * math.e


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
