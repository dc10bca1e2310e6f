"""Pairs of distributions that dominate: exactly, on small supports."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, OutOfRegime
from recordwise.privacy.events import Approximate, DiscreteGaussianTally, DiscreteLaplaceTally, Filtered, Pure
from recordwise.privacy.losses import LARGEST_SIGMA2, Grid, TwoPoints, UnitShift, pure_epsilon, split, worst_case

STEP = 1 / 64
EPSILONS = np.linspace(-3, 6, 181)


def hockey_stick(losses: NDArray[np.float64], masses: NDArray[np.float64], epsilon: float) -> float:
    """E[max(0, 1 - e^(epsilon - loss))]: the delta at `epsilon`."""
    return math.fsum(masses * np.maximum(0.0, -np.expm1(epsilon - losses)))


def on_grid(grid: Grid, step: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return (grid.lowest + np.arange(len(grid.masses))) * step, grid.masses


distributions = st.lists(st.tuples(st.floats(-3, 3), st.floats(1e-3, 1)), min_size=1, max_size=8).map(
    lambda atoms: (np.array([loss for loss, _ in atoms]), np.array([m for _, m in atoms]))
)


@given(distributions)
def test_splitting_keeps_both_distributions_and_never_hides_a_difference(
    atoms: tuple[NDArray[np.float64], NDArray[np.float64]],
) -> None:
    losses, masses = atoms
    masses = masses / masses.sum()
    after, mass_after = on_grid(split(losses, masses, STEP), STEP)
    assert (mass_after >= 0).all()
    assert math.isclose(math.fsum(mass_after), 1.0, rel_tol=1e-12)  # the first distribution
    lower = math.fsum(masses * np.exp(-losses))
    assert math.isclose(math.fsum(mass_after * np.exp(-after)), lower, rel_tol=1e-12)  # the second
    for epsilon in EPSILONS:
        before = hockey_stick(losses, masses, epsilon)
        # On the grid nothing is lost; between its points the answer can only grow.
        assert hockey_stick(after, mass_after, epsilon) >= before - 1e-14
    for epsilon in np.arange(-200, 200) * STEP:
        assert math.isclose(
            hockey_stick(after, mass_after, epsilon), hockey_stick(losses, masses, epsilon), abs_tol=1e-13
        )


def test_rounding_losses_to_the_nearest_step_would_be_caught() -> None:
    losses, masses = np.array([0.3 * STEP, 1 + 0.3 * STEP]), np.array([0.5, 0.5])
    nearest = np.round(losses / STEP) * STEP
    assert any(hockey_stick(nearest, masses, e) < hockey_stick(losses, masses, e) - 1e-6 for e in EPSILONS)


def gaussian(sigma2: float, reach: int) -> NDArray[np.float64]:
    outcomes = np.arange(-reach, reach + 1)
    weights = np.exp(-(outcomes**2) / (2 * sigma2))
    return weights / weights.sum()


@pytest.mark.parametrize("sigma2", [Fraction(1, 4), Fraction(1), Fraction(2)])
@pytest.mark.parametrize("shifts", [(1,), (-1,), (1, 1), (1, -1), (1, 0), (-1, 1, 1)])
def test_unit_shifts_dominate_every_change_of_that_many_cells(sigma2: Fraction, shifts: tuple[int, ...]) -> None:
    # Exact: all outcomes of all cells, noise around two tallies that differ by `shifts`.
    reach = 15
    noise = np.concatenate([[0.0], gaussian(float(sigma2), reach), [0.0]])
    cells = [(noise, np.roll(noise, shift)) for shift in shifts]
    first = np.array([math.prod(p) for p in itertools.product(*(one for one, _ in cells))])
    second = np.array([math.prod(q) for q in itertools.product(*(two for _, two in cells))])
    after, masses = on_grid(UnitShift(sigma2).on_grid(STEP), STEP)
    product, lowest = np.ones(1), 0
    for _ in shifts:
        product = np.convolve(product, masses)
        lowest += round(after[0] / STEP)
    losses = (lowest + np.arange(len(product))) * STEP
    for epsilon in np.linspace(0, 8, 33):
        truth = math.fsum(np.maximum(0.0, first - math.exp(epsilon) * second))
        assert hockey_stick(losses, product, epsilon) >= truth - 1e-12
    if 0 not in shifts:  # and no more than the grid makes it
        truth = math.fsum(np.maximum(0.0, first - math.e * second))
        assert hockey_stick(losses, product, 1.0) <= truth + 1e-3


@given(st.fractions(Fraction(1, 100), 5))
def test_two_points_are_the_discrete_laplace_mechanism(loss: Fraction) -> None:
    a = float(loss)
    outcomes = np.arange(-2000, 2001)
    first = np.exp(-a * np.abs(outcomes)) * math.tanh(a / 2)
    second = np.exp(-a * np.abs(outcomes - 1)) * math.tanh(a / 2)
    after, masses = on_grid(TwoPoints(loss).on_grid(STEP), STEP)
    for epsilon in np.arange(0, 5, 0.25):  # points of the grid
        truth = math.fsum(np.maximum(0.0, first - math.exp(epsilon) * second))
        assert math.isclose(hockey_stick(after, masses, epsilon), truth, abs_tol=1e-9)


def test_worst_cases_of_all_events() -> None:
    tenth = Fraction(1, 10)
    assert worst_case(Pure(tenth)) == (TwoPoints(tenth), 1, 0)
    assert worst_case(Filtered(tenth, "guard")) == (TwoPoints(tenth), 1, 0)
    assert worst_case(DiscreteLaplaceTally(Fraction(20), 2)) == (TwoPoints(Fraction(1, 20)), 2, 0)
    assert worst_case(DiscreteGaussianTally(Fraction(20), 2)) == (UnitShift(Fraction(20)), 2, 0)
    assert worst_case(Approximate(tenth, Fraction(1, 100))) == (TwoPoints(tenth), 1, Fraction(1, 100))
    with pytest.raises(InvalidInput, match="no accounting rule for str"):
        worst_case("magic")


def test_pure_epsilons() -> None:
    assert pure_epsilon(DiscreteLaplaceTally(Fraction(20), 2)) == Fraction(1, 10)
    assert pure_epsilon(Pure(Fraction(1, 3))) == Fraction(1, 3)
    assert pure_epsilon(DiscreteGaussianTally(Fraction(20), 2)) is None
    assert pure_epsilon(Approximate(Fraction(1), Fraction(1, 9))) is None


def test_more_noise_than_can_be_tabulated_is_refused() -> None:
    with pytest.raises(OutOfRegime, match="sigma2 must be <= 1e12 for the numerical accountant, got 1e\\+13"):
        UnitShift(10 * LARGEST_SIGMA2).on_grid(1e-9)
