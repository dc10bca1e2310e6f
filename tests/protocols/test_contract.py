"""Every mechanism under every neighbouring relation it promises: private, hardly more so than claimed, twins caught.

Everything here is exact: there is no false alarm. The audits that sample are in `tests/audit`.
"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest
from contract import Case, batch, given_away, message, modular_sum, release, transcript
from twins import (
    AnyNumberOfShares,
    CrowdedCollision,
    CrowdedConcatenation,
    DryFlood,
    EagerSubset,
    EchoedSeparation,
    ForgetfulUnaryEncoding,
    HalfDeviationGaussian,
    IdleShuffler,
    ImpatientShuffler,
    InsistentQuestions,
    LopsidedSubset,
    OneSidedResponse,
    OptimisticShuffle,
    OutspokenQuestions,
    SecretlyHalfScaleFlip,
    SecretlyHalfScaleLaplace,
    SecretlyHalfScaleMatching,
    SecretlyHalfVarianceGaussian,
    SharedNoiseLaplace,
    ThinShares,
    WholeBudgetSeparation,
)

from recordwise.errors import InvalidInput
from recordwise.privacy import accountant
from recordwise.privacy.guarantee import Neighbours, Trust
from recordwise.protocols.central import (
    CentralGaussian,
    CentralLaplace,
    CentralMatching,
    CentralPermuteAndFlip,
    gaussian,
)
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    Questions,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
    questions,
)
from recordwise.protocols.pairs import NOTHING, Record
from recordwise.protocols.registry import names
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.protocols.terms import Terms
from recordwise.votes.ballot import Ballot

ONE = Fraction(1)
HASHED = {kind.name for kind in (Collision, Separation, Concatenation)}


def ballot(s: int, num_classes: int, k: int = 1, r: int = 1) -> Ballot:
    return Ballot(num_queries=s, num_classes=num_classes, votes_per_record=k, labels_per_record=r)


def crowds(size: int, *numbers: int) -> tuple[tuple[Record, ...], ...]:
    """Records that vote for the first query, so many of them for each class."""
    return tuple(
        tuple(Record((0,), (c,)) for c, many in enumerate(each) for _ in range(many))
        for each in product(numbers, repeat=size)
    )


def local() -> list[Case]:
    def case(healthy: Any, *twins: Any, **how: Any) -> Case:
        made = [kind(ballot=healthy.ballot, epsilon=healthy.epsilon) for kind in twins]
        return Case(healthy=healthy, view=message, twins=tuple(made), **how)

    one_vote, pair = ballot(2, 2), ballot(1, 2)
    two_votes = ballot(4, 1, k=2)
    neighbour = ((Record((0,), (0,)),), (NOTHING,))  # what the client's next record says must not matter
    return [
        case(RandomizedResponse(ballot=one_vote, epsilon=ONE), OneSidedResponse),
        case(RandomizedResponse(ballot=pair, epsilon=ONE), OneSidedResponse, others=neighbour),
        case(RandomizedResponse(ballot=two_votes, epsilon=ONE), OneSidedResponse),
        case(UnaryEncoding(ballot=one_vote, epsilon=ONE)),
        case(UnaryEncoding(ballot=two_votes, epsilon=ONE), ForgetfulUnaryEncoding),
        case(SubsetSelection(ballot=one_vote, epsilon=ONE), EagerSubset, LopsidedSubset),
        case(SubsetSelection(ballot=pair, epsilon=ONE), EagerSubset, LopsidedSubset, others=neighbour),
        case(Collision(ballot=one_vote, epsilon=ONE)),
        case(Collision(ballot=two_votes, epsilon=ONE), CrowdedCollision, keys=8),
        case(Separation(ballot=one_vote, epsilon=Fraction(1, 2)), EchoedSeparation, field=3, apart=True),
        case(Separation(ballot=one_vote, epsilon=ONE), WholeBudgetSeparation, keys=3, apart=True),
        case(Concatenation(ballot=one_vote, epsilon=ONE), CrowdedConcatenation, keys=12, apart=True),
        Case(
            healthy=Questions(ballot=one_vote, epsilon=ONE, waves=2, questions=1),
            view=transcript,
            twins=(
                OutspokenQuestions(ballot=one_vote, epsilon=ONE, waves=2, questions=1),
                InsistentQuestions(ballot=one_vote, epsilon=ONE, waves=2, questions=1),
            ),
        ),
        Case(
            healthy=Questions(ballot=one_vote, epsilon=ONE, waves=2, questions=1),
            view=transcript,
            twins=(),
            others=((Record((0,), (0,)),), (NOTHING,)),
        ),
    ]


def central_trust(neighbours: Neighbours) -> list[Case]:
    def case(healthy: Any, *twins: Any, **how: Any) -> Case:
        public = [field.name for field in fields(healthy)]
        made = [kind(**{name: getattr(healthy, name) for name in public}) for kind in twins]
        return Case(healthy=healthy, view=release, twins=tuple(made), **how)

    pair, both_labels = ballot(1, 2), ballot(1, 2, r=2)
    small = {"neighbours": neighbours, "epsilon": 2 * ONE}
    gaussian = {"neighbours": neighbours, "rho": Fraction(1, 2), "delta": Fraction(1, 50)}
    far = tuple(tuple([Record((0,), (0,))] * many) for many in (0, 40))
    return [
        case(CentralLaplace(ballot=pair, **small), SecretlyHalfScaleLaplace, SharedNoiseLaplace, cut=1e-7),
        case(CentralLaplace(ballot=both_labels, **small), SecretlyHalfScaleLaplace, SharedNoiseLaplace, cut=1e-7),
        case(
            CentralGaussian(ballot=pair, **gaussian),
            HalfDeviationGaussian,
            SecretlyHalfVarianceGaussian,
            cut=1e-7,
            tight=0.01,
        ),
        case(
            CentralGaussian(ballot=both_labels, **gaussian),
            HalfDeviationGaussian,
            SecretlyHalfVarianceGaussian,
            cut=1e-7,
            tight=0.01,
        ),
        case(
            CentralPermuteAndFlip(ballot=pair, neighbours=neighbours, epsilon=ONE),
            SecretlyHalfScaleFlip,
            others=crowds(2, 0, 1, 2),
        ),
        case(
            CentralPermuteAndFlip(ballot=ballot(2, 2, k=2), neighbours=neighbours, epsilon=ONE),
            SecretlyHalfScaleFlip,
            others=tuple(one + tuple(Record((1,), record.labels) for record in one) for one in crowds(2, 0, 1)),
        ),
        case(
            CentralMatching(ballot=ballot(2, 2), neighbours=neighbours, epsilon=ONE),
            SecretlyHalfScaleMatching,
            others=far,
        ),
        case(
            CentralMatching(ballot=ballot(3, 3, k=2), neighbours=neighbours, epsilon=ONE),
            SecretlyHalfScaleMatching,
            tight=1,
        ),
    ]


def distributed(neighbours: Neighbours) -> list[Case]:
    form: dict[str, Any] = {
        "ballot": ballot(1, 2),
        "neighbours": neighbours,
        "epsilon": 4 * ONE,
        "survivors": 2,
        "parties": 3,
        "colluding": 0,  # readers who take their own share away are enumerated in test_distributed.py
        "largest_count": 10,
    }
    return [
        Case(
            healthy=DistributedLaplace(**form),
            view=modular_sum,
            twins=(ThinShares(**form), AnyNumberOfShares(**form)),
            others=((Record((0,), (0,)),),),
            cut=1e-6,
            least=1e-8,
        )
    ]


def shuffled() -> list[Case]:
    def case(mechanism: str, form: Ballot, senders: int, others: tuple[tuple[Record, ...], ...], tight: float) -> Case:
        terms: dict[str, Any] = {
            "ballot": form,
            "epsilon": Fraction(1, 2),
            "delta": Fraction(1, 10),
            "senders": senders,
            "mechanism": mechanism,
        }
        twins = (IdleShuffler(**terms), ImpatientShuffler(**terms), OptimisticShuffle(**terms))
        return Case(healthy=ShuffleSingle(**terms), view=batch, twins=twins, others=others, tight=tight)

    first, second = Record((0,), (0,)), Record((0,), (1,))
    votes = tuple((first,) * many + (NOTHING,) * (5 - many) for many in range(6))
    pairs = ((first, first), (first, second), (NOTHING, NOTHING))
    return [
        case("subset-selection", ballot(1, 1), 6, votes, 0.2),
        case("randomized-response", ballot(1, 2), 3, pairs, 0.9),
        case("unary-encoding", ballot(1, 2), 3, pairs, 0.9),
    ]


def flooded(neighbours: Neighbours) -> list[Case]:
    form: dict[str, Any] = {
        "ballot": ballot(1, 1),
        "neighbours": neighbours,
        "epsilon": 2 * ONE,
        "delta": Fraction(1, 20),
        "senders": 2,
    }
    return [
        Case(
            healthy=ShuffleMulti(**form),
            view=batch,
            twins=(DryFlood(**form),),
            others=((NOTHING,),),
            cut=1e-5,
            least=1e-9,
            tight=0.1,
        )
    ]


CASES = [
    *local(),
    *shuffled(),
    *(case for neighbours in Neighbours for case in central_trust(neighbours)),
    *(case for neighbours in Neighbours for case in distributed(neighbours)),
    *(case for neighbours in Neighbours for case in flooded(neighbours)),
]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is public and costly is made small: the walk over assignments is short, the accountant remembers."""
    monkeypatch.setattr(questions, "LAST_STEPS", questions.STEPS)
    monkeypatch.setattr(gaussian, "total_epsilon", lambda events, delta: _known_total(tuple(events), delta))


@cache
def _known_total(events: Any, delta: Fraction) -> Fraction:
    return accountant.total_epsilon(list(events), delta)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_neighbours_are_told_apart_by_no_more_than_is_claimed_and_hardly_less(case: Case) -> None:
    claimed = float(case.healthy.guarantee.epsilon)
    low, high = given_away(case, case.healthy)
    assert high <= claimed * (1 + (0.005 if case.cut else 1e-12))
    assert low >= claimed * (1 - case.tight)


@pytest.mark.parametrize(
    ("case", "twin"), [(case, twin) for case in CASES for twin in case.twins], ids=lambda one: str(one)[:60]
)
def test_broken_twins_are_caught(case: Case, twin: Any) -> None:
    assert twin.guarantee.epsilon == case.healthy.guarantee.epsilon
    enough = 1.01 * float(case.healthy.guarantee.epsilon)
    low, _ = given_away(case, twin, enough)
    assert low > enough


def test_every_mechanism_has_a_case_and_a_twin_under_every_relation_it_promises() -> None:
    covered = set()
    for case in CASES:
        kind = type(case.healthy)
        name = getattr(case.healthy, "mechanism", None) or kind.name
        if case.twins:
            covered.add((case.healthy.guarantee.trust, name, case.healthy.guarantee.neighbours))
    form = ballot(2, 2)
    for trust, neighbours in product(Trust, Neighbours):
        for mechanism in names(trust):
            asked = {"trust": trust, "neighbours": neighbours, "mechanism": mechanism}
            try:
                Terms(epsilon=ONE, delta=Fraction(1, 100), **asked).protocols(form, 10)  # type: ignore[arg-type]
            except InvalidInput:
                continue  # not promised
            if trust is Trust.SHUFFLE and mechanism in HASHED:
                continue  # batches of hashes are in tests/privacy/amplification
            assert (trust, mechanism, neighbours) in covered
