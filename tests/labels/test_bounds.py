"""Accuracy bounds, against exact probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.labels.simulated import chance_by_enumeration, matching_chances, tally_of

from recordwise.errors import InvalidInput
from recordwise.labels import (
    accuracy,
    certified,
    chance_of_the_best,
    chance_of_the_matching,
    sufficient_gap,
    sufficient_lead,
)
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Normal

LAWS = [
    DiscreteLaplace(Fraction(1, 2)),
    DiscreteLaplace(3),
    DiscreteLaplace(20),
    DiscreteGaussian(1),
    DiscreteGaussian(50),
]


def pmf(law, reach):
    """Exact probabilities of -reach..reach, for laws of which nothing lies beyond."""
    values = np.arange(-reach, reach + 1)
    weights = np.exp(law.log_likelihood(values))
    return values, weights / weights.sum()


@pytest.mark.parametrize(
    "law", [DiscreteLaplace(Fraction(1, 50)), DiscreteLaplace(Fraction(1, 2000)), DiscreteGaussian(Fraction(1, 10**4))]
)
def test_noise_that_is_next_to_none_is_told_in_a_moment(law):
    """Of a large budget hardly a cell is off at all, and a deviation may be too small for a float."""
    assert 0 < accuracy(law, 10, 0.05) <= 1
    assert certified(tally_of(np.array([[2.0, 1.0]]), law), 0.05).all()


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("num_classes", [2, 10, 100])
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-4])
def test_alpha_covers_and_hardly_less_does_not(law, num_classes, beta):
    alpha = accuracy(law, num_classes, beta)
    values, chance = pmf(law, int(60 * law.std) + 60)
    off = chance[np.abs(values) >= alpha].sum()
    assert num_classes * off <= beta  # holds for any dependence between the cells
    spare = 1 if isinstance(law, DiscreteLaplace) else 2  # the Gaussian's own tail is a bound, not exact
    closer = chance[np.abs(values) >= math.ceil(alpha) - spare].sum()
    assert num_classes * closer > beta


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("beta", [0.2, 0.01])
def test_a_sufficient_gap_makes_the_label_right_with_the_stated_probability(law, beta):
    num_classes = 5
    gap = math.ceil(sufficient_gap(law, num_classes, beta))
    assert chance_that_argmax_is_right(law, gap, num_classes) >= 1 - beta


def test_a_gap_that_is_far_too_small_does_not_suffice():
    law = DiscreteLaplace(20)
    gap = math.ceil(sufficient_gap(law, 5, 0.01) / 4)
    assert chance_that_argmax_is_right(law, gap, 5) < 1 - 0.01


def chance_that_argmax_is_right(law, gap, num_classes):
    """Exact, when all rivals trail by `gap` and a tie counts as wrong."""
    values, chance = pmf(law, int(60 * law.std) + gap + 60)
    below = np.concatenate([[0.0], np.cumsum(chance)])[:-1]  # P(Z < value)
    at = np.clip(np.searchsorted(values, values + gap), 0, len(values))
    rival_below = np.append(below, 1.0)[at]
    return float((chance * rival_below ** (num_classes - 1)).sum())


def test_a_certified_label_is_wrong_at_most_beta_of_the_time():
    """Exact, over all noise of two cells: the event "certified, and wrong" for every true gap."""
    law, beta = DiscreteLaplace(2), 0.1
    values, chance = pmf(law, 80)
    first, second = np.meshgrid(values, values, indexing="ij")
    weight = chance[:, None] * chance
    worst = 0.0
    for gap in range(12):
        estimate = np.stack([first.ravel() + gap, second.ravel()], axis=1)
        sure = certified(tally_of(estimate, law), beta) & (estimate.argmax(axis=1) == 1)
        worst = max(worst, float(weight.ravel()[sure].sum()))
    assert 0 < worst <= beta


def test_every_query_of_one_class_is_certified():
    assert certified(tally_of([[1.0], [2.0]], Normal(1.0)), 0.1).all()


@given(
    counts=st.lists(st.integers(0, 12), min_size=1, max_size=5),
    scale=st.sampled_from([0.3, 1.0, 4.0, 30.0]),
)
def test_permute_and_flip_finds_the_leader_at_least_as_often_as_promised(counts, scale):
    best = max(range(len(counts)), key=lambda c: counts[c])
    rivals = [count for c, count in enumerate(counts) if c != best]
    lead = counts[best] - max(rivals, default=0)
    promised = float(chance_of_the_best(lead / scale, len(counts)))
    found = chance_by_enumeration(counts, scale)[best]
    assert found >= promised - 1e-12
    if len(set(rivals)) <= 1:
        assert found == pytest.approx(promised, abs=1e-9)


@given(
    counts=st.integers(1, 4).flatmap(lambda size: arrays(np.float64, (size, size), elements=st.integers(0, 6))),
    lead=st.integers(0, 12),
    scale=st.sampled_from([1.0, 4.0, 30.0]),
)
def test_a_matching_of_leaders_is_chosen_at_least_as_often_as_promised(counts, lead, scale):
    size = len(counts)
    led = np.where(np.eye(size, dtype=bool), counts.max(axis=1, keepdims=True) + lead, counts)
    level = np.where(np.eye(size, dtype=bool), lead, 0.0)
    promised = float(chance_of_the_matching(lead / scale, size))
    assert matching_chances(led, scale)[tuple(range(size))] >= promised * (1 - 1e-12)
    assert matching_chances(level, scale)[tuple(range(size))] == pytest.approx(promised, rel=1e-12)


def test_the_promise_is_smooth_from_no_lead_to_a_large_one():
    lead = np.linspace(0, 40, 4001)
    chance = chance_of_the_best(lead, 10)
    assert chance[0] == pytest.approx(0.1)
    assert (np.diff(chance) >= -1e-12).all()
    assert np.abs(np.diff(chance)).max() < 0.005
    assert (chance <= 1).all()


@pytest.mark.parametrize("num_classes", [2, 10])
@pytest.mark.parametrize("beta", [0.4, 0.05, 1e-6])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_a_sufficient_lead_suffices(num_classes, beta, scale):
    lead = sufficient_lead(scale, num_classes, beta)
    assert chance_of_the_best(lead / scale, num_classes) >= 1 - beta
    assert chance_of_the_best(max(0, lead / scale - 3), num_classes) < 1 - beta


def test_the_printed_proposition_1_holds_for_real_noise_but_not_for_whole_numbers():
    """alpha = 2kr·log(C/beta)/epsilon: |Z| of real Laplace noise is exponential, whole numbers have heavier steps."""
    scale, num_classes = Fraction(1, 2), 2
    alpha = 4.0  # = scale·log(C / beta) for the beta below
    beta = num_classes * math.exp(-alpha / float(scale))
    values, chance = pmf(DiscreteLaplace(scale), 100)
    one_cell = chance[np.abs(values) >= alpha].sum()
    assert 1 - (1 - one_cell) ** num_classes > 1.5 * beta  # the printed bound would allow beta
    assert num_classes * one_cell <= num_classes * DiscreteLaplace(scale).two_sided_tail(alpha)


@pytest.mark.parametrize("beta", [0.0, 1.0, float("nan")])
def test_beta_is_a_probability(beta):
    with pytest.raises(InvalidInput, match="beta"):
        accuracy(Normal(1.0), 3, beta)
    with pytest.raises(InvalidInput, match="beta"):
        sufficient_lead(1.0, 3, beta)
