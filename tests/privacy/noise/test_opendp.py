"""OpenDP's samplers as an independent oracle: the same laws, drawn by different code."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import binomtest
from tape import FALSE_FAILURE

from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, SystemNoise, permute_and_flip

dp.enable_features("contrib")

VECTORS = (dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"))
SQUARES = (dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float))
SCORES = (dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=True))


def difference(ours: np.ndarray, theirs: np.ndarray, values: np.ndarray) -> float:
    """A p-value that both samples have one law: given how often a value came, who drew it is a fair coin."""
    assert len(ours) == len(theirs)
    counts = [(int((ours == v).sum()), int((theirs == v).sum())) for v in values]
    return min(1.0, len(counts) * min(binomtest(x, x + y, 0.5).pvalue for x, y in counts if x + y))


def test_discrete_laplace_agrees():
    n, values = 100_000, np.arange(-8, 9)
    theirs = np.array((VECTORS >> dp.m.then_laplace(3.0))([0] * n))
    assert difference(DiscreteLaplace(Fraction(3)).sample(n, SystemNoise()), theirs, values) > FALSE_FAILURE
    assert difference(DiscreteLaplace(Fraction(3, 2)).sample(n, SystemNoise()), theirs, values) < FALSE_FAILURE


def test_discrete_gaussian_agrees():
    n, values = 60_000, np.arange(-6, 7)
    theirs = np.array((SQUARES >> dp.m.then_gaussian(3.0))([0] * n))
    assert difference(DiscreteGaussian(Fraction(9)).sample(n, SystemNoise()), theirs, values) > FALSE_FAILURE
    assert difference(DiscreteGaussian(Fraction(9, 4)).sample(n, SystemNoise()), theirs, values) < FALSE_FAILURE


@pytest.mark.parametrize("counts", [[5, 3, 0, 4]])
def test_permute_and_flip_agrees_with_noisy_max(counts):
    n, values = 15_000, np.arange(4)
    noisy_max = SCORES >> dp.m.then_noisy_max(dp.max_divergence(), scale=2.0)
    theirs = np.array([noisy_max(counts) for _ in range(n)])
    ours = permute_and_flip(np.tile(counts, (n, 1)), Fraction(2), SystemNoise())
    halved = permute_and_flip(np.tile(counts, (n, 1)), Fraction(1), SystemNoise())
    assert difference(ours, theirs, values) > FALSE_FAILURE
    assert difference(halved, theirs, values) < FALSE_FAILURE
