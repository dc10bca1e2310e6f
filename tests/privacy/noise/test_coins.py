from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binomtest
from tape import FALSE_FAILURE, Tape, interval, near, strata

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise, SystemNoise, bernoulli, bernoulli_exp, exp
from recordwise.privacy.noise.uniform import MARGIN

EPSILON = Fraction(2, 5)


@pytest.fixture(autouse=True)
def _high_precision():
    with mpmath.workprec(1000):
        yield


def collision_hit(epsilon: Fraction, cells: int, buckets: int):
    return exp(epsilon) / (cells * exp(epsilon) + buckets - cells)


def test_a_coin_lands_at_the_stated_rate():
    n = 4_000_000
    heads = int(bernoulli(collision_hit(EPSILON, 2, 7), n, SystemNoise()).sum())
    assert binomtest(heads, n, float(collision_hit(EPSILON, 2, 7))).pvalue > FALSE_FAILURE
    assert binomtest(heads, n, float(collision_hit(EPSILON * 11 / 10, 2, 7))).pvalue < FALSE_FAILURE  # 10 % off is seen


@pytest.mark.parametrize("agreeing", [1, 2, 3])
def test_a_coin_is_decided_by_its_bits_alone(agreeing):
    probability = collision_hit(EPSILON, 2, 7)
    e = mpmath.exp(mpmath.mpf(2) / 5)
    truth = e / (2 * e + 5)
    for words in near(truth, agreeing):
        # The first 16 bits are the lowest digit of the first word; the rest of that word is not used.
        first, rest = words[0] >> 48, ((words[0] << 16) % 2**64 | (words[1] >> 48 if agreeing > 1 else 0))
        following = [
            (words[i] << 16) % 2**64 | (words[i + 1] >> 48 if i + 1 < agreeing else 0) for i in range(1, agreeing)
        ]
        tape = Tape([first, rest, *following])
        (result,) = bernoulli(probability, 1, tape)
        value, count = first, 16
        for word in tape.played[1:]:
            value, count = (value << 64) | word, count + 64
        unit = mpmath.mpf(2) ** -count
        assert ((value + 1) * unit <= truth) if result else (truth <= value * unit)


def test_every_first_digit_once_gives_the_probability_to_within_one_digit():
    every_digit = np.arange(2**16, dtype=np.uint16).view(np.uint64)
    for probability in (Fraction(1, 3), exp(Fraction(-1, 100)), collision_hit(EPSILON, 3, 9)):
        heads = int(bernoulli(probability, 2**16, Tape(every_digit)).sum())
        assert abs(heads - 2**16 * float(probability)) <= 1


@pytest.mark.parametrize(("probability", "outcome"), [(0, False), (1, True), (Fraction(0), False), (Fraction(1), True)])
def test_certainty_is_certain(probability, outcome):
    assert (bernoulli(probability, 10_000, SystemNoise()) == outcome).all()


@pytest.mark.parametrize("probability", [Fraction(-1, 10**9), Fraction(10**9 + 1, 10**9), exp(Fraction(1))])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(InvalidInput, match="probability must lie in"):
        bernoulli(probability, 3, SystemNoise())


def test_coins_come_in_any_shape():
    assert bernoulli(Fraction(1, 2), (3, 0, 5), SystemNoise()).shape == (3, 0, 5)
    assert bernoulli(Fraction(1, 2), 7, SystemNoise()).shape == (7,)
    assert bernoulli_exp(np.zeros((2, 3), dtype=np.int64), Fraction(1), SystemNoise()).all()


def test_exponential_coins_follow_their_exponents():
    n, scale = 200_000, Fraction(7, 2)
    coins = bernoulli_exp(np.tile([0, 1, 5, 40], (n, 1)), scale, SystemNoise())
    for numerator, heads in zip([1, 5, 40], coins.sum(axis=0)[1:], strict=True):
        assert binomtest(int(heads), n, np.exp(-numerator / 3.5)).pvalue > FALSE_FAILURE
    assert coins[:, 0].all()
    assert binomtest(int(coins[:, 1].sum()), n, np.exp(-1 / 4)).pvalue < FALSE_FAILURE  # 14 % off is seen


def test_every_prefix_once_gives_the_exponential_to_within_one_prefix():
    words = strata(12)
    for numerator, scale in ((1, Fraction(1)), (3, Fraction(1000, 7)), (2, Fraction(1, 3))):
        heads = int(bernoulli_exp(np.full(len(words), numerator), scale, Tape(words)).sum())
        assert abs(heads - len(words) * np.exp(-numerator / float(scale))) <= 1


def test_the_floats_stay_far_inside_the_margin(monkeypatch):
    seen = []

    def watch(approximate, exact, noise):
        seen.extend(abs(value - float(exact(i))) for i, value in enumerate(approximate))
        return np.zeros(approximate.shape, dtype=bool)

    monkeypatch.setattr("recordwise.privacy.noise.coins.below", watch)
    for scale in (Fraction(1, 1000), Fraction(1, 3), Fraction(20), Fraction(10**7), Fraction(10**15, 3)):
        numerators = np.unique(np.geomspace(1, 40 * float(scale) + 2, 60).astype(np.int64))
        bernoulli_exp(numerators, scale, SystemNoise())
    assert max(seen) < MARGIN / 1000


def test_negative_exponents_and_scales_are_refused():
    with pytest.raises(InvalidInput, match="numerators must be >= 0"):
        bernoulli_exp(np.array([1, -1]), Fraction(1), SystemNoise())
    with pytest.raises(InvalidInput, match="scale must be > 0"):
        bernoulli_exp(np.array([1]), Fraction(0), SystemNoise())


def test_exponential_coins_are_decided_by_their_bits_alone():
    truth = mpmath.exp(-mpmath.mpf(10) / 7)
    for agreeing in (1, 2, 3):
        for words in near(truth, agreeing):
            tape = Tape(words)
            (result,) = bernoulli_exp(np.array([10]), Fraction(7), tape)
            low, high = interval(tape.played)
            assert (high <= truth) if result else (truth <= low)


@pytest.mark.parametrize("scale", [3, 3.0, "3"])
def test_a_scale_written_in_any_way_is_the_same_exact_number(scale, monkeypatch):
    numerators = np.arange(50)
    expected = bernoulli_exp(numerators, Fraction(3), SeededNoise(0))
    monkeypatch.setattr("recordwise.privacy.noise.uniform.MARGIN", 2.0)  # the exact path must understand it too
    np.testing.assert_array_equal(bernoulli_exp(numerators, scale, SeededNoise(0)), expected)
