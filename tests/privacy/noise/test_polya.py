from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tape import FALSE_FAILURE, worst_p_value

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import DiscreteLaplace, NegativeBinomial, PolyaDifference, SystemNoise

LAWS = [
    (Fraction(1, 10), Fraction(5)),
    (Fraction(1), Fraction(20)),
    (Fraction(3, 2), Fraction(1, 2)),
    (Fraction(5), Fraction(3)),
]


def by_convolution(shape: Fraction, scale: Fraction, values: range) -> np.ndarray:
    one_side = NegativeBinomial(shape, scale).pmf(np.arange(2000))
    return np.array([(one_side[k:] * one_side[: 2000 - k]).sum() for k in values])


@pytest.mark.parametrize(("shape", "scale"), LAWS)
def test_probabilities_are_those_of_the_difference(shape, scale):
    law = PolyaDifference(shape, scale)
    np.testing.assert_allclose(law.pmf(np.arange(30)), by_convolution(shape, scale, range(30)), rtol=1e-9)
    np.testing.assert_allclose(law.pmf(-np.arange(30)), law.pmf(np.arange(30)))
    everything = law.pmf(np.arange(-3000, 3001))
    assert everything.sum() == pytest.approx(1, rel=1e-12)
    assert np.sqrt((everything * np.arange(-3000, 3001) ** 2).sum()) == pytest.approx(law.std, rel=1e-9)


def test_shape_one_is_discrete_laplace():
    values = np.arange(-50, 51)
    law, laplace = PolyaDifference(1, Fraction(7)), DiscreteLaplace(Fraction(7))
    np.testing.assert_allclose(law.pmf(values), laplace.pmf(values), rtol=1e-10)
    assert law.std == pytest.approx(laplace.std)


def test_the_shares_of_all_parties_add_up_to_discrete_laplace():
    parties, n, scale = 12, 300_000, Fraction(5)
    share = PolyaDifference(Fraction(1, parties), scale)
    total = sum(share.sample(n, SystemNoise()) for _ in range(parties))
    values = np.arange(-10, 11)
    assert worst_p_value(total, values, DiscreteLaplace(scale).pmf(values)) > FALSE_FAILURE
    one_missing = PolyaDifference(Fraction(parties - 3, parties), scale)
    assert worst_p_value(total, values, one_missing.pmf(values)) < FALSE_FAILURE  # three absent parties are seen


@pytest.mark.parametrize(("shape", "scale"), LAWS)
def test_draws_follow_the_law(shape, scale):
    draws = PolyaDifference(shape, scale).sample(500_000, SystemNoise())
    values = np.arange(-6, 7)
    assert worst_p_value(draws, values, PolyaDifference(shape, scale).pmf(values)) > FALSE_FAILURE
    assert worst_p_value(draws, values, PolyaDifference(shape / 2, scale).pmf(values)) < FALSE_FAILURE


@pytest.mark.parametrize(("shape", "scale"), LAWS)
def test_the_tail_bound_covers(shape, scale):
    law = PolyaDifference(shape, scale)
    for distance in (-1.0, 0.0, 0.5, 1.0, 10.0, 40.0):
        start = max(0, int(np.ceil(distance)))
        truth = 1.0 if start == 0 else 2 * by_convolution(shape, scale, range(start, start + 900)).sum()
        assert truth <= law.two_sided_tail(distance) * (1 + 1e-10)
        assert law.two_sided_tail(distance) <= truth * (1 + 1e-6) + 1e-25
        if start:
            assert truth <= law._chernoff(start)
    assert 0 < law.two_sided_tail(10_000 * float(scale)) < 1e-30


def test_likelihoods_are_lines_between_integers_and_beyond_the_table():
    law = PolyaDifference(Fraction(1, 4), Fraction(3))
    assert law.log_likelihood(2.5) == pytest.approx((law.log_likelihood(2.0) + law.log_likelihood(3.0)) / 2)
    assert law.log_likelihood(5000.0) - law.log_likelihood(5003.0) == pytest.approx(1.0)


def test_a_law_too_wide_to_tabulate_still_draws_and_bounds():
    law = PolyaDifference(Fraction(1, 2), Fraction(10**7))
    assert law.sample(100, SystemNoise()).any()
    assert law.two_sided_tail(1e9) < 1e-30
    with pytest.raises(InvalidInput, match="to tabulate"):
        law.pmf(0)
