"""The automatic choice, clients with several records, and labels at the end of it all."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from exact_laws import every_vote, exact_law, largest_ratio
from hypothesis import given, settings
from hypothesis import strategies as st

from recordwise.errors import InvalidInput
from recordwise.labels import decode
from recordwise.privacy.guarantee import Unit, exact
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    answer_for_every_record,
    answer_for_one_record,
    choose,
    client_cost,
    sampled_guarantee,
)
from recordwise.protocols.local.choose import AS_GOOD
from recordwise.protocols.local.parameters import MECHANISMS
from recordwise.streams import stream
from recordwise.votes.ballot import Ballot, Votes


@settings(max_examples=60, deadline=None)
@given(
    s=st.integers(2, 300),
    classes=st.integers(2, 60),
    k=st.integers(1, 2),
    r=st.integers(1, 2),
    epsilon=st.fractions(Fraction(1, 10), 10, max_denominator=10),
)
def test_the_choice_has_the_least_variance_and_is_never_concatenation(
    s: int, classes: int, k: int, r: int, epsilon: Fraction
) -> None:
    ballot = Ballot(num_queries=s, num_classes=classes, votes_per_record=k, labels_per_record=r)
    choice = choose(ballot, epsilon)
    assert not isinstance(choice.mechanism, Concatenation)
    rivals = [
        kind(ballot=ballot, epsilon=epsilon)
        for kind in MECHANISMS.values()
        if kind is not SubsetSelection or k * r == 1
    ]
    assert choice.mechanism.mean_variance <= AS_GOOD * min(rival.mean_variance for rival in rivals)
    assert choice.reason.startswith(choice.mechanism.name)
    assert "\n" not in choice.reason


def test_the_choice_moves_with_the_parameters() -> None:
    def name(epsilon: float, **ballot: int) -> str:
        return choose(Ballot(**ballot), epsilon).mechanism.name

    assert name(0.4, num_queries=10, num_classes=10) == "subset-selection"
    assert name(0.4, num_queries=100, num_classes=50) == "unary-encoding"
    assert name(1.0, num_queries=100, num_classes=50) == "collision"  # as good, and 9 bytes instead of 626
    assert name(1.0, num_queries=200, num_classes=50, votes_per_record=2, labels_per_record=2) == "collision"
    assert name(10.0, num_queries=2, num_classes=2, votes_per_record=2, labels_per_record=2) == "randomized-response"


def test_the_reason_names_the_numbers() -> None:
    reason = choose(Ballot(num_queries=10, num_classes=10), 0.4).reason
    assert "epsilon 0.4, k = 1, r = 1, s = 10, C = 10: 24.18 (13 bytes)" in reason
    assert "randomized-response 24.92 (13)" in reason


def test_a_mechanism_can_be_asked_for_by_name_and_only_by_its_name() -> None:
    ballot = Ballot(num_queries=4, num_classes=3)
    for name, kind in MECHANISMS.items():
        assert type(choose(ballot, 1.0, name).mechanism) is kind
    with pytest.raises(InvalidInput, match="mechanism must be one of"):
        choose(ballot, 1.0, "magic")


def two_records() -> Votes:
    ballot = Ballot(num_queries=3, num_classes=1)
    return Votes(ballot, np.array([[0], [2]], np.int32), np.array([[0], [0]], np.int32))


def test_answering_for_every_record_costs_the_client_the_sum() -> None:
    votes = two_records()
    mechanism = Collision(ballot=votes.ballot, epsilon=Fraction(1, 2))
    assert len(answer_for_every_record(mechanism, votes, SystemNoise())) == 2
    assert mechanism.guarantee.unit is Unit.RECORD
    cost = client_cost(mechanism, most_records=4)
    assert (cost.epsilon, cost.unit) == (2, Unit.CLIENT)
    assert "replacing everything one client holds" in str(cost)


def test_answering_for_one_record_protects_the_whole_client() -> None:
    """The law of a client's message, whatever it holds, against that of any other client."""
    votes = two_records()
    mechanism = RandomizedResponse(ballot=votes.ballot, epsilon=Fraction(1))
    assert sampled_guarantee(mechanism).unit is Unit.CLIENT
    assert sampled_guarantee(mechanism).epsilon == 1
    none = Votes(votes.ballot, votes.queries[:0], votes.labels[:0])
    laws = [
        exact_law(lambda walk, held=held: answer_for_one_record(mechanism, held, walk).bodies.tobytes())
        for held in (votes, none, *every_vote(votes.ballot))
    ]
    assert 0.99 * np.e <= largest_ratio(laws) <= np.e * (1 + 1e-12)
    halves = [exact_law(lambda walk, v=v: mechanism.randomize(v, walk).tobytes()) for v in every_vote(votes.ballot)]
    singles = [law for law, v in zip(halves, every_vote(votes.ballot), strict=True) if v.counts().sum() == 1]
    for message, chance in laws[0].items():  # records 0 and 2, each half of the time
        assert float(chance) == pytest.approx(float((singles[0][message] + singles[2][message]) / 2))


def label_accuracy(ballot: Ballot, seed: int, purity: float = 0.86, records: int = 30_000) -> tuple[float, float]:
    """Share of records whose cluster gets their own class: by joint assignment, and by one argmax per cluster."""
    rng = stream(seed, "clusters")
    clusters = np.repeat(np.arange(10), records // 10)
    strays = (clusters + rng.integers(1, 10, records)) % 10
    labels = np.where(rng.random(records) < purity, clusters, strays)
    votes = Votes(ballot, clusters[:, None].astype(np.int32), labels[:, None].astype(np.int32))
    mechanism = choose(ballot, Fraction(2, 5)).mechanism
    noise = SeededNoise(seed)
    tally = mechanism.server([mechanism.client(votes, noise)], noise)
    share = votes.counts() / votes.counts().sum(axis=1, keepdims=True)
    joint = decode(tally, sizes=np.full(10, 1), graph=None, decoder="assignment", num_records=records).hard
    alone = tally.estimate.argmax(axis=1)
    return float(share[np.arange(10), joint].mean()), float(share[np.arange(10), alone].mean())


def test_joint_assignment_labels_clusters_at_epsilon_two_fifths() -> None:
    """30,000 records, s = C = 10, clusters 86 % pure; the mean of 40 runs, replayable so that it cannot flicker."""
    runs = np.array([label_accuracy(Ballot(num_queries=10, num_classes=10), seed) for seed in range(40)])
    joint, alone = runs.mean(axis=0)
    assert joint >= 0.84
    assert joint - alone >= 0.04


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1, 2, 3.5, 5, 8, 12])
@pytest.mark.parametrize(("s", "classes", "k", "r"), [(200, 50, 2, 2), (10, 10, 1, 1), (500, 1000, 1, 5), (2, 2, 2, 2)])
def test_separation_and_concatenation_never_beat_collision(
    s: int, classes: int, k: int, r: int, epsilon: float
) -> None:
    """For e^epsilon large Collision's zero cells vary by 4c / e^epsilon, Separation's by 16c / e^epsilon."""
    ballot = Ballot(num_queries=s, num_classes=classes, votes_per_record=k, labels_per_record=r)
    collision, separation, concatenation = (
        kind(ballot=ballot, epsilon=exact(epsilon)).mean_variance for kind in (Collision, Separation, Concatenation)
    )
    assert 2 * collision < separation
    assert 5 * collision < concatenation
