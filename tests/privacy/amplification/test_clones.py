from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordwise.errors import InvalidInput, OutOfRegime
from recordwise.privacy.amplification.clones import ROUNDING, Clones, _tail

Counts = tuple[int, int, int]


def counts_law(clones: Clones, senders: int, hit: Fraction, miss: Fraction) -> dict[Counts, Fraction]:
    """The law of the counts (A, B, neither, of clones and ours) in rational arithmetic, message by message."""
    blanket, cloned = Fraction(clones.blanket), Fraction(clones.cloned)
    ours = (hit, miss, 1 - hit - miss, Fraction(0))
    other = (cloned * blanket, cloned * blanket, cloned * (1 - 2 * blanket), 1 - cloned)
    law: dict[Counts, Fraction] = {(0, 0, 0): Fraction(1)}
    for chances in [ours] + [other] * (senders - 1):
        longer: dict[Counts, Fraction] = {}
        for (a, b, c), weight in law.items():
            for key, chance in zip(((a + 1, b, c), (a, b + 1, c), (a, b, c + 1), (a, b, c)), chances, strict=True):
                longer[key] = longer.get(key, Fraction(0)) + weight * chance
        law = longer
    return law


def rational_delta(clones: Clones, senders: int, epsilon: float) -> float:
    hit, miss = Fraction(clones.hit), Fraction(clones.miss)
    p, q = counts_law(clones, senders, hit, miss), counts_law(clones, senders, miss, hit)
    factor = Fraction(math.exp(epsilon))
    return float(sum(max(Fraction(0), p[key] - factor * q[key]) for key in p))


@st.composite
def three_ways(draw: st.DrawFn) -> Clones:
    hit = draw(st.floats(0.05, 0.95))
    miss = draw(st.floats(0.0, min(hit, 1 - hit)))
    return Clones(hit=hit, miss=miss, blanket=draw(st.floats(0.01, 0.5)), cloned=draw(st.floats(0.1, 1)))


@given(clones=three_ways(), senders=st.integers(1, 6), epsilon=st.floats(0, 3))
@settings(max_examples=100, deadline=None)
def test_delta_brackets_the_exact_sum_over_both_counts(clones: Clones, senders: int, epsilon: float) -> None:
    exact = rational_delta(clones, senders, epsilon)
    bounds = clones.delta(epsilon, senders=senders)
    assert bounds.lower <= exact <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-7


def test_no_finite_epsilon_is_given_where_there_is_none() -> None:
    """Without misses, and with clones that may all fall elsewhere, delta stays above 0.29 however large epsilon is."""
    clones = Clones(hit=0.75, miss=0.0, blanket=0.5, cloned=0.75)
    for epsilon in np.linspace(20, 80, 200):
        assert clones.delta_above(float(epsilon), senders=3, left_out=1e-12) > 0.29
    assert clones.epsilon(0.25, senders=3).upper == math.inf


@given(clones=three_ways(), senders=st.integers(1, 6), delta=st.floats(1e-6, 0.3))
@settings(max_examples=50, deadline=None)
def test_epsilon_is_checked_on_both_sides(clones: Clones, senders: int, delta: float) -> None:
    bounds = clones.epsilon(delta, senders=senders)
    assert bounds.lower <= bounds.upper
    if math.isfinite(bounds.upper):
        assert rational_delta(clones, senders, bounds.upper) <= delta * (1 + 1e-9)
    if bounds.lower > 0:
        assert rational_delta(clones, senders, bounds.lower) >= delta * (1 - 1e-9)


@given(clones=three_ways(), senders=st.integers(1, 400), more=st.integers(1, 400), epsilon=st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_more_senders_hide_one_better(clones: Clones, senders: int, more: int, epsilon: float) -> None:
    assert clones.delta(epsilon, senders=senders + more).lower <= clones.delta(epsilon, senders=senders).upper


@pytest.mark.parametrize("trials", [10, 1_000, 100_000, 10_000_000])
def test_binomial_tails_are_a_hundred_times_closer_than_the_rounding_charged(trials: int) -> None:
    with mpmath.workdps(40):
        for deviations in (0.5, 3, 6):
            first = min(trials, int(trials / 2 + deviations * math.sqrt(trials) / 2))
            term = mpmath.exp(
                mpmath.loggamma(trials + 1)
                - mpmath.loggamma(first + 1)
                - mpmath.loggamma(trials - first + 1)
                - trials * mpmath.log(2)
            )
            exact, value = mpmath.mpf(0), first
            while value <= trials and term > exact * mpmath.mpf(10) ** -18:
                exact += term
                term, value = term * (trials - value) / (value + 1), value + 1
            ours = _tail(np.array([float(trials)]), np.array([float(first)]))[0]
            assert abs(mpmath.mpf(float(ours)) / exact - 1) < ROUNDING / 100


def test_blocks_of_clones_cost_little() -> None:
    clones = Clones(hit=0.5, miss=0.2, blanket=0.3, cloned=0.4)
    bounds = clones.epsilon(1e-6, senders=1_000_000)
    assert bounds.lower < bounds.upper < 1.01 * bounds.lower


def test_a_wrong_number_is_refused() -> None:
    with pytest.raises(InvalidInput, match="miss <= hit"):
        Clones(hit=0.2, miss=0.3, blanket=0.1)
    with pytest.raises(InvalidInput, match="blanket"):
        Clones(hit=0.3, miss=0.2, blanket=float("nan"))
    clones = Clones(hit=0.3, miss=0.2, blanket=0.1)
    with pytest.raises(InvalidInput, match="epsilon"):
        clones.delta(float("nan"), senders=10)
    with pytest.raises(InvalidInput, match="senders"):
        clones.delta(1.0, senders=0)
    with pytest.raises(InvalidInput, match="delta"):
        clones.epsilon(0.0, senders=10)
    with pytest.raises(OutOfRegime, match="certified"):
        clones.delta(1.0, senders=10**10)
