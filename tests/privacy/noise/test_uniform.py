from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from tape import Tape, interval, near

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise
from recordwise.privacy.noise.real import exp
from recordwise.privacy.noise.uniform import MARGIN, Uniform, below


@pytest.fixture(autouse=True)
def _high_precision():
    with mpmath.workprec(1000):
        yield


def test_a_uniform_real_stays_the_same_number_as_its_bits_are_revealed():
    tape = Tape([3, 5, 7])
    u = Uniform(9, 4, tape)
    assert u.bounds(4) == (9, 10)
    assert u.bounds(2) == (2, 3)
    low, high = u.bounds(68 + 64)
    assert (low, high) == ((9 << 128) | (3 << 64) | 5, ((9 << 128) | (3 << 64) | 5) + 1)
    assert u.bounds(4) == (9, 10)
    assert tape.played == [3, 5]  # no bit is revealed that nobody asked for


@pytest.mark.parametrize("error", [-MARGIN / 2, 0.0, MARGIN / 2])
@pytest.mark.parametrize("agreeing", [1, 2, 4])
def test_a_coin_is_decided_by_its_bits_and_never_by_the_float(error, agreeing):
    threshold = exp(Fraction(-1, 3))
    truth = mpmath.exp(-mpmath.mpf(1) / 3)
    for words in near(truth, agreeing):
        tape = Tape(words)
        (result,) = below(np.array([float(truth) + error]), lambda _: threshold, tape)
        low, high = interval(tape.played)
        assert (high <= truth) if result else (truth <= low)  # whatever bits would follow


def test_refinement_reads_only_as_far_as_it_must():
    truth = mpmath.exp(-mpmath.mpf(1) / 3)
    far, closer = Tape([0]), Tape(near(truth, 3)[0])
    below(np.array([float(truth)]), lambda _: exp(Fraction(-1, 3)), far)
    below(np.array([float(truth)]), lambda _: exp(Fraction(-1, 3)), closer)
    assert len(far.played) == 1
    assert len(closer.played) == 4  # 64 bits, then 128, then 256


def test_a_threshold_that_is_not_a_number_goes_to_the_exact_comparison():
    decided = below(np.full(1000, np.nan), lambda _: exp(Fraction(-1, 3)), SeededNoise(0))
    trusted = below(np.full(1000, np.exp(-1 / 3)), lambda _: exp(Fraction(-1, 3)), SeededNoise(0))
    np.testing.assert_array_equal(decided, trusted)


def test_widening_the_margin_changes_no_outcome(monkeypatch):
    thresholds = np.exp(-np.arange(500) / 70)
    fast = below(thresholds, lambda i: exp(Fraction(-i, 70)), SeededNoise(0))
    monkeypatch.setattr("recordwise.privacy.noise.uniform.MARGIN", 2.0)
    slow = below(thresholds, lambda i: exp(Fraction(-i, 70)), SeededNoise(0))
    np.testing.assert_array_equal(fast, slow)


def test_a_source_that_is_stuck_is_noticed():
    class Stuck:
        private = False

        def words(self, count):
            return np.zeros(count, dtype=np.uint64)

    with pytest.raises(InvalidInput, match="must differ"):
        below(np.array([0.0]), lambda _: exp(Fraction(-(10**6))), Stuck())
