from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from tests.privacy.amplification.enumeration import (
    Channel,
    batches,
    client_channel,
    exact_delta,
    exact_epsilon,
    k_ary_channel,
    sent_channel,
    total_variation,
)

from recordwise.errors import InvalidInput, OutOfRegime
from recordwise.privacy.amplification import (
    LocalMechanism,
    Variation,
    amplify,
    closed_form,
    fmt_numerical,
    largest_epsilon0,
    largest_epsilon0_closed_form,
    largest_epsilon0_fmt,
    variation_ratio,
)
from recordwise.privacy.amplification.clones import Clones
from recordwise.privacy.amplification.mechanisms import (
    any_mechanism,
    collision,
    k_ary,
    randomized_response,
    subset_selection,
)
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    RandomizedResponse,
    Separation,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.local import LocalMechanism as Client
from recordwise.protocols.local.channel import Channel as Hashing
from recordwise.protocols.local.mechanism import mechanisms
from recordwise.protocols.shuffle import ShuffleSingle
from recordwise.votes.ballot import NOBODY, Ballot

Told = tuple[str, LocalMechanism, Callable[[float], Channel], int, bool]


def client(kind: type[Client], form: tuple[int, int, int, int], senders: int, *, attained: bool = True) -> Told:
    """A real client, and what the protocol tells the accountant about it."""
    ballot = Ballot(num_queries=form[0], num_classes=form[1], votes_per_record=form[2], labels_per_record=form[3])
    name = f"{kind.name} {'x'.join(map(str, form))}"
    return name, kind.tells(ballot), lambda epsilon0: known_channel(kind, ballot, epsilon0), senders, attained


@cache
def known_channel(kind: type[Client], ballot: Ballot, epsilon0: float) -> Channel:
    return client_channel(kind, ballot, Fraction(epsilon0))


# name, what the accountant is told, the enumerated mechanism, senders that can be enumerated, is beta attained?
MECHANISMS: list[Told] = [
    ("2-ary", k_ary(2), lambda e0: k_ary_channel(e0, 2), 9, True),
    ("3-ary", k_ary(3), lambda e0: k_ary_channel(e0, 3), 6, True),
    ("4-ary", k_ary(4), lambda e0: k_ary_channel(e0, 4), 4, True),
    client(RandomizedResponse, (3, 1, 1, 1), 3),
    client(RandomizedResponse, (4, 1, 2, 1), 2),
    client(UnaryEncoding, (3, 1, 1, 1), 3),
    client(UnaryEncoding, (4, 1, 2, 1), 2),
    client(SubsetSelection, (3, 1, 1, 1), 4),
    client(SubsetSelection, (2, 1, 1, 1), 5),
    client(Collision, (1, 2, 1, 1), 3),
    client(Collision, (2, 1, 2, 1), 2, attained=False),
    client(Separation, (1, 2, 1, 1), 2, attained=False),
    client(Concatenation, (1, 2, 1, 1), 2, attained=False),
]
# The witnesses look at three records with disjoint votes, which so few cells do not allow.
CROWDED = [mechanism for name, mechanism, *_ in MECHANISMS if name.startswith(("collision", "concatenation"))]
HASHED = tuple(kind.name for kind in (Collision, Separation, Concatenation))  # a large epsilon0 takes many buckets
EACH = pytest.mark.parametrize(
    ("mechanism", "channel", "senders", "attained", "epsilon0"),
    [
        pytest.param(*case[1:], epsilon0, id=f"{case[0]}, {epsilon0}")
        for case in MECHANISMS
        for epsilon0 in ((0.3, 0.5) if case[0].startswith(HASHED) else (0.3, 0.5, 2.0, 3.0))
    ],
)


@EACH
def test_beta_is_the_largest_distance_of_two_records(
    mechanism: LocalMechanism, channel: Callable[[float], Channel], senders: int, attained: bool, epsilon0: float
) -> None:
    rows = channel(epsilon0)
    claimed, exact = mechanism(epsilon0), total_variation(rows)
    assert exact <= claimed.beta * (1 + 1e-12)
    if attained:
        assert exact >= claimed.beta * (1 - 1e-6) - 1e-10
    assert (rows[:, None] / rows[None]).max() <= claimed.p * (1 + 1e-9)  # and so p and q hold for every pair


@EACH
def test_upper_and_lower_bound_enclose_the_enumerated_batch(
    mechanism: LocalMechanism, channel: Callable[[float], Channel], senders: int, attained: bool, epsilon0: float
) -> None:
    tables = batches(channel(epsilon0), senders)
    for delta in (0.001, 0.05):
        exact = exact_epsilon(tables, delta)
        bounds = variation_ratio(senders, epsilon0, delta, mechanism)
        if not any(mechanism is crowded for crowded in CROWDED):
            assert bounds.lower <= exact + 1e-9
        assert exact <= bounds.upper + 1e-9
        assert exact <= variation_ratio(senders, epsilon0, delta, any_mechanism).upper + 1e-9
        assert exact <= fmt_numerical(senders, epsilon0, delta) + 1e-9


@pytest.mark.parametrize("name", mechanisms())
def test_a_shuffled_batch_of_real_clients_keeps_the_protocols_claim(name: str) -> None:
    """At the epsilon0 that the protocol chooses; a twin that takes three times as much is caught."""
    ballot, epsilon, delta = Ballot(num_queries=1, num_classes=2), Fraction(2, 5), Fraction(1, 100)
    protocol = ShuffleSingle(ballot=ballot, epsilon=epsilon, delta=delta, senders=2, mechanism=name)
    kept, loud = (
        batches(client_channel(type(protocol.local), ballot, times * protocol.epsilon0), 2) for times in (1, 3)
    )
    assert exact_delta(kept, float(epsilon) / 4) > 0 and exact_delta(kept, float(epsilon)) <= delta
    assert exact_delta(loud, float(epsilon)) > delta


@pytest.mark.parametrize("epsilon0", [0.6])
def test_the_closed_form_covers_real_clients_in_its_regime(epsilon0: float) -> None:
    """A single cell, so that a batch of 60 messages is a count; where the formula is proved, and every other bound."""
    senders, delta, ballot = 60, 0.3, Ballot(num_queries=1, num_classes=1)
    for kind in (RandomizedResponse, UnaryEncoding, SubsetSelection):
        exact = exact_epsilon(batches(client_channel(kind, ballot, Fraction(epsilon0)), senders), delta)
        own = variation_ratio(senders, epsilon0, delta, kind.tells(ballot)).upper
        for bound in (closed_form(senders, epsilon0, delta), fmt_numerical(senders, epsilon0, delta), own):
            assert exact <= bound + 1e-9


def test_the_published_reduction_is_too_small_where_ours_is_not() -> None:
    """Two senders who both hold record 0, three answers, epsilon0 = 2: the batch {0, 0} alone exceeds the theorem."""
    e, f = math.exp(2.0), math.exp(1.5)
    exact = exact_delta(batches(k_ary_channel(2.0, 3), 2), 1.5)
    assert exact == pytest.approx((e * e - f * e) / (e + 2) ** 2)
    published = Clones(hit=e / (e + 2), miss=1 / (e + 2), blanket=1 / (e + 2))  # whatever is off side hides ours
    assert published.delta(1.5, senders=2).upper < 0.98 * exact
    assert k_ary(3)(2.0).clones.delta(1.5, senders=2).lower > exact


def test_the_bound_is_attained_up_to_a_hair_by_many_senders() -> None:
    for senders, epsilon0 in ((10_000, 1.0), (100_000, 3.0)):
        bounds = variation_ratio(senders, epsilon0, 1e-6, k_ary(3))
        assert 0.97 * bounds.upper < bounds.lower <= bounds.upper


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.2])
def test_a_smaller_distance_is_covered(epsilon: float) -> None:
    """Pairs of records closer than beta cost no more, although fewer senders are their clones."""
    p = q = math.exp(1.5)
    most = (p - 1) / (p + 1)
    deltas = [
        Variation(p=p, beta=part * most, q=q).clones.delta(epsilon, senders=40) for part in np.linspace(0.05, 1, 20)
    ]
    assert all(closer.lower <= farther.upper for closer, farther in pairwise(deltas))


def test_the_witness_of_two_cells_is_attained_where_votes_can_be_disjoint() -> None:
    crowded = Hashing(domain=4, capacity=2, epsilon=Fraction(1), buckets=3, independence=3)
    votes = [(a, b) for a in range(-1, 4) for b in range(a + 1, 4)] + [(NOBODY, NOBODY)]
    rows = sent_channel([lambda walk, points=points: crowded.randomize(np.array([points]), walk) for points in votes])
    for delta in (0.05, 0.2):
        witness = variation_ratio(1, 1.0, delta, collision(2, lambda _: 3)).lower
        assert witness <= exact_epsilon(batches(rows, 1), delta) + 1e-9


def test_a_beta_that_is_too_small_is_caught() -> None:
    """The broken twin: leave out ten per cent of the distance, and the enumerated batch exceeds the bound."""
    honest = k_ary(3)(1.0)
    broken = Variation(p=honest.p, beta=0.9 * honest.beta, q=honest.q)
    delta = exact_delta(batches(k_ary_channel(1.0, 3), 5), 0.2)
    assert delta <= honest.clones.delta(0.2, senders=5).upper
    assert delta > broken.clones.delta(0.2, senders=5).upper


# The table to match: closed form, FMT numerical, variation-ratio for any mechanism, and for Collision with one cell.
TABLE = {
    (30_000, 1.0): (0.129, 0.030, 0.024, 0.019),
    (30_000, 4.0): (0.832, 0.349, 0.227, 0.156),
    (60_000, 1.0): (0.093, 0.021, 0.017, 0.013),
    (60_000, 4.0): (0.649, 0.230, 0.156, 0.108),
}


def best_buckets(epsilon0: float) -> int:
    return round(1 + math.exp(epsilon0))


@pytest.mark.parametrize(("senders", "epsilon0"), TABLE)
def test_the_published_table_is_matched_or_beaten(senders: int, epsilon0: float) -> None:
    answers = amplify(senders, epsilon0, 1e-6, mechanism=collision(1, best_buckets)).answers
    for answer, published in zip(answers, TABLE[senders, epsilon0], strict=True):
        assert answer.upper is not None
        assert answer.lower <= answer.upper
        # The table is rounded to three digits. Its last column comes from the theorem that is too small by up to 1 %.
        assert answer.upper <= (published + 5e-4) * (1.01 if answer is answers[-1] else 1)
    uppers = [answer.upper for answer in answers]
    assert uppers == sorted(uppers, reverse=True), "from loose to tight"
    counted = variation_ratio(senders, epsilon0, 1e-6, collision(1, best_buckets, collisions_counted=True))
    assert counted.upper <= TABLE[senders, epsilon0][-1] + 5e-4, "colliding hashes make up for it"


def test_a_million_senders_take_a_moment() -> None:
    start = time.process_time()
    variation_ratio(10**6, 1.0, 1e-6, any_mechanism)
    largest_epsilon0(0.1, 1e-6, senders=10**6)
    assert time.process_time() - start < 30  # one sender after the other would take hours


def test_the_closed_form_refuses_to_leave_its_regime() -> None:
    most = math.log(30_000 / (16 * math.log(2e6)))
    assert closed_form(30_000, 0.999 * most, 1e-6) > 0
    with pytest.raises(OutOfRegime, match=r"epsilon0 must be <= .* got 4\.9"):
        closed_form(30_000, 4.9, 1e-6)
    with pytest.raises(OutOfRegime):
        closed_form(100, 0.1, 1e-6)
    answer = amplify(30_000, 6.0, 1e-6).answers[0]
    assert answer.upper is None
    assert "epsilon0 must be" in answer.note


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("mechanism", [any_mechanism, collision(1, best_buckets), randomized_response(2)])
def test_the_inverse_meets_its_target_and_leaves_little_unused(epsilon: float, mechanism: LocalMechanism) -> None:
    senders, delta = 20_000, 1e-7
    epsilon0 = largest_epsilon0(epsilon, delta, senders=senders, mechanism=mechanism)
    assert epsilon0 >= epsilon
    assert variation_ratio(senders, epsilon0, delta, mechanism).upper <= epsilon * (1 + 1e-4)
    assert variation_ratio(senders, 1.1 * epsilon0, delta, mechanism).upper > epsilon


def test_every_inverse_errs_on_the_private_side() -> None:
    senders, delta, epsilon = 50_000, 1e-6, 0.2
    by_formula = largest_epsilon0_closed_form(epsilon, delta, senders=senders)
    by_clones = largest_epsilon0_fmt(epsilon, delta, senders=senders)
    assert closed_form(senders, by_formula, delta) <= epsilon
    assert fmt_numerical(senders, by_clones, delta) <= epsilon * (1 + 1e-4)
    assert by_formula < by_clones < largest_epsilon0(epsilon, delta, senders=senders)
    assert largest_epsilon0(epsilon, delta, senders=1) == pytest.approx(epsilon, rel=1e-4)
    assert largest_epsilon0_closed_form(epsilon, delta, senders=10) == epsilon


def test_amplification_is_never_above_the_local_epsilon() -> None:
    for accountant in (fmt_numerical, lambda *args: variation_ratio(*args, any_mechanism).upper):
        assert accountant(2, 0.7, 1e-9) <= 0.7


def test_the_answer_prints_as_json() -> None:
    shown = amplify(1_000, 0.5, 1e-5, target=0.3).as_dict()
    assert json.loads(json.dumps(shown)) == shown
    assert shown["epsilon"] == min(a["upper"] for a in shown["answers"] if a["upper"] is not None)
    assert shown["target"] == 0.3


def test_bad_parameters_are_one_line() -> None:
    for call in (
        lambda: amplify(0, 1.0, 1e-6),
        lambda: amplify(10, float("nan"), 1e-6),
        lambda: amplify(10, 1.0, 0.0),
        lambda: largest_epsilon0(-1.0, 1e-6, senders=10),
        lambda: k_ary(1),
        lambda: collision(2, lambda _: 2)(1.0),
        lambda: collision(2, lambda _: 5, collisions_counted=True),
        lambda: subset_selection(4, lambda _: 4)(1.0),
        lambda: Variation(p=2.0, beta=0.5, q=2.0),
        lambda: Variation(p=2.0, beta=0.3, q=1.2),
    ):
        with pytest.raises(InvalidInput) as error:
            call()
        assert "\n" not in str(error.value)


def test_enumeration_agrees_with_a_count_of_two_answers() -> None:
    """The oracle against another: two answers shuffled are a binomial count."""
    keep = math.e / (math.e + 1)
    p = np.convolve([keep, 1 - keep], [keep, 1 - keep])
    q = np.convolve([1 - keep, keep], [keep, 1 - keep])
    assert exact_delta(batches(k_ary_channel(1.0, 2), 2), 0.1) >= np.maximum(p - math.exp(0.1) * q, 0).sum() - 1e-12
