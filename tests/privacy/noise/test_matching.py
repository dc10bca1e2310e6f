from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import factorial, prod

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tape import FALSE_FAILURE, Tape, interval, mp, near, strata, worst_p_value

from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SystemNoise, exponential_matching
from recordwise.privacy.noise.matching import MOST_CLASSES, _deficits, _means, _Weights
from recordwise.privacy.noise.real import Real, real

SCALES = [Fraction(3, 2), Fraction(400), Fraction(1, 7)]
small_counts = st.integers(1, 4).flatmap(
    lambda size: arrays(np.int64, (size, size), elements=st.integers(0, 9) | st.integers(0, 10**6))
)


def by_definition(counts: np.ndarray, scale: Fraction) -> dict[tuple[int, ...], mpmath.mpf]:
    """The probability of every matching, from all C! of them."""
    votes = {pi: sum(int(counts[i, c]) for i, c in enumerate(pi)) for pi in permutations(range(len(counts)))}
    most = max(votes.values())
    weights = {pi: mpmath.exp(mp((v - most) / scale)) for pi, v in votes.items()}
    return {pi: weight / mpmath.fsum(weights.values()) for pi, weight in weights.items()}


def drawn_with(counts: np.ndarray, scale: Fraction, matching: tuple[int, ...]) -> Real:
    """The probability with which the sampler's decisions end in this matching: the product of what it compares."""
    weights, free, chance = _Weights(counts, scale), list(range(len(counts))), real(1)
    for query, c in enumerate(matching):
        chance = chance * weights.of(query, [c], free) / weights.of(query, free, free)
        free.remove(c)
    return chance


@given(counts=small_counts, scale=st.sampled_from(SCALES[:2]))
def test_the_probabilities_it_decides_by_are_those_of_the_definition(counts, scale):
    with mpmath.workprec(400):
        for matching, probability in by_definition(counts, scale).items():
            if probability > mpmath.mpf(2) ** -150:  # a rarer one would take thousands of bits to draw, and to check
                low, high = drawn_with(counts, scale, matching).bounds(220)
                assert low <= probability * 2**220 <= high


@given(counts=small_counts)
def test_deficits_weigh_matchings_as_votes_do_and_a_best_one_lacks_none(counts):
    deficits = _deficits(counts)
    assert deficits.min() >= 0
    rows = np.arange(len(counts))
    sums = {(int(counts[rows, pi].sum() + deficits[rows, pi].sum())) for pi in permutations(range(len(counts)))}
    assert len(sums) == 1
    assert min(int(deficits[rows, pi].sum()) for pi in permutations(range(len(counts)))) == 0


@given(
    factors=st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 256), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_means_enclose_the_permanents_of_the_last_rows(factors):
    bits, size = 8, len(factors)
    means = _means([[(w, min(w + 2, 256)) for w in row] for row in factors], bits)
    for classes in range(1, 1 << size):
        columns = [c for c in range(size) if classes >> c & 1]
        rows = factors[size - len(columns) :]
        exact = sum(
            prod(Fraction(row[c], 256) for row, c in zip(rows, order, strict=True)) for order in permutations(columns)
        ) / factorial(len(columns))
        low, high = means[classes]
        assert low <= exact * 256 <= high
        assert high - low <= 6 * len(columns)


@pytest.mark.parametrize("scale", SCALES[:2])
def test_every_real_that_begins_with_the_bits_read_stands_for_the_matching_returned(scale):
    """Two classes: one uniform, one threshold; bits placed right at it, up to three words deep."""
    counts = np.array([[5, 3], [2, 1]])
    with mpmath.workprec(600):
        first = by_definition(counts, scale)[0, 1]
        for agreeing in (1, 2, 3):
            for words in near(first, agreeing):
                tape = Tape(words)
                chosen = exponential_matching(counts, scale, tape).tolist()
                low, high = interval(tape.played)
                assert (chosen == [0, 1] and high <= first) or (chosen == [1, 0] and low >= first)


def test_every_prefix_once_gives_each_matching_its_probability_to_within_a_few():
    counts, scale, parts = np.array([[4, 3, 0], [3, 3, 1], [0, 2, 2]]), Fraction(3, 2), strata(6)
    seen: dict[tuple[int, ...], int] = {}
    for first in parts:
        for second in parts:
            tape = Tape([first, 0, second])  # a uniform reads two words at first
            chosen = tuple(exponential_matching(counts, scale, tape).tolist())
            seen[chosen] = seen.get(chosen, 0) + 1
    for matching, probability in by_definition(counts, scale).items():
        assert abs(seen[matching] / len(parts) ** 2 - probability) <= 2 / len(parts)


@pytest.mark.parametrize("counts", [[[3, 1], [2, 2]], [[4, 3, 0], [3, 3, 1], [0, 2, 2]]])
def test_matchings_follow_the_definition(counts):
    counts, n, scale = np.array(counts), 6000, Fraction(3, 2)
    matchings = list(permutations(range(len(counts))))
    drawn = np.array([matchings.index(tuple(exponential_matching(counts, scale, SystemNoise()))) for _ in range(n)])
    values = np.arange(len(matchings) - 1)
    for other, fits in ((scale, True), (scale / 2, False)):  # half the scale is seen
        law = by_definition(counts, other)
        p_value = worst_p_value(drawn, values, np.array([float(law[pi]) for pi in matchings[:-1]]))
        assert (p_value > FALSE_FAILURE) is fits


def test_certain_choices_are_certain_however_large_the_counts():
    counts = np.array([[10**6, 10**6 - 9, 0], [10**6, 0, 3], [10**6, 5, 10**6]])  # all three rows want class 0
    for _ in range(50):
        assert exponential_matching(counts, Fraction(1, 100), SystemNoise()).tolist() == [1, 0, 2]


def test_one_class_needs_no_draw_and_sixteen_are_drawn():
    tape = Tape([])
    assert exponential_matching(np.array([[7]]), Fraction(1), tape).tolist() == [0] and not tape.played
    flat = exponential_matching(np.zeros((MOST_CLASSES, MOST_CLASSES), dtype=np.int64), Fraction(1), SystemNoise())
    assert sorted(flat.tolist()) == list(range(MOST_CLASSES))


@pytest.mark.parametrize("shape", [(3, 2), (0, 0), (4,), (17, 17)])
def test_what_is_not_a_small_square_is_refused(shape):
    with pytest.raises(InvalidInput, match="counts must have shape"):
        exponential_matching(np.zeros(shape, dtype=np.int64), Fraction(1), SystemNoise())


def test_a_scale_must_be_positive():
    with pytest.raises(InvalidInput, match="scale must be > 0"):
        exponential_matching(np.zeros((2, 2), dtype=np.int64), Fraction(0), SystemNoise())
