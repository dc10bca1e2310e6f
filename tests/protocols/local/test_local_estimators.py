"""Estimates are unbiased and vary as their formulas say: exactly where every outcome can be listed, else by trial."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from exact_laws import Law, every_vote, exact_law
from hypothesis import given
from hypothesis import strategies as st

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.local import (
    Answers,
    Collision,
    Concatenation,
    Engine,
    LocalMechanism,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.local.channel import Channel, collision_buckets, collision_variance
from recordwise.protocols.local.hashing import HashFamily
from recordwise.votes.ballot import NOBODY, Ballot, Votes

FALSE_FAILURE = 1e-9
TINY = 1e-9  # rounding in sums of a few thousand floats

KINDS = (RandomizedResponse, UnaryEncoding, Collision, SubsetSelection, Separation, Concatenation)


class SmallField(HashFamily):
    """The same family over five elements, so that every key can be listed."""

    prime = 5  # type: ignore[assignment]


def small_channel(buckets: int, independence: int, capacity: int = 2) -> Channel:
    channel = Channel(
        domain=5, capacity=capacity, epsilon=Fraction(1), buckets=buckets, independence=max(independence, capacity + 1)
    )
    object.__setattr__(channel, "family", SmallField(domain=5, buckets=buckets, independence=independence))
    return channel


def outcomes(channel: Channel, points: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every key, every report, and the probability of both together, as the client's own code makes them."""

    @cache
    def report_given(hits: tuple[int, ...]) -> Law:  # points stand for the buckets they are hashed to
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SmallField, "draw", lambda family, *_: np.zeros((1, family.independence), np.int64))
            patch.setattr(SmallField, "apply", lambda _, keys, at: at)
            return exact_law(lambda walk: int(channel.randomize(np.array([hits]), walk)[0, -1]))

    family = channel.family
    keys = np.array(list(itertools.product(range(family.prime), repeat=family.independence)))
    hits = family.apply(keys, np.array([points])) if points else np.full((len(keys), 1), NOBODY)
    chances = np.zeros((len(keys), channel.buckets))
    for row, hit in enumerate(hits.tolist()):
        for bucket, chance in report_given(tuple(hit)).items():
            chances[row, bucket] = chance / len(keys)
    rows, buckets = np.nonzero(np.ones_like(chances))
    return keys[rows], buckets, chances.ravel()


def centred(channel: Channel, keys: np.ndarray, buckets: np.ndarray) -> np.ndarray:
    """(domain, outcomes) the decoder's [H(v) = z] - size(z)/prime, over the gap, written out by itself."""
    family = channel.family
    hits = family.apply(keys, np.arange(family.domain)[None]) == buckets[:, None]
    return ((hits - (family.size(buckets) / family.prime)[:, None]) / channel.indicator.gap).T


@pytest.mark.parametrize("points", [(), (2,), (0, 1), (1, 3)])
def test_collision_is_exactly_unbiased_when_buckets_are_even(points: tuple[int, ...]) -> None:
    channel = small_channel(buckets=5, independence=3)
    keys, buckets, chances = outcomes(channel, points)
    estimate = centred(channel, keys, buckets)
    for point in range(5):
        mean = estimate[point] @ chances
        assert mean == pytest.approx(float(point in points), abs=TINY)
        assert estimate[point] ** 2 @ chances - mean**2 == pytest.approx(
            channel.indicator.variance(voted=point in points), rel=TINY
        )


@pytest.mark.parametrize("points", [(), (2,), (0, 1), (1, 3)])
def test_uneven_buckets_leave_no_bias_on_other_cells_and_little_on_the_record_s_own(points: tuple[int, ...]) -> None:
    channel = small_channel(buckets=4, independence=3)
    keys, buckets, chances = outcomes(channel, points)
    means = centred(channel, keys, buckets) @ chances
    for point in range(5):
        if point in points:
            assert abs(means[point] - 1) <= 4 / (5**2 * channel.indicator.gap)
        else:
            assert abs(means[point]) < TINY


def test_pairwise_independence_is_not_enough_for_two_votes() -> None:
    channel = small_channel(buckets=4, independence=2)
    keys, buckets, chances = outcomes(channel, (0, 1))
    means = centred(channel, keys, buckets) @ chances
    assert max(abs(means[[2, 3, 4]])) > 0.01
    one_vote = small_channel(buckets=4, independence=2, capacity=1)
    keys, buckets, chances = outcomes(one_vote, (1,))
    assert max(abs((centred(one_vote, keys, buckets) @ chances)[[0, 2, 3, 4]])) < TINY  # for one it is


def test_a_channel_refuses_hashes_that_are_not_independent_enough() -> None:
    with pytest.raises(InvalidInput, match="3-wise independent, got 2"):
        Channel(domain=5, capacity=2, epsilon=Fraction(1), buckets=4, independence=2)


@pytest.mark.parametrize(("queried", "labelled"), [*itertools.product((False, True), repeat=2)])
def test_concatenation_s_product_points_away_from_the_truth_until_repaired(queried: bool, labelled: bool) -> None:
    """Points 0 to 2 are queries, 3 and 4 classes; the record votes for query 1 and class 3."""
    mechanism = Concatenation(ballot=Ballot(num_queries=3, num_classes=2), epsilon=Fraction(1))
    channel = small_channel(buckets=5, independence=4)
    object.__setattr__(mechanism, "channel", channel)
    keys, buckets, chances = outcomes(channel, (1, 3))
    estimate = centred(channel, keys, buckets)
    product = estimate[1 if queried else 0] * estimate[3 if labelled else 4]
    p, q = float(channel.indicator.hit), float(channel.indicator.miss)
    truth = queried and labelled
    assert product @ chances == pytest.approx(-q / (p - q) if truth else 0, abs=TINY)
    repaired = product / mechanism.raw_mean
    assert repaired @ chances == pytest.approx(float(truth), abs=TINY)
    assert repaired**2 @ chances - truth == pytest.approx(
        mechanism.variance(queried=queried, labelled=labelled), rel=TINY
    )


@pytest.mark.parametrize("epsilon", ["1/2", "2"])
@pytest.mark.parametrize("kind", [RandomizedResponse, UnaryEncoding, SubsetSelection])
def test_bit_messages_are_exactly_unbiased(kind: type[LocalMechanism], epsilon: str) -> None:
    ballot = Ballot(num_queries=2, num_classes=2)
    mechanism = kind(ballot=ballot, epsilon=Fraction(epsilon))
    for votes in every_vote(ballot):
        law = exact_law(lambda walk, votes=votes: mechanism.randomize(votes, walk).tobytes())
        chances = np.array([float(chance) for chance in law.values()])
        estimates = np.array([mechanism.estimate(np.frombuffer(m, np.uint8)[None], Engine.NUMPY).ravel() for m in law])
        truth = votes.counts().ravel()
        assert chances @ estimates == pytest.approx(truth, abs=TINY)
        for cell in range(4):
            assert chances @ (estimates[:, cell] - truth[cell]) ** 2 == pytest.approx(
                mechanism.variance(queried=bool(truth[cell]), labelled=bool(truth[cell])), rel=TINY
            )


def full_votes(ballot: Ballot, count: int) -> Votes:
    queries = np.tile(np.arange(ballot.votes_per_record, dtype=np.int32), (count, 1))
    labels = np.tile(np.arange(ballot.labels_per_record, dtype=np.int32), (count, 1))
    return Votes(ballot, queries, labels)


@pytest.mark.parametrize(
    ("kind", "k", "r"),
    [(kind, k, r) for kind in KINDS for k, r in ((1, 1), (2, 1), (2, 2)) if kind is not SubsetSelection or k * r == 1],
)
def test_tallies_land_on_the_true_counts(kind: type[LocalMechanism], k: int, r: int) -> None:
    """Through clients, bytes and server. A cell is off by more than the bound with probability FALSE_FAILURE."""
    ballot = Ballot(num_queries=5, num_classes=4, votes_per_record=k, labels_per_record=r)
    mechanism = kind(ballot=ballot, epsilon=Fraction(4))
    votes = full_votes(ballot, 30_000)
    tally = mechanism.server([mechanism.client(votes, SystemNoise())], SystemNoise())
    error = np.abs(tally.estimate - votes.counts()).max()
    assert ballot.num_cells * tally.law.two_sided_tail(error) > FALSE_FAILURE
    assert not ballot.num_cells * tally.law.two_sided_tail(error + 0.6 * 30_000) > FALSE_FAILURE  # 60 % off is seen


@pytest.mark.parametrize("kind", KINDS)
def test_errors_vary_as_predicted(kind: type[LocalMechanism]) -> None:
    """Mean square over 400 tallies of 250 records against formula, each kind of cell by itself.

    A ratio of two variances estimated from m normal errors lies within 1 ± t/sqrt(m/2) except with probability
    2 exp(-t²/2); t = 6.6 makes that FALSE_FAILURE. A variance twice too large is then seen.
    """
    k = 1 if kind is SubsetSelection else 2
    ballot = Ballot(num_queries=4, num_classes=3, votes_per_record=k)
    mechanism = kind(ballot=ballot, epsilon=Fraction(3))
    votes = full_votes(ballot, 250)
    noise = SeededNoise(11)
    errors = np.array(
        [mechanism.server([mechanism.client(votes, noise)], noise).estimate - votes.counts() for _ in range(400)]
    )
    tolerance = 6.6 / math.sqrt(400 / 2)
    for query, label in ((0, 0), (0, 2), (3, 0), (3, 2)):
        predicted = 250 * mechanism.variance(queried=query < k, labelled=label < 1)
        ratio = (errors[:, query, label] ** 2).mean() / predicted
        assert abs(ratio - 1) < tolerance
        assert abs(2 * ratio - 1) > tolerance
    assert mechanism.noise_std(250) == pytest.approx(math.sqrt(250 * mechanism.mean_variance))


@pytest.mark.parametrize(
    ("kind", "variance"),
    [(RandomizedResponse, 24.9), (UnaryEncoding, 24.7), (Collision, 25.2), (SubsetSelection, 24.2)],
)
def test_variances_of_a_zero_cell_at_epsilon_two_fifths(kind: type[LocalMechanism], variance: float) -> None:
    mechanism = kind(ballot=Ballot(num_queries=10, num_classes=10), epsilon=Fraction(2, 5))
    assert mechanism.variance(queried=False, labelled=False) == pytest.approx(variance, abs=0.05)


@given(capacity=st.integers(1, 30), epsilon=st.fractions(Fraction(1, 20), 6, max_denominator=50))
def test_the_published_collision_variance_and_the_best_whole_number_of_buckets(
    capacity: int, epsilon: Fraction
) -> None:
    e = math.exp(epsilon)
    buckets = collision_buckets(capacity, epsilon)
    channel = Channel(domain=100, capacity=capacity, epsilon=epsilon, buckets=buckets, independence=capacity + 1)
    assert channel.indicator.variance(voted=False) == pytest.approx(collision_variance(buckets, capacity, e), rel=1e-9)
    everything = range(capacity + 1, 4 * buckets + 10)
    best = min(everything, key=lambda l: collision_variance(l, capacity, e))  # noqa: E741
    assert collision_variance(buckets, capacity, e) <= collision_variance(best, capacity, e) * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "mean"), [("3", -0.105), ("5", -0.0135)])
def test_the_paper_s_concatenation_estimates_true_cells_below_zero(epsilon: str, mean: float) -> None:
    """At the paper's number of buckets, k = 2 and r = 1."""
    c, e = 3, math.exp(Fraction(epsilon))
    p, q = e / (c * e + (2 * c - 1 + c * e) - c), 1 / (2 * c - 1 + c * e)
    assert -q / (p - q) == pytest.approx(mean, rel=0.02)


def test_an_epsilon_of_a_hundred_still_works() -> None:
    ballot = Ballot(num_queries=3, num_classes=2)
    for kind in KINDS:
        mechanism = kind(ballot=ballot, epsilon=Fraction(100))
        votes = full_votes(ballot, 50)
        tally = mechanism.server([mechanism.client(votes, SystemNoise())], SystemNoise())
        if kind not in (UnaryEncoding, Collision, Separation, Concatenation):  # those keep a vote by a fair coin
            assert tally.estimate == pytest.approx(votes.counts(), abs=0.01)


def test_frames_of_one_message_add_up_like_one_batch() -> None:
    mechanism = Collision(ballot=Ballot(num_queries=3, num_classes=2), epsilon=Fraction(1))
    answers = mechanism.client(full_votes(mechanism.ballot, 500), SystemNoise())
    singly = [Answers(answers.bodies[i : i + 1]) for i in range(500)]
    together = mechanism.server([answers], SystemNoise()).estimate
    assert (mechanism.server(singly, SystemNoise()).estimate == together).all()


def test_no_message_is_no_release() -> None:
    mechanism = Collision(ballot=Ballot(num_queries=3, num_classes=2), epsilon=Fraction(1))
    with pytest.raises(ProtocolFault, match="at least one message"):
        mechanism.server([], SystemNoise())


def test_seeded_messages_mark_the_release_as_not_private() -> None:
    mechanism = Collision(ballot=Ballot(num_queries=3, num_classes=2), epsilon=Fraction(1))
    votes = full_votes(mechanism.ballot, 5)
    assert not mechanism.server([mechanism.client(votes, SeededNoise(1))], SystemNoise()).guarantee.private
    assert mechanism.server([mechanism.client(votes, SystemNoise())], SystemNoise()).guarantee.private
