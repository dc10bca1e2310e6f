from __future__ import annotations

import tracemalloc
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from tape import FALSE_FAILURE, Tape, interval, mp, near, strata, worst_p_value

from recordwise.privacy.noise import DiscreteLaplace, SeededNoise, SystemNoise, log

SCALES = [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(20), Fraction(12345, 7), Fraction(10**7)]


@pytest.fixture(autouse=True)
def _high_precision():
    with mpmath.workprec(1000):
        yield


def at_least(scale: Fraction, magnitude: int) -> mpmath.mpf:
    """P(|Z| >= magnitude), by another library's arithmetic."""
    a = mpmath.exp(-1 / mp(scale))
    return 2 * a**magnitude / (1 + a) if magnitude > 0 else mpmath.mpf(1)


def certified(z: int, words: list[int], scale: Fraction) -> bool:
    """Whether every real that begins with these words stands for |z|, and the sign bit for its sign."""
    low, high = interval(words, dropped=1)
    sign_fits = z == 0 or (z < 0) == bool(words[0] & 1)
    return sign_fits and at_least(scale, abs(z) + 1) <= low and high <= at_least(scale, abs(z))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("agreeing", [1, 2, 3])
def test_bits_next_to_a_threshold_are_read_until_they_certify_the_outcome(scale, agreeing):
    for magnitude in {1, 2, max(1, round(scale / 2)), round(scale) + 1, round(5 * scale) + 1}:
        for words in near(at_least(scale, magnitude) / 2, agreeing):
            # The sign takes the last bit of the first word, so the real begins one bit further left.
            value = 0
            for word in words:
                value = (value << 64) | word
            value <<= 1
            first = value >> 64 * (agreeing - 1)
            rest = value & ((1 << 64 * (agreeing - 1)) - 1)
            others = [(rest >> 64 * i) & (2**64 - 1) for i in reversed(range(agreeing - 1))]
            tape = Tape([(first & ~1) | (agreeing % 2), *others])
            (z,) = DiscreteLaplace(scale).sample(1, tape)
            assert certified(int(z), tape.played, scale)


@pytest.mark.parametrize("scale", SCALES)
def test_random_bits_certify_their_outcome(scale):
    tape = Tape([])
    draws = DiscreteLaplace(scale).sample(400, tape)
    assert all(certified(int(z), [word], scale) for z, word in zip(draws, tape.played, strict=False))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(1), Fraction(20)])
@pytest.mark.parametrize("threshold", [1 << 44, 1 << 63], ids=["fast", "exact"])
def test_every_prefix_once_gives_each_value_its_probability_to_within_one_prefix(scale, threshold, monkeypatch):
    monkeypatch.setattr("recordwise.privacy.noise.staircase.SMALL_WORD", threshold)
    words = strata(11)
    both_signs = np.concatenate([words, words | np.uint64(1)])
    draws = DiscreteLaplace(scale).sample(len(both_signs), Tape(both_signs))
    values = np.arange(-200, 201)
    seen = np.array([(draws == value).sum() for value in values]) / len(both_signs)
    assert np.abs(seen - DiscreteLaplace(scale).pmf(values)).max() <= 1 / len(words)


def test_the_floats_keep_what_the_staircase_asks_of_them(monkeypatch):
    """The offset and stretch describe the thresholds to the accuracy that the margin takes for granted."""
    errors = []

    def watch(firsts, bits, offset, stretch, at_least, noise):
        for k in np.unique(np.geomspace(1, 40 * stretch + 2, 30).astype(int)):
            described = offset - stretch * float(log(at_least(0, int(k))))
            errors.append(abs(described - k) / (stretch + k))
        return np.zeros(len(firsts), dtype=np.int64)

    monkeypatch.setattr("recordwise.privacy.noise.laplace.staircase", watch)
    for scale in SCALES[1:]:
        DiscreteLaplace(scale).sample(1, SystemNoise())
    assert max(errors) < 2.0**-48  # the margin allows 2^-42


def test_large_scales_follow_the_law_too():
    n, scale = 1_000_000, Fraction(10**7)
    draws = DiscreteLaplace(scale).sample(n, SystemNoise())
    edges = np.arange(-3, 4) * 10**7
    a = np.exp(-1e-7)

    def below(edge, a):  # P(Z < edge)
        tail = np.exp(np.log(a) * np.abs(edge)) / (1 + a)
        return np.where(edge <= 0, a * tail, 1 - tail)

    bins = np.searchsorted(edges, draws, side="right")
    for law, fits in ((a, True), (np.exp(-1.05e-7), False)):
        cumulative = np.concatenate([[0], below(edges, law), [1]])
        assert (worst_p_value(bins, np.arange(7), np.diff(cumulative)[:7]) > FALSE_FAILURE) is fits


def test_ten_million_draws_need_no_memory_beyond_the_result():
    tracemalloc.start()
    try:
        draws = DiscreteLaplace(Fraction(20)).sample(10_000_000, SeededNoise(0))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert draws.nbytes == 80_000_000
    assert peak < draws.nbytes + 8_000_000


def test_the_largest_and_smallest_scales_work():
    assert np.abs(DiscreteLaplace(Fraction(2**40)).sample(20, SystemNoise())).max() > 2**30
    assert (DiscreteLaplace(Fraction(1, 2**40)).sample(10_000, SystemNoise()) == 0).all()
