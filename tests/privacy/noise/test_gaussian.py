from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import norm
from tape import FALSE_FAILURE, Tape, interval, mp, near, worst_p_value

from recordwise.privacy.noise import DiscreteGaussian, SystemNoise
from recordwise.privacy.noise.uniform import MARGIN, below

VARIANCES = [Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(400), Fraction(10**9, 7), Fraction(10**14)]
SMALL = [Fraction(1, 1000), Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(7, 2), Fraction(100)]


@pytest.fixture(autouse=True)
def _high_precision():
    with mpmath.workprec(1000):
        yield


def weight(sigma2: Fraction, z: int) -> mpmath.mpf:
    return mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mp(sigma2)))


def total(sigma2: Fraction) -> mpmath.mpf:
    with mpmath.workprec(100):
        return 1 + 2 * mpmath.fsum(weight(sigma2, z) for z in range(1, 20 + 20 * round(float(sigma2) ** 0.5)))


class Watcher:
    """Stands in for `below`: keeps the thresholds it is asked about, then decides as usual."""

    def __init__(self) -> None:
        self.errors: list[float] = []
        self.thresholds: list[mpmath.mpf] = []

    def __call__(self, approximate, exact, noise):
        self.errors += [abs(value - float(exact(i))) for i, value in enumerate(approximate)]
        self.thresholds += [mpmath.mpf(exact(i).bounds(200)[0]) / mpmath.mpf(2) ** 200 for i in range(len(approximate))]
        return below(approximate, exact, noise)


@pytest.mark.parametrize("sigma2", SMALL)
def test_proposal_times_acceptance_is_the_law_up_to_one_constant(sigma2, monkeypatch):
    watcher = Watcher()
    monkeypatch.setattr("recordwise.privacy.noise.gaussian.below", watcher)
    law = DiscreteGaussian(sigma2)
    magnitudes = np.arange(40)
    law._accept(magnitudes, SystemNoise())
    proposal = mp(Fraction(law._proposal_scale))
    ratios = [
        mpmath.exp(-mpmath.mpf(int(z)) / proposal) * accept / weight(sigma2, int(z))
        for z, accept in zip(magnitudes, watcher.thresholds, strict=True)
        if accept > mpmath.mpf(2) ** -100
    ]
    assert len(ratios) >= 1
    assert max(ratios) / min(ratios) - 1 < mpmath.mpf(2) ** -90
    assert all(accept <= 1 for accept in watcher.thresholds)


@pytest.mark.parametrize("sigma2", VARIANCES)
def test_the_floats_stay_far_inside_the_margin(sigma2, monkeypatch):
    watcher = Watcher()
    monkeypatch.setattr("recordwise.privacy.noise.gaussian.below", watcher)
    sigma = float(sigma2) ** 0.5
    DiscreteGaussian(sigma2)._accept(np.unique(np.linspace(0, 45 * sigma + 5, 200).astype(np.int64)), SystemNoise())
    assert max(watcher.errors) < MARGIN / 1000


@pytest.mark.parametrize("sigma2", SMALL)
def test_acceptance_is_decided_by_its_bits_alone(sigma2):
    law = DiscreteGaussian(sigma2)
    center = mp(sigma2) / law._proposal_scale
    for magnitude in (0, 1, 3):
        truth = mpmath.exp(-((magnitude - center) ** 2) / (2 * mp(sigma2)))
        for words in [*near(truth, 1), *near(truth, 3)]:
            tape = Tape(words)
            (result,) = law._accept(np.array([magnitude]), tape)
            low, high = interval(tape.played)
            assert (high <= truth) if result else (truth <= low)


def test_large_deviations_follow_the_law_too():
    n, sigma = 1_000_000, 10**7
    draws = DiscreteGaussian(Fraction(sigma) ** 2).sample(n, SystemNoise())
    edges = np.arange(-2, 3) * sigma
    bins = np.searchsorted(edges, draws, side="right")
    for deviation, fits in ((1.0, True), (1.03, False)):
        # A step at the edges weighs 4e-8, far below what the test can see.
        cumulative = np.concatenate([[0], norm.cdf(edges / sigma, scale=deviation), [1]])
        assert (worst_p_value(bins, np.arange(5), np.diff(cumulative)[:5]) > FALSE_FAILURE) is fits


def test_wide_laws_equal_their_integrals():
    law = DiscreteGaussian(Fraction(64))
    assert law.std == 8.0
    assert float(total(Fraction(64))) == pytest.approx(law._total, rel=1e-14)


def test_the_largest_and_smallest_variances_work():
    assert np.abs(DiscreteGaussian(Fraction(2**78)).sample(20, SystemNoise())).max() > 2**30
    assert (DiscreteGaussian(Fraction(1, 2**40)).sample(10_000, SystemNoise()) == 0).all()
