from __future__ import annotations

from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from tape import Tape, interval, mp, near, strata

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import NegativeBinomial, SeededNoise, SystemNoise, log
from recordwise.privacy.noise.negative_binomial import _log_series
from recordwise.privacy.noise.poisson import poisson
from recordwise.privacy.noise.uniform import Uniform


@pytest.fixture(autouse=True)
def _high_precision():
    with mpmath.workprec(1000):
        yield


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_every_unit_of_shape_is_one_geometric_draw_of_its_own(chunk, monkeypatch):
    """Each draw is a power of two of its own: a sum tells of which draws it is made."""
    for size, whole in product(range(8), range(1, 7)):
        drawn: list[int] = []

        def powers(scale, count, noise, drawn=drawn):
            assert count <= chunk  # memory stays bounded
            drawn.extend([1 << len(drawn) + i for i in range(count)])
            return np.array(drawn[-count:], dtype=np.int64)

        for module in ("uniform", "negative_binomial"):
            monkeypatch.setattr(f"recordwise.privacy.noise.{module}.CHUNK", chunk)
        monkeypatch.setattr("recordwise.privacy.noise.negative_binomial._geometric", powers)
        sums = NegativeBinomial(Fraction(whole), Fraction(2)).sample(size, SeededNoise(0)).tolist()
        assert [one.bit_count() for one in sums] == [whole] * size
        assert sum(sums) == sum(drawn) == (1 << whole * size) - 1  # none twice, none lost


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5), Fraction(10**7)])
def test_log_series_draws_are_certified_by_their_bits(scale):
    """Given V and U, K falls with U and grows with V: the corners of what the bits leave open must agree."""
    strength = -mpmath.log(1 - mpmath.exp(-1 / mp(scale)))

    def draw(v: mpmath.mpf, u: mpmath.mpf) -> int:
        return 1 + int(mpmath.floor(mpmath.log(u) / mpmath.log(1 - mpmath.exp(-v * strength))))

    tape = Tape([])
    drawn = _log_series(scale, 300, tape)
    for k, v, u in zip(drawn, tape.played[:300], tape.played[300:600], strict=True):
        (v_low, v_high), (u_low, u_high) = interval([v]), interval([u])
        assert draw(v_low, u_high) == draw(v_high, u_low) == k


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(5)])
def test_log_series_bits_next_to_a_threshold_are_read_until_they_certify_the_outcome(scale, monkeypatch):
    strength = -mpmath.log(1 - mpmath.exp(-1 / mp(scale)))
    revealed: list[Uniform] = []

    class Remembered(Uniform):
        def __init__(self, *args):
            super().__init__(*args)
            revealed.append(self)

    monkeypatch.setattr("recordwise.privacy.noise.negative_binomial.Uniform", Remembered)
    monkeypatch.setattr("recordwise.privacy.noise.staircase.Uniform", Remembered)
    for v, k in product((1 << 62, (1 << 63) + 12345, 99), (1, 2, 4)):
        for (u,) in near((1 - mpmath.exp(-mpmath.mpf(v) / 2**64 * strength)) ** k, 1):
            revealed.clear()
            (drawn,) = _log_series(scale, 1, Tape([v, u]))
            second, first = revealed  # U is made first, V when its threshold is asked for
            assert first._bits > 64  # the first words do not settle it
            corners = [
                1 + mpmath.floor(mpmath.log(y) / mpmath.log(1 - mpmath.exp(-x * strength)))
                for x in (mpmath.mpf(first._prefix + i) / mpmath.mpf(2) ** first._bits for i in (0, 1))
                for y in (mpmath.mpf(second._prefix + i) / mpmath.mpf(2) ** second._bits for i in (0, 1))
            ]
            assert set(corners) == {int(drawn)}


def test_the_floats_keep_what_the_staircase_asks_of_them(monkeypatch):
    errors = []

    def watch(firsts, bits, offset, stretch, at_least, noise, trusted):
        for i in np.flatnonzero(trusted):
            described = -float(stretch[i]) * float(log(at_least(int(i), 3)))
            errors.append(abs(described - 3) / 3)
        return np.zeros(len(firsts), dtype=np.int64)

    monkeypatch.setattr("recordwise.privacy.noise.negative_binomial.staircase", watch)
    for scale in (Fraction(1, 2), Fraction(1), Fraction(20), Fraction(10**7), Fraction(2**40)):
        _log_series(scale, 100, SeededNoise(2))
    assert max(errors) < 2.0**-44


@pytest.mark.parametrize(
    ("mean", "margin"),
    [*((Fraction(mean), 2.0**-36) for mean in ("1/1000", "1/3", "3", "25")), (Fraction(1, 3), 2.0), (Fraction(3), 2.0)],
)
def test_every_prefix_once_gives_each_poisson_number_its_probability(mean, margin, monkeypatch):
    monkeypatch.setattr("recordwise.privacy.noise.poisson.MARGIN", margin)
    words = strata(10 if margin < 1 else 7)
    numbers = poisson(mean, len(words), Tape(words))
    for k in range(40):
        p = float(mpmath.exp(-mp(mean)) * mp(mean) ** k / mpmath.factorial(k))
        assert abs((numbers == k).mean() - p) <= 1 / len(words)


@pytest.mark.parametrize("agreeing", [1, 2, 3])
def test_a_poisson_number_is_decided_by_its_bits_alone(agreeing):
    mean = Fraction(5, 3)

    def at_most(k: int) -> mpmath.mpf:
        return mpmath.fsum(mpmath.exp(-mp(mean)) * mp(mean) ** j / mpmath.factorial(j) for j in range(k + 1))

    for k in (0, 1, 4):
        for words in near(at_most(k), agreeing):
            tape = Tape(words)
            (number,) = poisson(mean, 1, tape)
            low, high = interval(tape.played)
            assert (at_most(int(number) - 1) if number else 0) <= low
            assert high <= at_most(int(number))


def test_a_poisson_mean_out_of_range_is_refused():
    with pytest.raises(InvalidInput, match="mean must lie in"):
        poisson(Fraction(65), 1, SystemNoise())


def test_huge_scales_have_the_right_mean():
    law, n = NegativeBinomial(Fraction(1, 2), Fraction(10**7)), 200_000
    draws = law.sample(n, SystemNoise())
    assert abs(draws.mean() - law.mean) < 8 * law.std / np.sqrt(n)
    assert abs(draws.std() / law.std - 1) < 0.05


def test_tiny_scales_hardly_ever_add_anything():
    assert (NegativeBinomial(Fraction(1, 2), Fraction(1, 1000)).sample(10_000, SystemNoise()) == 0).all()
    assert (_log_series(Fraction(1, 1000), 100, SystemNoise()) == 1).all()


def test_a_large_shape_is_the_same_however_many_units_are_drawn_at_a_time(monkeypatch):
    law = NegativeBinomial(Fraction(50), Fraction(3))
    together = law.sample(7, SeededNoise(1))
    for most in (1, 8, 100):  # one unit at a time, one and a little, some
        monkeypatch.setattr("recordwise.privacy.noise.negative_binomial.CHUNK", most)
        np.testing.assert_array_equal(law.sample(7, SeededNoise(1)), together)
    assert (together > 50).all()  # each is 126 on average: no unit was left out
