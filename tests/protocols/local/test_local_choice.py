"""The automatic choice, and labels at the end of it all."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordwise.errors import InvalidInput
from recordwise.labels import decode
from recordwise.privacy.guarantee import exact
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.choose import AS_GOOD
from recordwise.protocols.local import Collision, Concatenation, Separation, SubsetSelection, mechanisms
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot, Votes


def local(epsilon: Fraction | float, mechanism: str = "auto") -> Terms:
    return Terms(epsilon=exact(epsilon), trust="local", mechanism=mechanism)  # type: ignore[arg-type]


def choose(ballot: Ballot, epsilon: Fraction | float, mechanism: str = "auto") -> Protocol[Any]:
    return local(epsilon, mechanism).protocols(ballot, 1)[0]


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
    assert not isinstance(choice, Concatenation | Separation)
    rivals = [
        kind(ballot=ballot, epsilon=epsilon)
        for kind in mechanisms().values()
        if kind is not SubsetSelection or k * r == 1
    ]
    assert choice.mean_variance <= AS_GOOD**2 * min(rival.mean_variance for rival in rivals)
    reason = local(epsilon).reason(ballot, 1)
    assert reason.startswith(choice.name)
    assert "\n" not in reason


def test_the_choice_moves_with_the_parameters() -> None:
    def name(epsilon: float, **ballot: int) -> str:
        return choose(Ballot(**ballot), epsilon).name

    assert name(0.4, num_queries=10, num_classes=10) == "subset-selection"
    assert name(0.4, num_queries=100, num_classes=50) == "unary-encoding"
    assert name(1.0, num_queries=100, num_classes=50) == "collision"  # as good, and 9 bytes instead of 626
    assert name(1.0, num_queries=200, num_classes=50, votes_per_record=2, labels_per_record=2) == "collision"
    assert name(10.0, num_queries=2, num_classes=2, votes_per_record=2, labels_per_record=2) == "randomized-response"


def test_the_reason_names_the_numbers() -> None:
    reason = local(0.4).reason(Ballot(num_queries=10, num_classes=10), 1)
    assert reason.startswith("subset-selection (std 4.917, 13 bytes) has the least noise; the others: ")
    assert "randomized-response (std 4.992, 13 bytes)" in reason


def test_a_mechanism_can_be_asked_for_by_name_and_only_by_its_name() -> None:
    ballot = Ballot(num_queries=4, num_classes=3)
    for name, kind in mechanisms().items():
        assert type(choose(ballot, 1.0, name)) is kind
    with pytest.raises(InvalidInput, match="mechanism under local trust must be one of auto, randomized-response"):
        choose(ballot, 1.0, "magic")


@pytest.mark.parametrize("votes", [1, 2])
def test_an_epsilon_that_floats_cannot_tell_from_none_is_refused_in_one_line(votes: int) -> None:
    ballot = Ballot(num_queries=4, num_classes=3, votes_per_record=votes)
    assert np.isfinite(choose(ballot, 1e-12).noise_std(100))
    for epsilon in (1e-13, 1e-18, 1e-30):
        with pytest.raises(InvalidInput, match=r"epsilon must be >= 2\^-40"):
            choose(ballot, epsilon)


def label_accuracy(ballot: Ballot, seed: int, purity: float = 0.86, records: int = 30_000) -> tuple[float, float]:
    """Share of records whose cluster gets their own class: by joint assignment, and by one argmax per cluster."""
    rng = seeded(seed, "clusters")
    clusters = np.repeat(np.arange(10), records // 10)
    strays = (clusters + rng.integers(1, 10, records)) % 10
    labels = np.where(rng.random(records) < purity, clusters, strays)
    votes = Votes(ballot, clusters[:, None].astype(np.int32), labels[:, None].astype(np.int32))
    mechanism = choose(ballot, Fraction(2, 5))
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
