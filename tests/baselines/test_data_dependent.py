"""PATE's data-dependent costs: the authors' figures, exact divergences, and sensitivities by trying every vote."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from recordwise.baselines.data_dependent import (
    CONFIDENCE,
    SMOOTH,
    History,
    log_q,
    max_changes,
    noisy_max_history,
    noisy_max_rdp,
    sanitise,
    sanitising_rdp,
    threshold_changes,
    threshold_log_q,
    threshold_rdp,
)
from recordwise.errors import OutOfRegime
from recordwise.privacy.noise import SeededNoise

ORDERS = (2.0, 8.0, 20.0)
# The authors' own code (tensorflow/privacy, research/pate_2018/core.py): log q and the divergence at ORDERS.
PUBLISHED = {
    ((240, 5, 5, 0), 40.0): (-10.038607963625388, (1.4996084851081e-05, 2.02221422739597e-05, 5.23370168756928e-05)),
    ((200, 40, 10, 0), 40.0): (-5.831452470356389, (0.00075287293364791, 0.00093299373363668, 0.00174165239481818)),
    ((130, 120, 0, 0), 40.0): (-0.7954054811569271, (0.00125, 0.005, 0.0125)),
    ((900, 60, 40), 100.0): (-20.017951484217445, (3.7901797e-10, 4.4151962e-10, 6.6720548e-10)),
}
# The same file's screening, threshold 200, noise 150, largest count 900 and 240.
SCREENED = {900: (1.07454248e-07, 1.13462861e-07, 1.28361896e-07), 240: (4.4444444e-05, 1.7777778e-04, 4.4444444e-04)}
# research/pate_2018/smooth_sensitivity.py: local sensitivities at distances 0 and 1 (250 teachers).
LOCAL = {
    ((240, 5, 5, 0), 40.0, 20.0): (7.421432688311574e-06, 8.078558431724344e-06),
    ((200, 40, 10, 0), 40.0, 20.0): (0.0001721589435332545, 0.0001841717928503055),
    ((230, 10, 10, 0), 30.0, 10.0): (8.776703627922387e-08, 1.0327510164491678e-07),
}


@pytest.mark.parametrize(("case", "figures"), PUBLISHED.items())
def test_divergences_are_the_authors_own(case: tuple, figures: tuple) -> None:
    votes, sigma = np.array([case[0]]), case[1]
    found = log_q(votes, sigma, lattice=False)
    assert found[0] == pytest.approx(figures[0], rel=1e-9)
    for order, expected in zip(ORDERS, figures[1], strict=True):
        assert noisy_max_rdp(found, sigma, order)[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("largest", "figures"), SCREENED.items())
def test_screening_costs_what_the_authors_say(largest: int, figures: tuple) -> None:
    for order, expected in zip(ORDERS, figures, strict=True):
        found = threshold_rdp(np.array([largest]), 200, 150.0, order, lattice=False)
        assert found[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("sigma", [3.0, 18.0])
def test_screening_with_whole_noise_bounds_the_less_likely_outcome(sigma: float) -> None:
    """Beside the exact law of discrete Gaussian noise; the normal's own tail lies below it."""
    needed, largest = 60, np.arange(0, 121)
    steps = np.arange(-1000, 1001)
    weights = np.exp(-(steps.astype(float) ** 2) / (2 * sigma**2))
    reached = np.array([weights[steps >= needed - one].sum() for one in largest]) / weights.sum()
    missed = np.array([weights[steps < needed - one].sum() for one in largest]) / weights.sum()
    rare = np.minimum(reached, missed)
    assert (np.exp(threshold_log_q(largest, needed, sigma)) >= rare * (1 - 1e-12)).all()
    assert (np.exp(threshold_log_q(largest, needed, sigma, lattice=False)) < rare).any()


def test_the_worst_case_costs_what_the_papers_print() -> None:
    """PATE 2018, Table 1's data-independent GNMAX on MNIST: no votes enter, order/sigma² each."""
    assert noisy_max_rdp(np.array([math.log(0.5)]), 40.0, 5.0)[0] == 5.0 / 1600


def _law(votes: tuple[int, ...], sigma: float) -> np.ndarray:
    """The exact law of the Gaussian noisy maximum."""

    def wins(place: int) -> float:
        def density(t: float) -> float:
            others = [ndtr((t - v) / sigma) for at, v in enumerate(votes) if at != place]
            return float(norm.pdf(t, votes[place], sigma) * np.prod(others))

        return quad(density, votes[place] - 12 * sigma, votes[place] + 12 * sigma, epsabs=0, epsrel=1e-10, limit=200)[0]

    return np.array([wins(place) for place in range(len(votes))])


def _moved(votes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for source, target in itertools.permutations(range(len(votes)), 2):
        if votes[source]:
            changed = list(votes)
            changed[source] -= 1
            changed[target] += 1
            yield tuple(changed)


def _divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return math.log((p**order * q ** (1 - order)).sum()) / (order - 1)


@pytest.mark.parametrize("votes", [(12, 0, 0), (10, 2, 0), (8, 4, 0), (7, 5, 0), (20, 1, 1)])
@pytest.mark.parametrize("order", [2.0, 4.0])
def test_the_bound_covers_the_exact_divergence_from_every_neighbour(votes: tuple, order: float) -> None:
    sigma = 2.0
    bound = noisy_max_rdp(log_q(np.array([votes]), sigma, lattice=False), sigma, order)[0]
    assert max(_divergence(_law(votes, sigma), _law(other, sigma), order) for other in _moved(votes)) <= bound


def test_the_bound_is_for_outcomes_of_these_votes_alone() -> None:
    """PATE's data-dependent cost bounds D(these ‖ a neighbour's). The other direction can be larger."""
    votes, sigma = (12, 0, 0), 2.0
    bound = noisy_max_rdp(log_q(np.array([votes]), sigma, lattice=False), sigma, 2.0)[0]
    assert max(_divergence(_law(other, sigma), _law(votes, sigma), 2.0) for other in _moved(votes)) > bound


def test_discrete_noise_fails_no_more_often_than_stated() -> None:
    rng_sigma = 9.0
    z = np.arange(-250, 251)
    p = np.exp(-(z**2) / (2 * rng_sigma**2))
    p /= p.sum()
    difference = np.convolve(p, p)  # of two draws, from -500 on
    for gap in (1, 5, 20, 60):
        exact = difference[500 + gap :].sum()
        stated = math.exp(log_q(np.array([[100, 100 - gap]]), rng_sigma)[0])
        assert exact <= stated
        assert gap == 1 or exact > math.exp(log_q(np.array([[100, 100 - gap - 1]]), rng_sigma, lattice=False)[0]) / 2
    with pytest.raises(OutOfRegime, match="sigma"):
        log_q(np.array([[5, 0]]), 2.0)


@pytest.mark.parametrize(("case", "figures"), LOCAL.items())
def test_sensitivities_are_near_the_authors_own_and_not_below(case: tuple, figures: tuple) -> None:
    votes, sigma, order = case
    found = max_changes(log_q(np.array([votes]), sigma, lattice=False), len(votes), sigma, order, 250)
    for distance, expected in enumerate(figures):
        assert expected <= found[distance] <= 1.15 * expected
    assert (np.diff(found) >= 0).all()


def test_sensitivities_cover_every_pair_of_neighbours_within_reach() -> None:
    """All votes of 24 teachers on three classes; sigma is small, so that costs differ a lot."""
    sigma, order, teachers = 9.0, 2.5, 60
    every = [(a, b, teachers - a - b) for a in range(teachers + 1) for b in range(teachers + 1 - a)]
    cost = dict(zip(every, noisy_max_rdp(log_q(np.array(every), sigma), sigma, order), strict=True))
    change = {v: max(abs(cost[v] - cost[w]) for w in _moved(v)) for v in every}
    assert max(change.values()) > 0
    for start in [(58, 1, 1), (45, 10, 5), (30, 28, 2)]:
        bound = max_changes(log_q(np.array([start]), sigma), 3, sigma, order, teachers)
        for distance in (0, 1, 3, 8):
            near = [v for v in every if sum(abs(a - b) for a, b in zip(v, start, strict=True)) <= 2 * distance]
            assert max(change[v] for v in near) <= bound[distance] * (1 + 1e-9)


def test_screening_sensitivities_cover_every_count_within_reach() -> None:
    cost = threshold_rdp(np.arange(0, 101).astype(float), 60, 9.0, 5.0)
    steps = np.abs(np.diff(cost))
    bound = threshold_changes(np.array([50]), 60, 9.0, 5.0, 20)
    for distance in (0, 2, 10, 19):
        low, high = 50 - distance - 1, 50 + distance + 1
        assert bound[distance] == pytest.approx(steps[low:high].max(), rel=1e-12)


def test_smooth_sensitivity_changes_by_a_factor_of_e_to_the_beta_at_most() -> None:
    sigma, order, beta = 9.0, 3.0, 0.05
    votes = (50, 6, 4)
    here = History(0, max_changes(log_q(np.array([votes]), sigma), 3, sigma, order, 60), 1).smooth(beta)
    for other in _moved(votes):
        there = History(0, max_changes(log_q(np.array([other]), sigma), 3, sigma, order, 60), 1).smooth(beta)
        # The bound is on cells of a grid, which start where the grid does, not where the votes do.
        assert there <= math.exp(beta) * here * 1.1


def test_the_published_figure_is_an_upper_bound_as_often_as_stated() -> None:
    votes = np.tile([[240, 5, 3, 2]], (200, 1))
    history = noisy_max_history(
        votes, answered=np.ones(200, bool), sigma=40.0, needed=150, screen_sigma=80.0, order=20.0
    )
    true = history.rdp + sanitising_rdp(20.0, 20.0) + math.log(1e5) / 19
    noise = SeededNoise(1)
    draws = [sanitise(history, order=20.0, delta=1e-5, noise=noise).epsilon for _ in range(2000)]
    share = np.mean([draw >= true for draw in draws])
    assert abs(share - CONFIDENCE) < 0.03  # six standard errors of 2,000 draws
    assert history.rdp < history.worst / 5  # teachers agree, so the worst case is far away


def test_sanitising_has_no_bound_outside_its_regime() -> None:
    assert math.isinf(sanitising_rdp(20.0 / (2 * SMOOTH) + 1, 20.0))
    assert 0 < sanitising_rdp(20.0, 20.0) < 0.3
