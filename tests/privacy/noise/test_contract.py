"""Every law of noise: it describes itself truly, its tail bound covers, and its draws follow it bit by bit.

A law has a case by being a class of `recordwise.privacy.noise` with a tail bound. Probabilities come from definitions,
by another library's arithmetic. Draws are seeded: there is no false alarm.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf, nan, sqrt
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy.stats import binom, norm
from tape import FALSE_FAILURE, mp, worst_p_value

from recordwise.errors import InvalidInput
from recordwise.privacy import noise as package
from recordwise.privacy.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NegativeBinomial,
    Normal,
    PolyaDifference,
    SeededNoise,
    SumOfEstimates,
)
from recordwise.privacy.noise.real import Enclosure
from recordwise.privacy.noise.uniform import Uniform
from recordwise.protocols.release.tally import LAWS


@dataclass(frozen=True, kw_only=True)
class Case:
    """A law, the truth about it, and laws that its draws must not be mistaken for.

    Attributes:
      chance: P(Z = z), or a density, by definition.
      beyond: P(|Z| >= distance), for a distance above zero.
      std: The deviation, by definition.
      loose: The tail bound is at most so many times the truth.
      twins: Broken ones: with less noise than the law, or a little more.
    """

    law: Any
    chance: Callable[[float], Any]
    beyond: Callable[[float], Any]
    std: Any
    loose: float
    twins: tuple[Any, ...] = ()


def laplace(scale: Fraction, *twins: Fraction) -> Case:
    a = mpmath.exp(-1 / mp(scale))
    return Case(
        law=DiscreteLaplace(scale),
        chance=lambda z: (1 - a) / (1 + a) * a ** abs(z),
        beyond=lambda distance: 2 * a ** mpmath.ceil(distance) / (1 + a),
        std=mpmath.sqrt(2 * a) / (1 - a),
        loose=1 + 1e-7,
        twins=tuple(DiscreteLaplace(scale * twin) for twin in twins),
    )


def gaussian(sigma2: Fraction, *twins: Fraction) -> Case:
    weight = [mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * mp(sigma2))) for z in range(400)]
    total = 2 * mpmath.fsum(weight) - 1
    return Case(
        law=DiscreteGaussian(sigma2),
        chance=lambda z: weight[int(abs(z))] / total,
        beyond=lambda distance: 2 * mpmath.fsum(weight[int(np.ceil(distance)) :]) / total,
        std=mpmath.sqrt(2 * mpmath.fsum(z**2 * one for z, one in enumerate(weight)) / total),
        loose=3,
        twins=tuple(DiscreteGaussian(sigma2 * twin) for twin in twins),
    )


def negative_binomial(shape: Fraction, scale: Fraction) -> Case:
    a = mpmath.exp(-1 / mp(scale))

    @cache
    def chance(k: int) -> Any:
        return mpmath.rf(mp(shape), k) / mpmath.factorial(k) * (1 - a) ** mp(shape) * a**k if k >= 0 else mpmath.mpf(0)

    return Case(
        law=NegativeBinomial(shape, scale),
        chance=lambda k: chance(int(k)),
        beyond=lambda distance: 1 - mpmath.fsum(chance(k) for k in range(int(np.ceil(distance)))),
        std=mpmath.sqrt(mp(shape) * a) / (1 - a),
        loose=2000,  # Chernoff's
        twins=(NegativeBinomial(shape / 2, scale), NegativeBinomial(shape, scale / 2)),
    )


def polya(shape: Fraction, scale: Fraction) -> Case:
    one_side = np.array([float(negative_binomial(shape, scale).chance(k)) for k in range(2000)])
    both = np.array([one_side[k:] @ one_side[: 2000 - k] for k in range(2000)])
    return Case(
        law=PolyaDifference(shape, scale),
        chance=lambda z: both[int(abs(z))],
        beyond=lambda distance: 2 * both[int(np.ceil(distance)) :].sum(),
        std=sqrt(2 * (both * np.arange(2000) ** 2).sum()),
        loose=1 + 1e-6,
        twins=(PolyaDifference(shape / 2, scale),),
    )


def normal(std: float) -> Case:
    return Case(
        law=Normal(std),
        chance=lambda z: norm.pdf(z, scale=std),
        beyond=lambda distance: 2 * norm.sf(distance, scale=std) * (1 - 1e-12),  # SciPy's own rounding
        std=std,
        loose=1 + 1e-7,
    )


def estimates(messages: int, kept: float, flipped: float) -> Case:
    """Records that say yes by chance alone, each counted so that the count is unbiased."""
    step = 1 / (kept - flipped)
    variance = flipped * (1 - flipped) * step**2
    said = np.arange(messages + 1)
    noise, chance = (said - messages * flipped) * step, binom.pmf(said, messages, flipped)
    return Case(
        law=SumOfEstimates(
            messages=messages,
            variance=variance,
            largest_variance=variance,
            below=flipped * step,
            above=(1 - flipped) * step,
        ),
        chance=lambda z: norm.pdf(z, scale=sqrt(messages * variance)),  # its limit
        beyond=lambda distance: chance[np.abs(noise) >= distance].sum(),
        std=sqrt((chance * noise**2).sum()),
        loose=1000,  # Bennett's
    )


HALF, MORE = Fraction(1, 2), Fraction(8, 7)


@cache  # made when first asked for: collecting tests stays quick
def every_case() -> list[Case]:
    with mpmath.workprec(200):
        return [
            *(laplace(Fraction(scale)) for scale in ("1/1000", "12345/7", "10000000")),
            *(laplace(Fraction(scale), HALF, MORE) for scale in ("1/3", "1", "20")),
            *(gaussian(Fraction(sigma2)) for sigma2 in ("1/1000", "1/10", "7/2")),
            *(gaussian(Fraction(sigma2), HALF**2, MORE) for sigma2 in ("1/3", "1", "100")),
            *(negative_binomial(Fraction(1, 3), Fraction(scale)) for scale in ("1/2", "5")),
            negative_binomial(Fraction(1, 1000), Fraction(20)),
            negative_binomial(Fraction(1), Fraction(3)),
            negative_binomial(Fraction(7, 2), Fraction(5)),
            polya(Fraction(1, 10), Fraction(5)),
            polya(Fraction(1), Fraction(20)),
            polya(Fraction(3, 2), Fraction(1, 2)),
            polya(Fraction(5), Fraction(3)),
            normal(2.5),
            estimates(40, 0.75, 0.25),
            estimates(40, 0.5, 0.1),
        ]


NO_NUMBERS = [0, -1, nan]
REFUSED: dict[type, list[tuple[Any, ...]]] = {
    DiscreteLaplace: [(scale,) for scale in (*NO_NUMBERS, inf, 2**41, Fraction(1, 2**41))],
    DiscreteGaussian: [(sigma2,) for sigma2 in (*NO_NUMBERS, inf, 2**79, Fraction(1, 2**41))],
    NegativeBinomial: [(0, 1), (-1, 1), (nan, 1), (1, 0), (1, 2**41), (1, nan)],
    PolyaDifference: [(0, 1), (-1, 1), (nan, 1), (1, 0), (1, 2**41), (1, nan)],
    Normal: [(std,) for std in NO_NUMBERS],
}


def laws() -> list[type]:
    """Every class of the package that bounds its tail, wherever it is written; `Law` itself is what they share."""
    names = [f"{package.__name__}.{module.name}" for module in pkgutil.iter_modules(package.__path__)]
    held = [one for name in names for one in vars(importlib.import_module(name)).values()]
    kinds = {one for one in held if isinstance(one, type) and hasattr(one, "two_sided_tail")} - {package.Law}
    return sorted(kinds, key=lambda kind: kind.__name__)


MAKING_NOISE = [kind for kind in laws() if hasattr(kind, "sample")]
every_law = pytest.mark.parametrize("kind", laws(), ids=lambda kind: kind.__name__)
every_law_that_makes_noise = pytest.mark.parametrize("kind", MAKING_NOISE, ids=lambda kind: kind.__name__)


def cases(kind: type) -> list[Case]:
    """A law without a case has no proof."""
    found = [case for case in every_case() if type(case.law) is kind]
    assert found, f"{kind.__name__} needs a case in {__name__}"
    return found


@pytest.fixture(autouse=True)
def _high_precision() -> Any:
    with mpmath.workprec(200):
        yield


def test_every_law_that_a_release_may_name_is_one_of_these() -> None:
    assert set(LAWS.values()) <= set(laws())


@every_law
def test_a_law_describes_itself(kind: type) -> None:
    for case in cases(kind):
        values = np.array([0, 1, -2, 5, 9])
        chances = np.array([float(case.chance(int(value))) for value in values])
        assert case.law.std == pytest.approx(float(case.std), rel=1e-9, abs=0)
        seen = chances > 1e-280
        log_chances, found = np.log(chances[seen]), case.law.log_likelihood(values)[seen]
        np.testing.assert_allclose(found - found[0], log_chances - log_chances[0], rtol=1e-9, atol=1e-9)
        at_zero, near, far = case.law.log_likelihood(np.ceil(40 * float(case.std)) * np.array([0, 1, 2]))
        falls = (at_zero - far) / (at_zero - near)  # twice as far is twice as unlikely, in logarithms, or four times
        assert (falls < 3) == case.law.heavy_tailed
        if kind in MAKING_NOISE:
            np.testing.assert_allclose(case.law.pmf(values), chances, rtol=1e-9, atol=0 if seen.all() else 1e-280)


@every_law
def test_the_tail_bound_covers_and_is_not_loose(kind: type) -> None:
    for case in cases(kind):
        std = float(case.std)
        for distance in (0.5, 1.0, 3.0, 10.0, std, 6 * std, 25.5 * std):
            bound, truth = case.law.two_sided_tail(distance), case.beyond(distance)
            assert truth <= bound <= min(1, float(truth) * case.loose + 1e-25)
        assert case.law.two_sided_tail(0.0) == case.law.two_sided_tail(-1.0) == 1
        assert case.law.two_sided_tail(1000 * std) < 1e-3


@every_law_that_makes_noise
def test_draws_follow_the_law_and_no_other(kind: type) -> None:
    drawn = [case for case in cases(kind) if case.twins]
    assert drawn
    for case in drawn:
        draws = case.law.sample(300_000, SeededNoise(0))
        reach = min(12, max(2, round(float(case.std))))
        values = np.arange(0 if kind is NegativeBinomial else -reach, reach + 1)
        chances = np.array([float(case.chance(int(value))) for value in values])
        assert worst_p_value(draws, values, chances) > FALSE_FAILURE
        for twin in case.twins:
            assert worst_p_value(draws, values, twin.pmf(values)) < FALSE_FAILURE


@every_law_that_makes_noise
def test_no_float_decides_a_draw(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending every draw to the exact comparison changes no outcome."""

    class Revealed(Uniform):
        def _reveal(self, bits: int) -> Enclosure:
            self._noise = spare  # bits that one draw needs beyond its first do not shift those of the next
            return super()._reveal(bits)

    spare = SeededNoise(6)
    for module in ("uniform", "staircase", "poisson", "negative_binomial"):
        monkeypatch.setattr(f"recordwise.privacy.noise.{module}.Uniform", Revealed)
    fast = [case.law.sample(200, SeededNoise(5)) for case in cases(kind)]
    monkeypatch.setattr("recordwise.privacy.noise.staircase.SMALL_WORD", 1 << 64)
    monkeypatch.setattr("recordwise.privacy.noise.uniform.MARGIN", 2.0)
    monkeypatch.setattr("recordwise.privacy.noise.poisson.MARGIN", 2.0)
    for case, draws in zip(cases(kind), fast, strict=True):
        np.testing.assert_array_equal(case.law.sample(200, SeededNoise(5)), draws)


@every_law_that_makes_noise
def test_draws_come_as_int64_in_the_shape_asked_for(kind: type) -> None:
    for size, shape in ((5, (5,)), ((2, 3), (2, 3)), (0, (0,)), ((4, 0), (4, 0)), ((), ())):
        draws = cases(kind)[0].law.sample(size, SeededNoise(0))
        assert np.shape(draws) == shape and draws.dtype == np.int64


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_parameters_out_of_range_are_refused(kind: type) -> None:
    for parameters in REFUSED[kind]:
        with pytest.raises(InvalidInput):
            kind(*parameters)


def test_a_law_that_only_describes_noise_makes_none() -> None:
    assert not any(hasattr(kind, "sample") or hasattr(kind, "pmf") for kind in (Normal, SumOfEstimates))
