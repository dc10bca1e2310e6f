"""Totals against closed forms, exact sums and a second library: never below the truth, and close to it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from recordwise.errors import InvalidInput, OutOfRegime
from recordwise.privacy.accountant import calibrate, total_epsilon
from recordwise.privacy.events import Approximate, DiscreteGaussianTally, DiscreteLaplaceTally, Event, Filtered, Pure

LOOSE = 1e-3  # we may report this much more than the truth, relatively
DELTAS = [1e-3, 1e-6, 1e-9]

fractions = st.fractions(Fraction(1, 50), 2, max_denominator=1000)
pures = st.builds(Pure, fractions)
laplaces = st.builds(DiscreteLaplaceTally, st.fractions(1, 100, max_denominator=50), st.integers(1, 6))
gaussians = st.builds(DiscreteGaussianTally, st.fractions(1, 400, max_denominator=10), st.integers(1, 6))
approximates = st.builds(Approximate, fractions, st.sampled_from([Fraction(1, 10**9), Fraction(3, 10**8)]))
any_event = st.one_of(pures, laplaces, gaussians, approximates)


def smallest_epsilon(delta_at: Callable[[float], float], delta: float, upper: float) -> float:
    """Where a decreasing function crosses delta."""
    return float(brentq(lambda epsilon: float(delta_at(epsilon)) - delta, 0.0, upper, xtol=1e-13, rtol=1e-13))


@cache
def exact_two_points(losses: tuple[Fraction, ...]) -> Callable[[float], float]:
    """Exact delta of a composition of outcomes ±loss, by all sums of signs with their probabilities."""
    with mpmath.workdps(40):
        masses = {Fraction(0): mpmath.mpf(1)}
        for loss in losses:
            up = 1 / (1 + mpmath.exp(-mpmath.mpf(loss.numerator) / loss.denominator))
            grown: dict[Fraction, mpmath.mpf] = {}
            for total, mass in masses.items():
                grown[total + loss] = grown.get(total + loss, mpmath.mpf(0)) + mass * up
                grown[total - loss] = grown.get(total - loss, mpmath.mpf(0)) + mass * (1 - up)
            masses = grown
    # All terms are positive, so that double precision is plenty from here on.
    sums, chances = np.array([float(total) for total in masses]), np.array([float(mass) for mass in masses.values()])
    return lambda epsilon: math.fsum(chances * np.maximum(0.0, -np.expm1(epsilon - sums)))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(
    ("events", "losses"),
    [
        ([DiscreteLaplaceTally(Fraction(20), 1)] * 100, [Fraction(1, 20)] * 100),
        ([DiscreteLaplaceTally(Fraction(20), 4)] * 10, [Fraction(1, 20)] * 40),
        ([DiscreteLaplaceTally(Fraction(7, 3), 2)] * 3, [Fraction(3, 7)] * 6),
        ([DiscreteLaplaceTally(Fraction(400), 2)] * 100, [Fraction(1, 400)] * 200),
        ([Pure(Fraction(1, 4))] * 30, [Fraction(1, 4)] * 30),
        ([Pure(Fraction(1, 8))] * 7 + [Pure(Fraction(1, 3))] * 5, [Fraction(1, 8)] * 7 + [Fraction(1, 3)] * 5),
        ([Pure(Fraction(5))] * 2, [Fraction(5)] * 2),
    ],
)
def test_laplace_and_pure_totals_are_just_above_the_exact_sum(
    events: list[Event], losses: list[Fraction], delta: float
) -> None:
    answer, delta_at = float(total_epsilon(events, delta)), exact_two_points(tuple(losses))
    assert delta_at(answer) <= delta
    truth = smallest_epsilon(delta_at, delta, float(sum(losses)))
    assert truth <= answer <= truth * (1 + LOOSE)


def test_near_the_smallest_delta_totals_stay_above_the_exact_sum() -> None:
    # What is set aside for the errors of convolution is then a good part of delta, and costs up to a percent.
    answer, delta_at = (
        float(total_epsilon([Pure(Fraction(1, 20))] * 100, 1e-11)),
        exact_two_points((Fraction(1, 20),) * 100),
    )
    assert delta_at(answer) <= 1e-11
    assert answer <= smallest_epsilon(delta_at, 1e-11, 5) * 1.01


def delta_of_gaussian_cells(sigma2: float, cells: int, epsilon: float) -> float:
    """Exact delta of discrete Gaussian noise on cells that all move by one, by all outcomes.

    The loss depends on the cells' sum alone, so outcomes are gathered by it: one exact convolution in integers.
    """
    reach = math.ceil(9 * math.sqrt(sigma2)) + 1
    outcomes = np.arange(-reach, reach + 1)
    weights = np.exp(-(outcomes**2) / (2 * sigma2))
    one = weights / weights.sum()
    masses = one
    for _ in range(cells - 1):
        masses = np.convolve(masses, one)
    sums = np.arange(len(masses)) - cells * reach
    losses = (cells - 2 * sums) / (2 * sigma2)
    return math.fsum(masses * np.maximum(0.0, -np.expm1(epsilon - losses)))


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("sigma2", "cells", "rounds"), [(0.3, 2, 1), (1, 1, 1), (2, 2, 3), (25, 4, 5), (900, 2, 20)])
def test_gaussian_totals_are_just_above_exact_enumeration(sigma2: float, cells: int, rounds: int, delta: float) -> None:
    answer = float(total_epsilon([DiscreteGaussianTally(Fraction(sigma2), cells)] * rounds, delta))
    assert delta_of_gaussian_cells(sigma2, cells * rounds, answer) <= delta
    truth = smallest_epsilon(lambda e: delta_of_gaussian_cells(sigma2, cells * rounds, e), delta, 200)
    assert truth <= answer <= truth * (1 + LOOSE)


def test_forgetting_that_a_record_moves_several_cells_would_be_caught() -> None:
    forgetful = float(total_epsilon([DiscreteGaussianTally(Fraction(25), 1)], 1e-6))
    assert delta_of_gaussian_cells(25, 2, forgetful) > 1e-6


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("sigma2", "cells", "rounds"), [(10**4, 2, 10), (10**6, 8, 100), (10**8, 2, 1000)])
def test_much_gaussian_noise_costs_what_the_continuous_closed_form_says(
    sigma2: int, cells: int, rounds: int, delta: float
) -> None:
    mu = math.sqrt(cells * rounds / sigma2)  # Balle and Wang 2018, Theorem 8

    def closed_form(epsilon: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))

    truth = smallest_epsilon(closed_form, delta, 10)
    answer = float(total_epsilon([DiscreteGaussianTally(Fraction(sigma2), cells)] * rounds, delta))
    assert math.isclose(answer, truth, rel_tol=LOOSE)


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_a_second_library_brackets_a_mixture(delta: float) -> None:
    events = [DiscreteGaussianTally(Fraction(100), 2)] * 4 + [DiscreteLaplaceTally(Fraction(15), 2)] * 3
    bounds = []
    for pessimistic in (False, True):
        options = {"value_discretization_interval": 1e-5, "pessimistic_estimate": pessimistic}
        gaussian = peer.from_discrete_gaussian_mechanism(10, **options).self_compose(8)
        laplace = peer.from_discrete_laplace_mechanism(1 / 15, **options).self_compose(6)
        bounds.append(gaussian.compose(laplace).get_epsilon_for_delta(delta))
    assert bounds[0] <= total_epsilon(events, delta) <= bounds[1] * (1 + 1e-5)


def smallest_by_subsets(events: Sequence[Approximate], delta: float) -> float:
    """The optimal composition of any (epsilon_i, delta_i)-DP mechanisms (Murtagh and Vadhan 2016, Theorem 1.5)."""
    epsilons = [float(event.epsilon) for event in events]
    intact = math.prod(1 - float(event.delta) for event in events)
    scale = math.prod(1 + math.exp(epsilon) for epsilon in epsilons)

    def excess(total: float) -> float:
        terms = (
            max(
                0.0,
                math.exp(sum(itertools.compress(epsilons, chosen)))
                - math.exp(total + sum(e for e, c in zip(epsilons, chosen, strict=True) if not c)),
            )
            for chosen in itertools.product((0, 1), repeat=len(epsilons))
        )
        return math.fsum(terms) / scale - (1 - (1 - delta) / intact)

    return float(brentq(excess, 0, sum(epsilons)))


def test_approximate_events_reach_the_optimal_composition() -> None:
    events = [Approximate(Fraction(n, 10), Fraction(n, 10**8)) for n in (1, 2, 2, 3, 1, 4, 2, 1)]
    truth = smallest_by_subsets(events, 1e-6)
    assert truth <= total_epsilon(events, 1e-6) <= truth * (1 + LOOSE)


def test_an_approximate_budget_can_be_spent_to_the_last() -> None:
    whole, half = Approximate(Fraction(1, 2), Fraction(1, 10**6)), Approximate(Fraction(1, 4), Fraction(1, 2 * 10**6))
    assert total_epsilon([whole], 1e-6) <= Fraction(1, 2)
    assert total_epsilon([half, half], 1e-6) <= Fraction(1, 2)
    with pytest.raises(OutOfRegime, match="delta 9e-07 is too small for these events"):
        total_epsilon([whole], 9e-7)


def test_three_charges_of_a_tenth_are_three_tenths() -> None:
    assert total_epsilon([Pure(Fraction(1, 10))] * 3) == Fraction(3, 10)
    assert total_epsilon([DiscreteLaplaceTally(20.0, 2)] * 3) == Fraction(3, 10)  # type: ignore[arg-type]
    assert total_epsilon([]) == total_epsilon([], 1e-6) == 0


@given(st.lists(st.one_of(pures, laplaces), max_size=6))
def test_without_delta_the_total_is_the_exact_sum(events: list[Event]) -> None:
    by_hand = sum((e.epsilon if isinstance(e, Pure) else e.cells_changed / e.scale for e in events), Fraction(0))  # type: ignore[union-attr]
    assert total_epsilon(events) == by_hand


@settings(max_examples=25)
@given(st.lists(any_event, min_size=1, max_size=4), st.randoms())
def test_order_does_not_matter(events: list[Event], random: st.DataObject) -> None:
    shuffled = list(events)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert total_epsilon(events, 1e-6) == total_epsilon(shuffled, 1e-6)


@settings(max_examples=15)
@given(st.one_of(laplaces, gaussians), st.integers(2, 8))
def test_more_cells_are_more_rounds(event: DiscreteLaplaceTally | DiscreteGaussianTally, times: int) -> None:
    noise = vars(event).copy()
    wider = type(event)(**{**noise, "cells_changed": times * event.cells_changed})
    assert total_epsilon([event] * times, 1e-6) == total_epsilon([wider], 1e-6)


@settings(max_examples=25)
@given(st.lists(any_event, min_size=1, max_size=3), any_event)
def test_one_more_event_never_costs_less(events: list[Event], more: Event) -> None:
    assert total_epsilon([*events, more], 1e-6) >= total_epsilon(events, 1e-6)


@settings(max_examples=25)
@given(st.lists(st.one_of(pures, laplaces), min_size=1, max_size=4), st.sampled_from(DELTAS))
def test_a_delta_never_costs_epsilon(events: list[Event], delta: float) -> None:
    assert total_epsilon(events, delta) <= total_epsilon(events)
    assert total_epsilon(events, delta) <= total_epsilon(events, delta / 2)


@pytest.mark.parametrize("kind", [DiscreteLaplaceTally, DiscreteGaussianTally])
def test_more_noise_never_costs_more(kind: type[DiscreteLaplaceTally] | type[DiscreteGaussianTally]) -> None:
    # Small steps across several changes of the grid.
    noises = [Fraction(round(200 * 1.06**n), 100) for n in range(50)]
    costs = [total_epsilon([kind(noise, 2)] * 3, 1e-6) for noise in noises]
    assert all(less <= more for more, less in itertools.pairwise(costs))


def test_where_more_lattice_noise_does_cost_more_the_totals_say_so() -> None:
    # Near sigma² = 1 a change of variance shifts which losses exist, and the exact cost itself is not monotone.
    exactly = [smallest_epsilon(lambda e, v=v: delta_of_gaussian_cells(v, 6, e), 1e-6, 200) for v in (1.03, 1.04)]  # type: ignore[misc]
    assert exactly[0] < exactly[1]
    told = [total_epsilon([DiscreteGaussianTally(Fraction(v), 6)], 1e-6) for v in ("1.03", "1.04")]
    assert told[0] < told[1]


@pytest.mark.parametrize(
    ("epsilon", "delta", "rounds", "cells"),
    [(1, 1e-6, 1, 2), (0.1, 1e-6, 10, 2), (0.01, 1e-9, 100, 8), (5, 1e-5, 1, 2), (0.5, 1e-5, 3, 1)],
)
@pytest.mark.parametrize("kind", [DiscreteLaplaceTally, DiscreteGaussianTally])
def test_calibration_spends_all_but_a_thousandth_and_never_too_much(
    kind: type[DiscreteLaplaceTally] | type[DiscreteGaussianTally],
    epsilon: float,
    delta: float,
    rounds: int,
    cells: int,
) -> None:
    asked, at = Fraction(epsilon), Fraction(delta)
    noise = calibrate(lambda x: [kind(x, cells)] * rounds, asked, at)
    spent = total_epsilon([kind(noise, cells)] * rounds, at)
    assert asked * Fraction(999, 1000) < spent <= asked


def test_calibration_of_pure_noise_is_the_closed_form() -> None:
    scale = calibrate(lambda x: [DiscreteLaplaceTally(x, 2)] * 3, Fraction(1, 10), Fraction(0))
    assert 60 <= scale <= 60 * (1 + Fraction(1, 2**11))


def test_what_no_noise_can_reach_is_refused() -> None:
    with pytest.raises(OutOfRegime, match=r"no amount of noise reaches epsilon 0\.5 at delta 1e-09"):
        calibrate(lambda x: [Approximate(1 / x, Fraction(1, 10**6))], Fraction(1, 2), Fraction(1, 10**9))
    with pytest.raises(InvalidInput, match="epsilon must be > 0"):
        calibrate(lambda x: [Pure(1 / x)], Fraction(0), Fraction(0))


def test_questions_outside_the_regime_are_refused() -> None:
    gaussian = DiscreteGaussianTally(Fraction(100), 2)
    with pytest.raises(
        OutOfRegime, match="delta must be > 0 to account for an event that is only approximately private"
    ):
        total_epsilon([gaussian])
    with pytest.raises(OutOfRegime, match="delta 1e-14 is too small for these events"):
        total_epsilon([gaussian], 1e-14)
    for delta in (-1e-9, 1, 2):
        with pytest.raises(InvalidInput, match=r"delta must lie in \[0, 1\)"):
            total_epsilon([gaussian], delta)
    with pytest.raises(InvalidInput, match="finite number"):
        total_epsilon([gaussian], float("nan"))
    # Below what arithmetic can resolve, pure events fall back on their sum; so do hopelessly large ones.
    assert total_epsilon([Pure(Fraction(1, 10))] * 9, 1e-14) == Fraction(9, 10)
    assert total_epsilon([Pure(Fraction(10**200))], 1e-6) == 10**200


def test_releases_of_one_filter_cost_its_cap_once() -> None:
    one, two = Filtered(Fraction(1, 2), "one"), Filtered(Fraction(1, 3), "two")
    assert total_epsilon([one, two, one, Pure(Fraction(1, 6)), one]) == 1
    assert total_epsilon([one] * 9, 1e-6) == total_epsilon([Pure(Fraction(1, 2))], 1e-6)
    with pytest.raises(InvalidInput, match="record filter 'one' has one cap"):
        total_epsilon([one, Filtered(Fraction(1, 3), "one")])
