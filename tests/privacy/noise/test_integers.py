from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from tape import FALSE_FAILURE, Tape, worst_p_value

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SystemNoise, permutation, uniform_below


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 1000, 2**32 + 1, 2**62 + 1])
def test_words_of_the_incomplete_run_are_drawn_again(bound):
    runs = 2**64 // bound
    kept, refused = runs * bound - 1, runs * bound  # the last word of the last whole run, and the one after it
    assert uniform_below(bound, 1, Tape([kept]))[0] == bound - 1
    if refused < 2**64:
        tape = Tape([refused, 2**64 - 1, 5])
        assert uniform_below(bound, 1, tape)[0] == 5 % bound
        assert tape.played == [refused, 2**64 - 1, 5]


def test_values_are_uniform():
    draws = uniform_below(7, 2_000_000, SystemNoise())
    assert worst_p_value(draws, np.arange(6), np.full(6, 1 / 7)) > FALSE_FAILURE
    skewed = np.array([1.03, 1, 1, 1, 1, 0.97]) / 7
    assert worst_p_value(draws, np.arange(6), skewed) < FALSE_FAILURE


def test_each_draw_has_its_own_bound():
    bounds = np.tile([1, 2, 5], 200_000)
    draws = uniform_below(bounds, bounds.size, SystemNoise())
    assert (draws[bounds == 1] == 0).all()
    assert worst_p_value(draws[bounds == 2], np.arange(1), np.array([1 / 2])) > FALSE_FAILURE
    assert worst_p_value(draws[bounds == 5], np.arange(4), np.full(4, 1 / 5)) > FALSE_FAILURE


def test_integers_come_in_the_shape_asked_for():
    draws = uniform_below(np.array([[2], [3]]), (2, 4), SystemNoise())
    assert draws.shape == (2, 4)
    assert draws.dtype == np.int64
    assert uniform_below(3, 0, SystemNoise()).shape == (0,)


@pytest.mark.parametrize("bound", [0, -3, 2.5, np.array([1, 0]), float("nan")])
def test_a_bound_below_one_is_refused(bound):
    with pytest.raises(InvalidInput, match="bound must be a whole number"):
        uniform_below(bound, 2, SystemNoise())


def test_every_order_is_equally_likely():
    orders = list(permutations(range(4)))
    drawn = [orders.index(tuple(permutation(4, SystemNoise()))) for _ in range(20_000)]
    assert worst_p_value(np.array(drawn), np.arange(23), np.full(23, 1 / 24)) > FALSE_FAILURE
    assert worst_p_value(np.array(drawn), np.arange(23), np.full(23, 1 / 30)) < FALSE_FAILURE


def test_every_order_of_distinct_words_gives_one_order():
    seen = {tuple(permutation(4, Tape(words))) for words in permutations([10, 20, 30, 40])}
    assert len(seen) == 24


def test_equal_words_are_drawn_again():
    tape = Tape([9, 9, 1, 3, 2, 1])
    assert permutation(3, tape).tolist() == [2, 1, 0]
    assert tape.played == [9, 9, 1, 3, 2, 1]


def test_short_orders():
    assert permutation(0, SystemNoise()).tolist() == []
    assert permutation(1, SystemNoise()).tolist() == [0]
    with pytest.raises(InvalidInput, match="n must be >= 0"):
        permutation(-1, SystemNoise())
