from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from recordwise.errors import InvalidInput, OutOfRegime
from recordwise.privacy.noise import PolyaDifference
from recordwise.privacy.shares import unit_loss


def enumerated_loss(shape: Fraction, scale: Fraction, steps: int) -> float:
    """The largest |log f(k)/f(k+1)| over |k| <= steps, f summed from its definition."""
    count = 40 * steps
    a, r = math.exp(-1 / float(scale)), float(shape)
    h = np.cumprod(np.append(1.0, a * (np.arange(count) + r) / (np.arange(count) + 1)))
    f = np.array([(h[: len(h) - k] * h[k:]).sum() for k in range(steps + 2)])
    return float(np.abs(np.diff(np.log(f))).max())


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(7)])
@pytest.mark.parametrize("shape", [Fraction(n, 6) for n in (1, 3, 5, 6, 7, 12, 30)])
def test_the_loss_bounds_every_unit_shift_and_is_attained(shape: Fraction, scale: Fraction) -> None:
    steps = 60
    exact, claimed = enumerated_loss(shape, scale, steps), float(unit_loss(shape, scale))
    assert exact <= claimed * (1 + 1e-12)
    attained = claimed * (1 - 1e-6) if shape <= 1 else claimed - 1.1 * float(shape - 1) / steps
    assert exact >= attained


def test_fewer_shares_cost_more_and_more_shares_the_same() -> None:
    losses = [unit_loss(Fraction(n, 10), Fraction(5)) for n in range(1, 16)]
    assert losses[:10] == sorted(losses[:10], reverse=True)
    assert losses[8] > losses[9] == losses[14] == Fraction(1, 5)


def test_shares_add_up_to_discrete_laplace_noise() -> None:
    share = PolyaDifference(Fraction(1, 3), Fraction(2)).pmf(np.arange(-200, 201))
    total = np.convolve(np.convolve(share, share, mode="same"), share, mode="same")[150:251]
    a = math.exp(-0.5)
    assert total == pytest.approx((1 - a) / (1 + a) * a ** np.abs(np.arange(-50, 51)), rel=1e-6, abs=1e-12)


def test_bad_parameters_are_one_line() -> None:
    with pytest.raises(InvalidInput, match="shape"):
        unit_loss(Fraction(0), Fraction(1))
    with pytest.raises(OutOfRegime, match="scale"):
        unit_loss(Fraction(1, 2), Fraction(10**7))
