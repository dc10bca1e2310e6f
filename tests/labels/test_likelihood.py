"""The law of a released cell: noise and count together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from recordwise.labels.likelihood import cell_law
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Law, Normal, PolyaDifference

LAWS: list[Law] = [
    DiscreteLaplace(Fraction(1)),
    DiscreteLaplace(Fraction(20)),
    PolyaDifference(Fraction(6, 5), Fraction(4)),
    DiscreteGaussian(Fraction(30)),
    Normal(7.0),
]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_the_density_is_one_and_its_variance_the_sum_of_both(law: Law) -> None:
    residual = np.linspace(-400, 400, 160_001)
    density = np.exp(cell_law(law).log_likelihood(residual, np.full_like(residual, 9.0))[0])
    step = residual[1] - residual[0]
    assert density.sum() * step == pytest.approx(1, abs=1e-6)
    assert (density * residual**2).sum() * step == pytest.approx(law.std**2 + 9, rel=1e-3)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_gradients_are_exact(law: Law) -> None:
    cells = cell_law(law)
    residual, variance = (grid.ravel() for grid in np.meshgrid([-60.0, -3.0, 0.2, 5.0, 80.0], [0.2, 4.0, 300.0]))
    _, by_residual, by_variance = cells.log_likelihood(residual, variance)
    step = 1e-5
    up, down = (cells.log_likelihood(residual + sign * step, variance)[0] for sign in (1, -1))
    assert by_residual == pytest.approx((up - down) / (2 * step), rel=1e-4, abs=1e-6)
    up, down = (cells.log_likelihood(residual, variance * (1 + sign * step))[0] for sign in (1, -1))
    assert by_variance == pytest.approx((up - down) / (2 * step * variance), rel=1e-4, abs=1e-6)


def test_laplace_noise_on_a_count_is_the_convolution_of_both() -> None:
    law, mean = DiscreteLaplace(Fraction(5)), 40
    counts = np.arange(200)
    log_poisson = counts * np.log(mean) - mean - np.concatenate([[0], np.cumsum(np.log(np.arange(1, 200)))])
    cells = np.arange(0, 90)
    exact = np.array([(np.exp(log_poisson) * law.pmf(cell - counts)).sum() for cell in cells])
    found = np.exp(cell_law(law).log_likelihood(cells - float(mean), np.full(90, float(mean)))[0])
    assert np.abs(found - exact).sum() < 0.03  # the count's skewness is all that is lost


def test_laplace_noise_is_not_taken_for_a_normal() -> None:
    far = np.array([30.0 * 8])
    laplace = cell_law(DiscreteLaplace(Fraction(30))).log_likelihood(far, np.ones(1))[0]
    normal = cell_law(Normal(DiscreteLaplace(Fraction(30)).std)).log_likelihood(far, np.ones(1))[0]
    assert laplace > normal + 5


def test_noise_that_is_hardly_there_leaves_the_count() -> None:
    fit, by_residual, by_variance = cell_law(DiscreteLaplace(Fraction(1, 1000))).log_likelihood(
        np.array([0.0, 12.0]), np.array([25.0, 25.0])
    )
    assert fit == pytest.approx(-0.5 * (np.array([0, 144 / 25]) + np.log(2 * np.pi * 25)), abs=1e-3)
    assert np.isfinite(by_residual).all() and np.isfinite(by_variance).all()


@pytest.mark.parametrize("ratio", [100, 1_000, 1e5, 1e12])
def test_noise_that_drowns_in_chance_leaves_a_normal_and_all_digits(ratio: float) -> None:
    """Terms of the size of the squared ratio cancel in the density, and those of its fourth power in the gradient."""
    law, std = DiscreteLaplace(Fraction(2)), 2.0 * ratio
    residual, variance = std * np.array([-6.0, -1.0, 0.0, 0.5, 3.0]), np.full(5, std**2)
    found = cell_law(law).log_likelihood(residual, variance)
    for one, normal, size in zip(
        found, cell_law(Normal(law.std)).log_likelihood(residual, variance), (1, 1 / std, 1 / std**2), strict=True
    ):
        np.testing.assert_allclose(one, normal, atol=5e-3 * size)
