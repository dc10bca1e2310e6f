from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from scipy.integrate import quad
from tape import FALSE_FAILURE, Tape, strata, worst_p_value

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SystemNoise, permute_and_flip


def by_definition(counts: list[int], scale: float) -> np.ndarray:
    """Output probabilities from the mechanism's definition: over all orders, the first class whose coin accepts."""
    accept = [np.exp((count - max(counts)) / scale) for count in counts]
    probabilities = np.zeros(len(counts))
    orders = list(permutations(range(len(counts))))
    for order in orders:
        still_open = 1.0
        for c in order:
            probabilities[c] += still_open * accept[c] / len(orders)
            still_open *= 1 - accept[c]
    return probabilities


def by_coins_first(counts: list[int], scale: float) -> np.ndarray:
    """Output probabilities when all coins are flipped and one accepted class is taken at random."""
    accept = [np.exp((count - max(counts)) / scale) for count in counts]
    probabilities = np.zeros(len(counts))
    for coins in product([False, True], repeat=len(counts)):
        chance = np.prod([p if coin else 1 - p for p, coin in zip(accept, coins, strict=True)])
        if any(coins):
            probabilities[list(coins)] += chance / sum(coins)
    return probabilities


@pytest.mark.parametrize("counts", list(product(range(4), repeat=3)))
def test_flipping_all_coins_first_is_the_same_mechanism(counts):
    np.testing.assert_allclose(by_coins_first(list(counts), 1.5), by_definition(list(counts), 1.5), rtol=1e-12)


@pytest.mark.parametrize("counts", [[3, 1], [2, 2, 0], [5, 4, 0, 1]])
def test_it_is_report_noisy_max_with_exponential_noise(counts):
    scale = 1.5
    for c, probability in enumerate(by_definition(counts, scale)):

        def density(x, c=c):
            others = [1 - np.exp(-max(0, x - n) / scale) for j, n in enumerate(counts) if j != c]
            return np.exp(-(x - counts[c]) / scale) / scale * np.prod(others) if x >= counts[c] else 0.0

        integral, _ = quad(density, min(counts), 80, points=sorted(set(counts)), limit=200)
        assert integral == pytest.approx(probability, abs=1e-7)


@pytest.mark.parametrize("counts", [[3, 1], [2, 2, 0], [7, 4, 0, 1]])
def test_choices_follow_the_definition(counts):
    n, scale = 300_000, Fraction(3, 2)
    chosen = permute_and_flip(np.tile(counts, (n, 1)), scale, SystemNoise())
    classes = np.arange(len(counts) - 1)
    assert worst_p_value(chosen, classes, by_definition(counts, 1.5)[:-1]) > FALSE_FAILURE
    assert worst_p_value(chosen, classes, by_definition(counts, 0.75)[:-1]) < FALSE_FAILURE  # half the scale is seen


def test_every_prefix_once_gives_each_class_its_probability_to_within_a_few():
    """Two classes: the better one's coin always lands, so a grid over the other's coin and the pick is all there is."""
    parts = strata(7)
    coin, pick = (part.ravel() for part in np.meshgrid(parts, np.array([0, 1], dtype=np.uint64)))
    counts = np.tile([5, 3], (coin.size, 1))
    words = np.column_stack([np.zeros_like(coin), coin]).ravel()
    chosen = permute_and_flip(counts, Fraction(2), Tape(np.concatenate([words, pick])))
    assert abs((chosen == 1).mean() - by_definition([5, 3], 2.0)[1]) <= 1 / len(parts)


def test_certain_choices_are_certain():
    counts = np.array([[0, 10**6, 3], [7, 0, 0]])
    assert permute_and_flip(np.tile(counts, (1000, 1)), Fraction(1, 100), SystemNoise()).tolist() == [1, 0] * 1000
    assert permute_and_flip(np.full((5, 1), 3), Fraction(1), SystemNoise()).tolist() == [0] * 5
    assert permute_and_flip(np.zeros((0, 4), dtype=np.int64), Fraction(1), SystemNoise()).shape == (0,)


def test_rows_beyond_one_batch_are_chosen_too():
    counts = np.zeros((70_001, 3), dtype=np.int64)
    counts[np.arange(70_001), np.arange(70_001) % 3] = 1000
    assert (permute_and_flip(counts, Fraction(1), SystemNoise()) == np.arange(70_001) % 3).all()


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="counts must have shape"):
        permute_and_flip(np.zeros((3, 0), dtype=np.int64), Fraction(1), SystemNoise())
    with pytest.raises(InvalidInput, match="scale must be > 0"):
        permute_and_flip(np.zeros((3, 2), dtype=np.int64), Fraction(0), SystemNoise())
