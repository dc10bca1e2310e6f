"""Exact linear maps: every sum equals the one that Python's integers give, in every order, up to the very edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from recordwise.encoders.exact import COLUMN_BITS, INPUT_BITS, ExactLinear
from recordwise.streams import stream


def by_integers(linear: ExactLinear, inputs: np.ndarray) -> list[list[float]]:
    """The same grid, added up by integers that have no limit."""
    whole = np.rint(np.clip(inputs, -linear.limit, linear.limit) * (2.0**INPUT_BITS / linear.limit))
    sums = [
        [sum(int(a) * int(w) for a, w in zip(row, column, strict=True)) for column in linear.weights.T] for row in whole
    ]
    assert all(abs(one) <= 2**53 for row in sums for one in row)
    return [[float(one) * float(unit) for one, unit in zip(row, linear.units, strict=True)] for row in sums]


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(-30, 30))
@settings(max_examples=60, deadline=None)
def test_sums_are_those_of_integers_in_any_order(seed: int, inputs: int, exponent: int) -> None:
    rng = stream(seed, "exact")
    matrix = rng.normal(size=(inputs, 3)) * 2.0 ** rng.integers(-20, 20, 3)
    linear = ExactLinear.of(matrix, limit=2.0**exponent)
    samples = rng.normal(size=(5, inputs)) * 2.0**exponent
    found = linear(samples.copy())
    assert found.tolist() == by_integers(linear, samples)
    order = rng.permutation(inputs)
    turned = ExactLinear(linear.weights[order], linear.units, linear.limit)
    assert np.array_equal(turned(samples[:, order].copy()).view(np.uint64), found.view(np.uint64))
    assert np.array_equal(linear(csr_matrix(samples)).view(np.uint64), found.view(np.uint64))


@pytest.mark.parametrize("inputs", [1, 2, 3, 1000])
def test_the_largest_sums_that_can_occur_still_fit(inputs: int) -> None:
    """All inputs at the limit, every product of one sign, sums of weights just below a power of two."""
    matrix = np.full((inputs, 1), np.nextafter(1.0, 0) / inputs)
    linear = ExactLinear.of(matrix, limit=1.0)
    assert 2 ** (COLUMN_BITS - 2) <= np.abs(linear.weights).sum() <= 2**COLUMN_BITS
    assert linear(np.full((1, inputs), 9.0)).tolist() == by_integers(linear, np.full((1, inputs), 9.0))
    assert linear(np.full((1, inputs), -9.0)).tolist() == by_integers(linear, np.full((1, inputs), -9.0))


def test_the_grid_is_fine() -> None:
    rng = stream(0, "fine")
    matrix, samples = np.linalg.qr(rng.normal(size=(800, 64)))[0], rng.normal(size=(50, 800))
    error = ExactLinear.of(matrix, limit=8 * np.abs(samples).max())(samples.copy()) - samples @ matrix
    assert (np.abs(error).max(axis=1) < 1e-6 * np.linalg.norm(samples, axis=1)).all()
    assert np.abs(error).max() < 1e-5 * np.abs(samples @ matrix).max()


def test_a_zero_has_one_sign() -> None:
    linear = ExactLinear.of(np.array([[-1.0], [0.0]]), limit=1.0)
    assert not np.signbit(linear(np.array([[0.0, 0.0], [-0.0, 0.0], [0.0, -1.0]]))).any()


def test_columns_of_nothing_and_pools_without_spread_are_harmless() -> None:
    assert ExactLinear.of(np.zeros((3, 2)), limit=0.0)(np.ones((1, 3))).tolist() == [[0.0, 0.0]]
