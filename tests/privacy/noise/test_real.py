from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tape import mp

from recordwise.errors import InvalidInput
from recordwise.privacy.noise.real import _exp, _log, exp, less, log, real

rationals = st.fractions(min_value=-300, max_value=300, max_denominator=10**9)
bits = st.sampled_from([1, 16, 64, 200, 700])


@pytest.fixture(autouse=True)
def _high_precision():
    with mpmath.workprec(4000):
        yield


def encloses(number, truth, bits: int) -> bool:
    low, high = number.bounds(bits)
    return low <= truth * mpmath.mpf(2) ** bits <= high and high - low <= 2


@given(rationals, bits)
def test_exponentials_lie_in_their_enclosures(x, bits):
    assert encloses(exp(x), mpmath.exp(mp(x)), bits)


@given(st.fractions(min_value=Fraction(1, 10**40), max_value=10**12), bits)
def test_logarithms_lie_in_their_enclosures(x, bits):
    assert encloses(log(x), mpmath.log(mp(x)), bits)


@given(rationals, rationals, bits)
def test_arithmetic_lies_in_its_enclosures(x, y, bits):
    e, f = exp(x / 100), real(y)
    number = (1 - e * f) / (3 + e) + log(1 + e) * 2 - f / 7 - 1 / (e + 1)
    t, u = mpmath.exp(mp(x / 100)), mp(y)
    truth = (1 - t * u) / (3 + t) + mpmath.log(1 + t) * 2 - u / 7 - 1 / (t + 1)
    assert encloses(number, truth, bits)


@pytest.mark.parametrize(
    "x", [Fraction(-(10**9)), Fraction(-1, 10**30), Fraction(0), Fraction(1, 10**30), Fraction(2000)]
)
def test_extreme_exponents_are_enclosed(x):
    for bits in (16, 64, 300):
        low, high = exp(x).bounds(bits)
        truth = mpmath.exp(mp(x)) * mpmath.mpf(2) ** bits
        assert low <= truth <= high
        assert high - low <= 2


def test_numbers_that_nearly_agree_are_told_apart():
    x = exp(Fraction(1, 3))
    assert less(x, x + Fraction(1, 2**500))
    assert not less(x + Fraction(1, 2**500), x)


def test_cancellation_costs_bits_not_correctness():
    tiny = 1 - exp(Fraction(-1, 10**40))
    assert float(1 / tiny) == pytest.approx(1e40, rel=1e-12)
    assert float(log(tiny)) == pytest.approx(-40 * float(mpmath.log(10)), rel=1e-12)


def test_a_number_cannot_be_compared_with_itself():
    with pytest.raises(InvalidInput, match="must differ"):
        less(exp(Fraction(1)), exp(Fraction(1)))


def test_nothing_is_divided_by_zero():
    with pytest.raises(InvalidInput, match="stays too wide"):
        (1 / (exp(Fraction(1)) - exp(Fraction(1)))).bounds(64)


def test_floats_are_not_exactly_known_numbers():
    with pytest.raises(InvalidInput, match="must be a Fraction"):
        exp(0.1)


def test_an_exponent_beyond_all_use_is_refused():
    with pytest.raises(InvalidInput, match="exponent must lie below"):
        exp(Fraction(10**9)).bounds(64)


def test_many_coarse_enclosures_hold():
    """The roundings inside an enclosure show only once in thousands of numbers: so many thousands are tried."""
    rng = np.random.default_rng(0)
    with mpmath.workprec(120):
        for x in rng.integers(1, 2**31, size=60_000).tolist():
            low, high = _exp(-x, 32)
            assert low <= mpmath.ldexp(mpmath.exp(-mpmath.ldexp(x, -32)), 32) <= high
        for x in rng.integers(1, 2**34, size=20_000).tolist():
            low, high = _log(x, 32)
            assert low <= mpmath.ldexp(mpmath.log(mpmath.ldexp(x, -32)), 32) <= high
