from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tape import FALSE_FAILURE, worst_p_value

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import DiscreteLaplace, PolyaDifference, SystemNoise


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


def test_the_bound_beyond_the_table_covers_within_it_too():
    for shape in (Fraction(1, 10), Fraction(1), Fraction(5)):
        law = PolyaDifference(shape, Fraction(3))
        assert all(law.two_sided_tail(steps) <= law._chernoff(steps) for steps in (1, 10, 40))
        assert 0 < law.two_sided_tail(10_000 * float(law.scale)) < 1e-30


@pytest.mark.parametrize("distance", [1.0, 1e6, 1e12])
def test_a_tail_of_more_shares_than_any_table_holds_is_a_probability(distance: float) -> None:
    """Where Chernoff's bound is useless at every t of the grid it is one, and does not overflow."""
    assert PolyaDifference(Fraction(2**40), Fraction(2**40)).two_sided_tail(distance) == 1
