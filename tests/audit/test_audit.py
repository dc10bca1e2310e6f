"""Healthy protocols pass an audit, and their broken twins do not.

An audit at confidence 1 - a calls a healthy protocol violated with probability at most a. Here a = FALSE_ALARM for each
of the audits below. Twins of twice the epsilon are missed less often still: a test computes how often.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from twins import (
    AnyNumberOfShares,
    CrowdedCollision,
    CrowdedConcatenation,
    DryFlood,
    EagerSubset,
    ForgetfulUnaryEncoding,
    ForgottenInsider,
    HalfDeviationGaussian,
    HalfScaleFlip,
    HalfScaleLaplace,
    HalfScaleMatching,
    IdleShuffler,
    ImpatientShuffler,
    OneSidedResponse,
    OptimisticShuffle,
    OutspokenQuestions,
    RepeatedQuestions,
    SecretlyHalfScaleFlip,
    SecretlyHalfScaleLaplace,
    SecretlyHalfScaleMatching,
    SharedNoiseLaplace,
    ThinShares,
    WholeBudgetSeparation,
)

from recordwise.audit import audit
from recordwise.audit.bound import at_least, at_most, lower_bound
from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust
from recordwise.privacy.noise import DiscreteGaussian, Normal, SystemNoise
from recordwise.privacy.outcomes import epsilon_below
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralMatching, CentralPermuteAndFlip
from recordwise.protocols.central.permute_and_flip import choice_log_probabilities
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    LocalMechanism,
    Questions,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.pairs import Record, as_votes, worst_pairs
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import Tally
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot

FALSE_ALARM = 1e-9  # per audit
CONFIDENCE = 1 - FALSE_ALARM
DELTA = Fraction(1, 10**5)

SMALL = Ballot(num_queries=2, num_classes=2)
LARGE = Ballot(num_queries=40, num_classes=10)
TWO_VOTES = Ballot(num_queries=5, num_classes=3, votes_per_record=2)
SEVERAL = Ballot(num_queries=5, num_classes=4, votes_per_record=2, labels_per_record=2)
CROWDED = Ballot(num_queries=2, num_classes=3, votes_per_record=2, labels_per_record=2)  # 6 cells change, not 8


def check(protocol: Protocol[Any], trials: int = 10_000) -> Any:
    return audit(protocol, SystemNoise(), trials=trials, confidence=CONFIDENCE)


def central(ballot: Ballot, neighbours: Neighbours) -> list[Protocol[Any]]:
    return [
        CentralLaplace(ballot=ballot, neighbours=neighbours, epsilon=Fraction(1)),
        CentralGaussian.calibrated(ballot=ballot, neighbours=neighbours, epsilon=1, delta=DELTA),
        DistributedLaplace(
            ballot=ballot, neighbours=neighbours, epsilon=Fraction(1), survivors=4, parties=6, largest_count=100
        ),
    ]


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ballot", [SMALL, LARGE, SEVERAL, CROWDED])
def test_tallies_pass_and_their_claims_are_tight(ballot: Ballot, neighbours: Neighbours) -> None:
    for protocol in central(ballot, neighbours):
        result = check(protocol, trials=2000 if ballot in (SEVERAL, CROWDED) else 10_000)
        assert not result.violated
        assert result.best("exact") == pytest.approx(1, rel=2e-3)  # the claim is no more than what is given away
        assert result.best("sampled") < result.claimed
        if result.guarantee.is_pure and ballot in (SMALL, LARGE):
            assert result.best("sampled") > 0.4


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("ballot", [SMALL, LARGE, TWO_VOTES])
def test_permute_and_flip_passes_and_its_claim_is_tight(ballot: Ballot, neighbours: Neighbours) -> None:
    result = check(CentralPermuteAndFlip(ballot=ballot, neighbours=neighbours, epsilon=Fraction(1)), trials=4000)
    assert not result.violated
    assert result.best("exact") == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(("size", "k"), [(2, 1), (3, 1), (10, 2), (16, 16)])
def test_matching_passes_and_its_claim_is_tight(size: int, k: int, neighbours: Neighbours) -> None:
    ballot = Ballot(num_queries=size, num_classes=size, votes_per_record=k)
    result = check(CentralMatching(ballot=ballot, neighbours=neighbours, epsilon=Fraction(1)), trials=4000)
    assert not result.violated
    assert result.best("exact") == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("kind", [RandomizedResponse, UnaryEncoding, Collision, Separation, Concatenation])
@pytest.mark.parametrize("ballot", [LARGE, TWO_VOTES, SEVERAL])
def test_local_mechanisms_pass_and_their_claims_are_tight(kind: type[LocalMechanism], ballot: Ballot) -> None:
    result = check(kind(ballot=ballot, epsilon=Fraction(1)), trials=40_000)
    assert not result.violated
    if ballot is not SEVERAL:  # Separation needs records that share neither queries nor labels
        assert result.best("exact") == pytest.approx(1, rel=1e-6)
    if ballot is LARGE:
        assert 0.4 < result.best("sampled") < 1


def test_subset_selection_passes_and_its_claim_is_tight() -> None:
    result = check(SubsetSelection(ballot=Ballot(num_queries=4, num_classes=3), epsilon=Fraction(1)), trials=40_000)
    assert not result.violated
    assert result.best("exact") == pytest.approx(1, rel=1e-9)
    assert 0.4 < result.best("sampled") < 1


@pytest.mark.parametrize("size", [2, 10])
def test_questions_pass_and_their_claim_is_tight(size: int) -> None:
    ballot = Ballot(num_queries=size, num_classes=size)
    result = check(Questions(ballot=ballot, epsilon=Fraction(1)), trials=40_000)
    assert not result.violated
    assert result.best("exact") == pytest.approx(1, rel=1e-9)
    assert 0.4 < result.best("sampled") < 1


@pytest.mark.parametrize("mechanism", ["collision", "randomized-response", "unary-encoding", "subset-selection"])
def test_one_message_per_sender_passes(mechanism: str) -> None:
    ballot = Ballot(num_queries=4, num_classes=3)
    result = check(
        ShuffleSingle(ballot=ballot, epsilon=Fraction(1), delta=DELTA, senders=200, mechanism=mechanism), trials=500
    )
    assert not result.violated
    assert 0.1 < result.best("exact") <= 1


@pytest.mark.parametrize("neighbours", Neighbours)
def test_many_messages_per_sender_pass(neighbours: Neighbours) -> None:
    protocol = ShuffleMulti(
        ballot=LARGE, epsilon=Fraction(2), delta=Fraction(1, 100), senders=50, neighbours=neighbours
    )
    result = check(protocol, trials=5000)
    assert not result.violated
    assert 0.9 * 2 < result.best("exact") <= 2


LAPLACE = {"ballot": SMALL, "epsilon": Fraction(1)}
MATCHING = {"ballot": Ballot(num_queries=4, num_classes=4), "epsilon": Fraction(2)}
SHARES = {**LAPLACE, "survivors": 4, "parties": 6, "largest_count": 100}
SHUFFLED = {"ballot": Ballot(num_queries=4, num_classes=3), "epsilon": Fraction(1), "delta": DELTA, "senders": 200}

# How a twin is caught, at least: by the probabilities it states or by what it sends; and in how many trials.
TWINS: list[tuple[Protocol[Any], set[str], int]] = [
    (HalfScaleLaplace(**LAPLACE), {"exact", "sampled"}, 20_000),
    (HalfScaleLaplace(**LAPLACE, neighbours=Neighbours.ADD_REMOVE), {"exact", "sampled"}, 20_000),
    (SecretlyHalfScaleLaplace(**LAPLACE), {"sampled"}, 20_000),
    (SecretlyHalfScaleLaplace(ballot=LARGE, epsilon=Fraction(1)), {"sampled"}, 20_000),
    (SharedNoiseLaplace(**LAPLACE), {"sampled"}, 20_000),
    (HalfScaleFlip(**LAPLACE), {"exact", "sampled"}, 20_000),
    (SecretlyHalfScaleFlip(**LAPLACE), {"sampled"}, 20_000),
    (SecretlyHalfScaleFlip(ballot=SMALL, epsilon=Fraction(1), neighbours=Neighbours.ADD_REMOVE), {"sampled"}, 20_000),
    (HalfScaleMatching(**MATCHING), {"exact"}, 1_000),
    (SecretlyHalfScaleMatching(**MATCHING, neighbours=Neighbours.ADD_REMOVE), {"sampled"}, 60_000),
    (HalfDeviationGaussian(ballot=SMALL, rho=Fraction(1, 30), delta=DELTA), {"exact"}, 20_000),
    (OneSidedResponse(**LAPLACE), {"exact", "sampled"}, 20_000),
    (OneSidedResponse(ballot=LARGE, epsilon=Fraction(1)), {"exact", "sampled"}, 20_000),
    (OutspokenQuestions(**LAPLACE), {"exact", "sampled"}, 20_000),
    (RepeatedQuestions(**LAPLACE), {"sampled"}, 20_000),
    (ForgetfulUnaryEncoding(ballot=TWO_VOTES, epsilon=Fraction(1)), {"exact", "sampled"}, 200_000),
    (CrowdedCollision(ballot=TWO_VOTES, epsilon=Fraction(1)), {"exact", "sampled"}, 200_000),
    (CrowdedConcatenation(**LAPLACE), {"exact", "sampled"}, 20_000),
    (EagerSubset(**LAPLACE), {"exact", "sampled"}, 20_000),
    (WholeBudgetSeparation(**LAPLACE), {"exact", "sampled"}, 60_000),
    (ThinShares(**SHARES), {"sampled"}, 20_000),
    (AnyNumberOfShares(**SHARES), {"exact", "sampled"}, 20_000),
    (ForgottenInsider(**SHARES), {"exact", "sampled"}, 60_000),
    (ImpatientShuffler(**SHUFFLED, mechanism="unary-encoding"), {"exact", "sampled"}, 8_000),
    (IdleShuffler(**SHUFFLED, mechanism="unary-encoding"), {"sampled"}, 24_000),
    (OptimisticShuffle(**SHUFFLED, mechanism="unary-encoding"), {"exact"}, 1_000),
    (DryFlood(ballot=SMALL, epsilon=Fraction(1), delta=DELTA, senders=20), {"sampled"}, 2_000),
]
# Seconds of draws each, and beside each the same fault in a quicker form.
SLOW_TWINS: list[tuple[Protocol[Any], set[str], int]] = [
    (SecretlyHalfScaleMatching(**MATCHING), {"sampled"}, 60_000),
]


@pytest.mark.parametrize(
    ("twin", "caught_by", "trials"),
    [
        pytest.param(*twin, id=type(twin[0]).__name__, marks=marks)
        for twins, marks in ((TWINS, ()), (SLOW_TWINS, pytest.mark.slow))
        for twin in twins
    ],
)
def test_broken_twins_are_caught(twin: Protocol[Any], caught_by: set[str], trials: int) -> None:
    result = check(twin, trials)
    assert result.violated and result.distance < 0
    assert {method for method in ("exact", "sampled") if (result.best(method) or 0) > result.claimed} >= caught_by


def test_a_doubled_epsilon_is_missed_less_often_than_a_healthy_one_is_blamed() -> None:
    """Half the scale, or randomized response without its 2: twice the claimed epsilon of one.

    The event "the first record's cell went up, the second one's did not" then has the probabilities below. The numbers
    of times it is seen fall short of `hits`, or exceed `misses`, with a probability of `miss` together.
    """
    miss, draws, a = FALSE_ALARM, 10_000, math.exp(-1)
    p, q = (1 / (1 + a)) ** 2, (a / (1 + a)) ** 2
    hits, misses = binom.ppf(miss / 2, draws, p), binom.isf(miss / 2, draws, q)
    failure = FALSE_ALARM / 2  # two pairs of neighbours
    found = math.log(float(at_least(int(hits), draws, failure / 2) / at_most(int(misses), draws, failure / 2)))
    assert found > 1.3


def test_power_is_not_luck() -> None:
    """The worst of five audits of a secretly halved scale is still far beyond the claim."""
    found = [check(SecretlyHalfScaleLaplace(**LAPLACE), 20_000).best("sampled") for _ in range(5)]
    assert min(found) > 1.5 and max(found) < 2  # the truth is 2


def test_a_release_about_too_few_parties_is_reported_as_such() -> None:
    result = check(AnyNumberOfShares(**SHARES))
    assert "a release about 1 of 5 parties" in result.worst.detail
    assert math.isclose(result.best("exact"), float(AnyNumberOfShares(**SHARES).realised_epsilon(1)), rel_tol=1e-6)


# The bound


@pytest.mark.parametrize("successes", [0, 1, 17, 100])
def test_clopper_and_pearson_bounds_are_exact_binomial_tails(successes: int) -> None:
    low, high = float(at_least(successes, 100, 1e-3)), float(at_most(successes, 100, 1e-3))
    assert low == 0 if successes == 0 else binom.sf(successes - 1, 100, low) == pytest.approx(1e-3)
    assert high == 1 if successes == 100 else binom.cdf(successes, 100, high) == pytest.approx(1e-3, rel=1e-6)


def test_the_bound_fails_no_more_often_than_stated() -> None:
    """Randomized response on a bit, epsilon 1, at a failure of 5 %: 2,000 audits of 200 draws."""
    rng, epsilon, failure, audits = seeded(0, "audit", "bound"), 1.0, 0.05, 2000
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    wrong = 0
    for _ in range(audits):
        before, after = (rng.random((200, 1)) < chance for chance in (keep, 1 - keep))
        bound = lower_bound(before.astype(float), after.astype(float), delta=0.0, failure=failure)
        wrong += bound.epsilon > epsilon
    assert binom.sf(wrong - 1, audits, failure) > FALSE_ALARM


def test_delta_is_taken_off_the_likely_side() -> None:
    before, after = np.ones((20_000, 1)), np.zeros((20_000, 1))
    before[::2] = 0
    free = lower_bound(before, after, delta=0.0, failure=1e-6).epsilon
    assert lower_bound(before, after, delta=0.3, failure=1e-6).epsilon == pytest.approx(free + math.log(0.4), abs=0.15)
    assert lower_bound(before, after, delta=0.6, failure=1e-6).epsilon == 0


def test_too_few_views_are_refused() -> None:
    with pytest.raises(InvalidInput, match="trials must be >= 100"):
        check(CentralLaplace(**LAPLACE), trials=99)
    with pytest.raises(InvalidInput, match="confidence"):
        audit(CentralLaplace(**LAPLACE), SystemNoise(), confidence=1.0)
    with pytest.raises(InvalidInput, match="at least 4 views"):
        lower_bound(np.zeros((2, 1)), np.zeros((2, 1)), delta=0.0, failure=0.1)


# Exact parts against other ways to the same number


def test_the_law_of_permute_and_flip_is_that_of_its_definition() -> None:
    from itertools import permutations

    row, scale = np.array([[3, 0, 2, 3]]), 1.7
    accept = np.exp((row[0] - 3) / scale)
    chance = np.zeros(4)
    for order in permutations(range(4)):
        left = 1.0
        for c in order:
            chance[c] += left * accept[c] / 24
            left *= 1 - accept[c]
    assert np.exp(choice_log_probabilities(row, scale))[0] == pytest.approx(chance)


def test_convolved_losses_are_close_to_and_below_the_exact_ones() -> None:
    """For Gaussian noise the loss is linear in the sum of the noise, which can be convolved without a grid."""
    law, cells, delta = DiscreteGaussian(Fraction(20)), 4, 1e-5
    noise = np.arange(-80, 81)
    found = epsilon_below([(law.pmf(noise), law.pmf(noise - 1))] * cells, delta)
    many = law.pmf(noise)
    for _ in range(cells - 1):
        many = np.convolve(many, law.pmf(noise))
    loss = (cells - 2 * (np.arange(len(many)) - 80 * cells)) / 40

    def delta_at(epsilon: float) -> float:
        return float((many * np.maximum(0, -np.expm1(np.minimum(0, epsilon - loss)))).sum())

    assert delta_at(found) >= delta
    assert delta_at(found * 1.002) < delta


def test_two_counts_agree_with_their_joint_law() -> None:
    """One cell, every pair of counts enumerated from the laws of its three parts."""
    from recordwise.privacy.noise import NegativeBinomial

    ballot = Ballot(num_queries=1, num_classes=1)
    protocol = ShuffleMulti(
        ballot=ballot, epsilon=Fraction(2), delta=Fraction(1, 100), senders=10, neighbours=Neighbours.ADD_REMOVE
    )
    (pair,) = worst_pairs(ballot, Neighbours.ADD_REMOVE)
    found = protocol.exact_epsilon(pair, 10)
    assert found is not None
    at = np.arange(120)
    noise = NegativeBinomial(Fraction(1), 1 / protocol._noise_epsilon).pmf(at)
    flood = NegativeBinomial(protocol.flood.shape, protocol.flood.scale).pmf(at)
    joint = np.zeros((121, 121))
    for z in at:
        joint[z:120, z:120] += flood[z] * np.outer(noise[: 120 - z], noise[: 120 - z])
    other = np.zeros_like(joint)
    other[1:] = joint[:-1]

    def delta_at(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
        return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())

    worst = max(delta_at(joint, other, found[0] * 1.002), delta_at(other, joint, found[0] * 1.002))
    assert worst < 0.01 <= max(delta_at(joint, other, found[0]), delta_at(other, joint, found[0])) * (1 + 1e-9)


# Anything else


class Whisper(Protocol[Any]):
    """A protocol that the audit knows nothing about: rounded normal noise, far too little of it."""

    name, trust = "whisper", Trust.CENTRAL
    ballot = SMALL
    guarantee = Guarantee(epsilon=Fraction(1))
    event = None  # type: ignore[assignment]

    @classmethod
    def planned(cls, terms: Any, ballot: Any, num_records: int) -> Whisper:
        return cls()

    def client(self, votes: Any, noise: Any) -> Any:
        return votes.counts()

    def server(self, messages: Any, noise: Any) -> Tally:
        uniform = (noise.words(8) >> np.uint64(11)) * 2.0**-53
        drawn = np.sqrt(-2 * np.log(1 - uniform[:4])) * np.cos(2 * np.pi * uniform[4:]) / 2
        return Tally(SMALL, self.guarantee, sum(messages) + drawn.reshape(2, 2), Normal(0.5))

    def noise_std(self, num_records: int) -> float:
        return 0.5


def test_an_unknown_protocol_is_audited_by_what_it_releases() -> None:
    result = check(Whisper(), trials=2000)
    assert result.violated and result.best("exact") is None


def test_the_result_prints_what_was_claimed_found_and_how_sure_it_is() -> None:
    result = check(HalfScaleLaplace(**LAPLACE))
    text, plain = result.as_text(), json.loads(json.dumps(result.as_dict()))
    assert "VIOLATED" in text and "claimed    epsilon 1, one record, replace" in text
    assert "found      epsilon >= 2" in text and "distance   -1" in text and "0.999999999" in text
    assert plain["violated"] and plain["claimed_epsilon"] == 1 and plain["found_epsilon"] == pytest.approx(2)
    assert plain["confidence"] == CONFIDENCE and {one["method"] for one in plain["findings"]} == {"exact", "sampled"}


def test_infinite_bounds_are_valid_json() -> None:
    result = check(CentralLaplace(**LAPLACE), trials=1000)
    endless = replace(result, findings=(replace(result.findings[0], epsilon=math.inf),))
    assert json.loads(json.dumps(endless.as_dict(), allow_nan=False))["found_epsilon"] == "inf"
    assert endless.violated


def test_worst_neighbours_differ_as_much_as_the_ballot_allows() -> None:
    for ballot in (SMALL, LARGE, TWO_VOTES, SEVERAL, CROWDED):
        opposite, silent = worst_pairs(ballot, Neighbours.REPLACE)
        (added,) = worst_pairs(ballot, Neighbours.ADD_REMOVE)
        assert opposite.after is not None and added.after is None
        one, other = opposite.before.cells(ballot), opposite.after.cells(ballot)
        assert len(one ^ other) == ballot.cells_changed(Neighbours.REPLACE)
        assert as_votes(ballot, [opposite.before]).counts().sum() == len(added.before.cells(ballot))
        assert silent.after == Record() and as_votes(ballot, [Record()]).counts().sum() == 0
