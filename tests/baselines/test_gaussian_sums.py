"""Clipped sums are whole numbers, no record moves them farther than `clip`, and their cost is what accountants say."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_gaussian_mechanism
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from recordwise.baselines import gaussian_sums
from recordwise.baselines.gaussian_sums import (
    LEAST_SIGMA,
    MOST_POINTS,
    UNIT,
    noise_for,
    noised,
    outer_sum,
    sampled_gaussian,
    shorten,
    sigma2,
)
from recordwise.errors import OutOfRegime
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.noise import DiscreteGaussian, SeededNoise
from recordwise.randomness import seeded

# Opacus 1.6.0, PRVAccountant().get_epsilon(1e-5), and RDPAccountant's, for (noise multiplier, rate, steps).
OPACUS = {
    (1.1, 256 / 60000, 14063): (2.3918365361863922, 2.5966555286883684),
    (4.0, 0.01, 10000): (0.9569361942671307, 1.0354900660362476),
    (1.0, 0.02, 2000): (5.626115473982033, 6.150406738815755),
    (20.0, 0.25, 100): (0.4476671498625853, 0.48168028587572875),
    (2.0, 0.25, 10): (2.0302032163373283, 2.281656548196293),
}


def clipped(seed: int, count: int, clip: float) -> tuple[np.ndarray, np.ndarray]:
    rng = seeded(seed, "records")
    left, right = rng.normal(size=(count, 5)) * 3, rng.normal(size=(count, 3)) * 10
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return left, right * shorten(lengths, clip)[:, None]


@given(seed=st.integers(0, 10_000), clip=st.sampled_from([0.3, 1.0, 7.0]))
def test_one_record_moves_the_sum_by_at_most_clip_in_whole_steps(seed: int, clip: float) -> None:
    left, right = clipped(seed, 6, clip)
    moved = (outer_sum(left, right) - outer_sum(left[1:], right[1:])).astype(np.int64)
    square = sum(int(cell) ** 2 for cell in moved.ravel())
    assert square <= (Fraction(clip) * UNIT**2) ** 2


def test_without_clipping_a_record_moves_the_sum_farther() -> None:
    left, right = np.full((1, 2), 3.0), np.full((1, 2), 3.0)
    assert np.abs(outer_sum(left, right)).max() > UNIT**2


@given(seed=st.integers(0, 10_000))
def test_the_order_of_records_leaves_no_trace(seed: int) -> None:
    left, right = clipped(seed, 40, 1.0)
    order = seeded(seed, "order").permutation(40)
    assert np.array_equal(outer_sum(left, right), outer_sum(left[order], right[order]))
    # Floats would show it: that is why the sums are whole numbers.


def test_a_sum_that_floats_could_not_hold_is_refused() -> None:
    with pytest.raises(OutOfRegime, match="2\\^52"):
        outer_sum(np.full((2, 1), 2.0**14), np.full((2, 1), 2.0**13))


def test_the_noise_has_the_stated_deviation() -> None:
    drawn = noised(np.zeros((200, 100)), noise_multiplier=3.0, clip=2.0, noise=SeededNoise(0))
    assert drawn.std() == pytest.approx(6.0, rel=0.05)  # 20,000 draws: ten standard errors
    assert sigma2(3.0, 2.0) >= Fraction(6 * UNIT**2) ** 2


@pytest.mark.parametrize("sigma", [2.0, 3.0, 8.0, 20.0])
def test_discrete_and_rounded_gaussian_differ_by_less_than_the_margin(sigma: float) -> None:
    z = np.arange(-int(40 * sigma), int(40 * sigma) + 1)
    rounded = ndtr((z + 0.5) / sigma) - ndtr((z - 0.5) / sigma)
    apart = np.abs(DiscreteGaussian(Fraction(sigma) ** 2).pmf(z) - rounded).sum() / 2
    assert 0 < apart < 1 / (8 * sigma**2)
    assert apart > 1 / (80 * sigma**2)  # the margin is not idle


@pytest.mark.parametrize(("setting", "figures"), OPACUS.items())
def test_epsilon_agrees_with_opacus(setting: tuple[float, float, int], figures: tuple[float, float]) -> None:
    """Opacus adds 0.01 for the error of its PRV; ours lies within that below it, and below Rényi accounting."""
    multiplier, rate, steps = setting
    ours = sampled_gaussian(multiplier, rate=rate, steps=steps, delta=1e-5, neighbours=Neighbours.ADD_REMOVE)
    assert figures[0] - 0.012 <= ours <= figures[0]
    assert ours <= figures[1]


def test_epsilon_is_below_the_figures_that_papers_printed_and_near() -> None:
    """Abadi et al. 2016, section 3.2: q 0.01, sigma 4, 10,000 steps, delta 1e-5 cost 1.26 by moments."""
    ours = sampled_gaussian(4.0, rate=0.01, steps=10_000, delta=1e-5, neighbours=Neighbours.ADD_REMOVE)
    assert 0.9 < ours < 1.26


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("multiplier", [0.8, 5.0, 300.0])
def test_the_closed_form_agrees_with_privacy_loss_distributions(neighbours: Neighbours, multiplier: float) -> None:
    found = sampled_gaussian(multiplier, rate=1.0, steps=4, delta=1e-5, neighbours=neighbours)
    distance = multiplier / (2 * neighbours.records_changed)
    pld = from_gaussian_mechanism(distance, value_discretization_interval=min(1e-4, 1e-3 / distance))
    assert found == pytest.approx(pld.get_epsilon_for_delta(1e-5), rel=2e-3)


def test_replacing_costs_no_more_than_removing_and_adding() -> None:
    delta, each = 1e-5, Neighbours.ADD_REMOVE
    one = sampled_gaussian(2.0, rate=0.1, steps=50, delta=1e-7, neighbours=each)
    both = sampled_gaussian(2.0, rate=0.1, steps=50, delta=delta, neighbours=Neighbours.REPLACE)
    assert (1 + math.exp(one)) * 1e-7 <= delta
    assert one < both <= 2 * one


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(("rate", "steps"), [(1.0, 1), (0.25, 20)])
def test_calibrated_noise_costs_what_was_asked_and_little_less(neighbours: Neighbours, rate: float, steps: int) -> None:
    multiplier = noise_for(0.5, 1e-5, neighbours=neighbours, cells=300, rate=rate, steps=steps)
    cost = sampled_gaussian(multiplier, rate=rate, steps=steps, delta=1e-5, neighbours=neighbours)
    assert 0.495 < cost <= 0.5


def test_noise_too_small_for_the_grid_is_refused() -> None:
    with pytest.raises(OutOfRegime, match="noise_multiplier"):
        sigma2(0.1, 1.0)
    with pytest.raises(OutOfRegime, match="delta"):
        noise_for(1.0, 1e-12, neighbours=Neighbours.REPLACE, cells=10**6, steps=100)
    assert LEAST_SIGMA / UNIT**2 == 0.25


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_delta_that_nearly_excuses_steps_without_noise_is_answered_soon(
    neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses reach far beyond the answer there: a grid fine beside the answer would have millions of points."""
    points: list[int] = []
    composed = PrivacyLossDistribution.self_compose

    def self_compose(self: PrivacyLossDistribution, steps: int) -> PrivacyLossDistribution:
        points.append(self._pmf_remove.size)
        return composed(self, steps)

    monkeypatch.setattr(PrivacyLossDistribution, "self_compose", self_compose)
    multiplier = noise_for(1.0, 1e-5, neighbours=neighbours, cells=10, rate=1.2e-5)
    assert max(points) < 4 * MOST_POINTS
    assert 0.05 < multiplier < 0.5  # far less than the 3.7 of a record that always takes part


@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_grid_of_fewer_points_costs_nothing(neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"rate": 0.01, "steps": 20, "delta": 1e-5, "neighbours": neighbours}
    ours = sampled_gaussian(1.0, **asked)
    monkeypatch.setattr(gaussian_sums, "MOST_POINTS", math.inf)
    finer = sampled_gaussian(1.0, **asked)
    assert finer <= ours * (1 + 1e-9) <= finer * (1 + 1e-4)


@pytest.mark.parametrize("steps", [1, 9])
def test_a_delta_that_would_excuse_steps_without_noise_is_refused_at_once(steps: int) -> None:
    """Nobody looks for the least noise: it would be none, which no search by halving finds."""
    with pytest.raises(OutOfRegime, match="delta must be < "):
        noise_for(1.0, 1e-5, neighbours=Neighbours.REPLACE, cells=10, rate=1e-6, steps=steps)
