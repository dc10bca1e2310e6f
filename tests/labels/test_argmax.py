from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import norm
from tests.labels.simulated import tally_of

from recordwise.labels.argmax import chance_of_leading, decode_argmax
from recordwise.labels.facts import Facts
from recordwise.privacy.noise import DiscreteLaplace, Normal
from recordwise.randomness import seeded

FALSE_FAILURE = 1e-9


def test_the_chance_of_leading_by_two_normal_cells_is_known():
    estimate = np.array([[10.0, 4.0], [1.0, 0.0]])
    found = chance_of_leading(estimate, np.array([0, 0]), Normal(5.0))
    np.testing.assert_allclose(found, norm.cdf(np.array([6.0, 1.0]) / (5 * np.sqrt(2))), atol=2e-4)


def test_the_chance_of_leading_is_that_of_a_simulation():
    law, rng, runs = DiscreteLaplace(30), seeded(0, "leading"), 200_000
    estimate = np.array([80.0, 60.0, 10.0, -40.0])
    truth = estimate - rng.laplace(0, 30, (runs, 4))
    seen = (truth.argmax(axis=1) == 0).mean()
    slack = np.sqrt(np.log(2 / FALSE_FAILURE) / (2 * runs))  # Hoeffding
    found = chance_of_leading(estimate[None], np.array([0]), law)[0]
    assert abs(found - seen) < slack
    assert abs(chance_of_leading(estimate[None], np.array([0]), DiscreteLaplace(20))[0] - seen) > slack


def test_equal_cells_share_the_chance():
    np.testing.assert_allclose(chance_of_leading(np.zeros((1, 5)), np.array([3]), DiscreteLaplace(8)), 0.2, atol=1e-3)


@pytest.mark.parametrize("scale", [Fraction(1, 1 << 40), Fraction(1, 100)])
def test_without_noise_to_speak_of_the_largest_cell_is_certain(scale):
    assert chance_of_leading(np.array([[3.0, 2.0, 0.0]]), np.array([0]), DiscreteLaplace(scale)) == pytest.approx(1)


def test_the_confidence_is_calibrated_for_counts_that_could_be_anything():
    """Stated confidence against realised: among all labels, and among those stated to be 60 to 80 % sure."""
    law, rng, runs = DiscreteLaplace(10), seeded(1, "calibration"), 20_000
    counts = rng.integers(-500, 500, (runs, 3)) // 5  # wide beside the noise: as good as "anything"
    estimate = counts - law_draws(law, counts.shape, rng)
    labels = decode_argmax(tally_of(estimate, law), Facts(sizes=np.ones(runs)))
    right = (counts.max(axis=1) == counts[np.arange(runs), labels.hard]).astype(float)
    right /= np.maximum(1, (counts == counts.max(axis=1, keepdims=True)).sum(axis=1))  # ties have no weight in theory
    for some in (np.ones(runs, dtype=bool), (labels.leads > 0.6) & (labels.leads < 0.8)):
        slack = np.sqrt(np.log(2 / FALSE_FAILURE) / (2 * some.sum())) + 0.01  # 0.01: the edges of "anything", and ties
        assert abs(right[some].mean() - labels.leads[some].mean()) < slack
    twin = chance_of_leading(estimate, labels.hard, DiscreteLaplace(5))  # claims half the noise there is
    some = (twin > 0.6) & (twin < 0.8)
    assert right[some].mean() < twin[some].mean() - np.sqrt(np.log(2 / FALSE_FAILURE) / (2 * some.sum()))


def law_draws(law, shape, rng):
    stop = -np.expm1(-1 / float(law.scale))
    return rng.geometric(stop, shape) - rng.geometric(stop, shape)
