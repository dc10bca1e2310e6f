from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit, exact, rounded_down, rounded_up

guarantees = st.builds(
    Guarantee,
    epsilon=st.fractions(min_value=Fraction(1, 10**6), max_value=100),
    delta=st.fractions(min_value=0, max_value=Fraction(1, 100)),
    neighbours=st.sampled_from(Neighbours),
    trust=st.sampled_from(Trust),
    unit=st.sampled_from(Unit),
    honest_parties=st.none() | st.integers(1, 10**6),
    insider_epsilon=st.none() | st.fractions(min_value=Fraction(1, 10**6), max_value=100),
    private=st.booleans(),
)


@pytest.mark.parametrize(
    "written", [0.1, "0.1", "1/10", Decimal("0.1"), np.float64(0.1), np.float32(0.1), Fraction(1, 10)]
)
def test_a_tenth_is_a_tenth_however_it_is_written(written: Any) -> None:
    assert exact(written) == Fraction(1, 10)
    assert 3 * exact(written) <= exact("0.3") == exact(0.3)


NONE = [float("nan"), float("inf"), "1/0", "much", None, True, [1], 1j, np.float64("nan"), Decimal("inf")]
ENDLESS = ["1e616000000", "1e-616000000", "1e99_99_99_99", "1e" + 9 * "\u0669", "9" * 50_000]  # to compute with


@pytest.mark.timeout(60)
@pytest.mark.parametrize("written", [*NONE, *ENDLESS], ids=lambda written: repr(written)[:20])
def test_what_is_not_a_finite_number_is_refused(written: Any) -> None:
    with pytest.raises(InvalidInput, match="a privacy parameter must be a finite number, got"):
        exact(written)
    with pytest.raises(InvalidInput, match="epsilon must be a finite number, got"):
        Guarantee(epsilon=written)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epsilon": 0}, "epsilon must be > 0"),
        ({"epsilon": -1}, "epsilon must be > 0"),
        ({"epsilon": 1, "delta": 1}, r"delta must lie in \[0, 1\), got 1.0"),
        ({"epsilon": 1, "delta": -0.1}, r"delta must lie in \[0, 1\), got -0.1"),
        ({"epsilon": 1, "honest_parties": 0}, "honest_parties must be a whole number >= 1, got 0"),
        ({"epsilon": 1, "neighbours": "twin"}, "neighbours must be one of 'replace', 'add-remove', got 'twin'"),
        ({"epsilon": 1, "trust": "blind"}, "trust must be one of"),
        ({"epsilon": 1, "unit": "town"}, "unit must be one of"),
    ],
)
def test_a_promise_that_means_nothing_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Guarantee(**fields)


@given(guarantees)
def test_a_guarantee_survives_being_written_down(guarantee: Guarantee) -> None:
    assert Guarantee(**guarantee.to_json()) == guarantee


@given(guarantees, st.integers(1, 20))
def test_counting_is_repeating(guarantee: Guarantee, times: int) -> None:
    one_by_one = guarantee
    for _ in range(times - 1):
        one_by_one = one_by_one + guarantee
    assert guarantee.repeated(times) == one_by_one


@given(guarantees, guarantees)
def test_promises_about_different_things_do_not_add_up(one: Guarantee, two: Guarantee) -> None:
    alike = all(getattr(one, name) == getattr(two, name) for name in ("neighbours", "unit", "trust"))
    if not alike:
        with pytest.raises(InvalidInput, match=r"guarantees must share their (neighbours|unit|trust) to be added"):
            one + two
        return
    both = one + two
    assert both == two + one
    assert (both.epsilon, both.delta) == (one.epsilon + two.epsilon, one.delta + two.delta)
    assert both.private == (one.private and two.private)
    assert (both.honest_parties or 0) == max(one.honest_parties or 0, two.honest_parties or 0)


def test_promises_that_add_up_to_nothing_are_refused() -> None:
    half = Guarantee(epsilon=Fraction(1), delta=Fraction(1, 2))
    with pytest.raises(InvalidInput, match=r"delta must lie in \[0, 1\)"):
        half + half


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_four_digits_round_to_the_safe_side(value: Fraction) -> None:
    assert Fraction(rounded_down(value)) <= value <= Fraction(rounded_up(value))
    assert Fraction(rounded_up(value)) - Fraction(rounded_down(value)) <= value / 1000


@given(guarantees.filter(lambda guarantee: guarantee.private))
def test_the_printed_epsilon_is_never_smaller_than_the_true_one(guarantee: Guarantee) -> None:
    printed = str(guarantee).partition("e^")[2].partition(" ")[0].rstrip(",")
    assert Fraction(printed) >= guarantee.epsilon


def test_a_guarantee_reads_as_one_honest_sentence() -> None:
    assert str(Guarantee(epsilon=Fraction(1, 3))) == (
        "Pure differential privacy, central trust: replacing any one record by any other changes the probability of "
        "any outcome by a factor of at most e^0.3334 (whoever runs the release is trusted with the records' votes)."
    )
    shuffled = Guarantee(
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6),
        neighbours=Neighbours.ADD_REMOVE,
        unit=Unit.CLIENT,
        trust=Trust.SHUFFLE,
        honest_parties=30_000,
    )
    for words in (
        "Approximate differential privacy, shuffle trust",
        "adding or removing everything one client holds",
        "plus a probability of at most 1e-06",
        "at least 30,000 parties are assumed to add noise honestly and to keep it secret",
        "a sender who reads the release, and knows the own noise, is not counted",
    ):
        assert words in str(shuffled)
    assert str(Guarantee(epsilon=Fraction(1), private=False)).startswith("NOT PRIVATE")


@given(
    st.lists(st.integers(1, 50), min_size=2, max_size=6),
    st.integers(0, 2**32 - 1),
    st.fractions(Fraction(1, 10), 5),
    st.sampled_from([Fraction(0), Fraction(1, 1000), Fraction(1, 10)]),
)
def test_no_guess_between_neighbours_is_right_more_often_than_the_odds_say(
    weights: list[int], seed: int, epsilon: Fraction, delta: Fraction
) -> None:
    """Two laws of a release that keep (epsilon, delta) both ways, and the best guess of which of them it came from."""
    one = np.array(weights, dtype=float) / sum(weights)
    tilt = one * np.exp(float(epsilon) * np.random.default_rng(seed).uniform(-0.5, 0.5, len(one)))
    other = (1 - float(delta)) * tilt / tilt.sum()
    one, other = np.append(one * (1 - float(delta)), [delta, 0]), np.append(other, [0, delta])
    promise = Guarantee(epsilon=epsilon, delta=delta)
    best = 0.5 * float(np.maximum(one, other).sum())
    assert best <= promise.certainty + 1e-12
    assert best / (1 - best) <= float(promise._odds) * (1 + 1e-9)
    if delta == 0:  # and no single release says more
        sure = np.maximum(one, other)[one + other > 0] / (one + other)[one + other > 0]
        assert sure.max() <= promise.certainty + 1e-12


def test_the_odds_are_reached_and_read_as_two_sentences() -> None:
    """Randomized response reaches the bound: half a point of certainty less would be false."""
    e = math.e
    one, other = (
        np.array([0.9 * e, 0.9, 0.1 * (1 + e), 0]) / (1 + e),
        np.array([0.9, 0.9 * e, 0, 0.1 * (1 + e)]) / (1 + e),
    )
    approximate = Guarantee(epsilon=1, delta=Fraction(1, 10))
    assert 0.5 * float(np.maximum(one, other).sum()) == pytest.approx(approximate.certainty)
    assert Guarantee(epsilon=1).certainty == pytest.approx(e / (1 + e))
    assert Guarantee(epsilon=1).as_odds() == (
        "In odds: suppose an attacker knows everything but which of two versions of one record was used, and "
        "this is an even bet (1 to 1). All that is released can bring the odds to at most 2.719 to 1: 73.2 % sure "
        "instead of 50 %."
    )
    told = replace(approximate, neighbours=Neighbours.ADD_REMOVE, delta=Fraction(1, 10**5)).as_odds()
    assert "everything but whether one record was used" in told and "right in at most 73.2 % of all cases" in told
    assert (
        "next to no limit" in Guarantee(epsilon=20).as_odds()
        and "seed" in Guarantee(epsilon=1, private=False).as_odds()
    )


def test_only_odds_beyond_a_million_are_said_to_lie_there() -> None:
    """The logarithm of a million is 13.8155."""
    assert "at most 442,414 to 1: 100.0 % sure" in Guarantee(epsilon=13).as_odds()
    assert "at most 999,999 to 1" in Guarantee(epsilon=Fraction(138155095, 10**7)).as_odds()
    for epsilon in (Fraction(1381551056, 10**8), 10**6):
        assert "more than a million to 1" in Guarantee(epsilon=epsilon).as_odds()
    nearly_all = Guarantee(epsilon=1, delta=Fraction(10**7 - 1, 10**7))
    assert "more than a million to 1" in nearly_all.as_odds()


def test_the_sentence_says_what_holds_against_a_reader_who_added_noise() -> None:
    summed = {"epsilon": Fraction(1), "trust": Trust.DISTRIBUTED, "honest_parties": 2}
    weaker = str(Guarantee(**summed, insider_epsilon=Fraction(22751, 10000)))  # type: ignore[arg-type]
    assert "at most e^1 (" in weaker
    assert "against a reader who added noise, and takes it away, only a factor of at most e^2.276 holds" in weaker
    same = str(Guarantee(**summed, insider_epsilon=Fraction(1)))  # type: ignore[arg-type]
    assert "it holds against a reader who added noise, too" in same
    alone = str(Guarantee(epsilon=Fraction(1), trust=Trust.DISTRIBUTED, honest_parties=1))
    assert "one party is assumed to add noise honestly and to keep it secret, and that one could take" in alone


def test_what_holds_against_insiders_is_unknown_for_two_releases_if_it_is_for_one() -> None:
    known, unknown = Guarantee(epsilon=1, insider_epsilon=2), Guarantee(epsilon=1)  # type: ignore[arg-type]
    assert (known + known).insider_epsilon == known.repeated(2).insider_epsilon == 4
    assert (known + unknown).insider_epsilon is (unknown + known).insider_epsilon is None


def test_who_accepts_central_trust_accepts_all_and_all_accept_local() -> None:
    covers = {(one, two) for one in Trust for two in Trust if one.covers(two)}
    assert covers == {
        *((Trust.CENTRAL, other) for other in Trust),
        *((other, Trust.LOCAL) for other in Trust),
        *((other, other) for other in Trust),
    }


def test_replacing_changes_two_records() -> None:
    assert [neighbours.records_changed for neighbours in (Neighbours.REPLACE, Neighbours.ADD_REMOVE)] == [2, 1]
