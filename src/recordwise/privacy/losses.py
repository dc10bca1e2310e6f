"""The worst an event can do: pairs of distributions at least as easy to tell apart as any two neighbours' releases.

Composing such pairs bounds the adaptive composition of the events (Zhu, Dong, Wang 2022, arXiv:2106.08567). Two pairs
cover every mechanism here:

- `TwoPoints`: outcomes of loss +a and -a only. Any a-DP mechanism is a post-processing of it (Kairouz, Oh, Viswanath
  2015), and for discrete Laplace noise on a count that moves by one it is the mechanism itself;
- `UnitShift`: discrete Gaussian noise on a count that moves by one. Cells carry independent noise, so a release in
  which m cells move by one is m of these.

Both pairs look the same with their two sides exchanged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, OutOfRegime
from recordwise.privacy.events import Approximate, DiscreteGaussianTally, DiscreteLaplaceTally, Event, Filtered, Pure

LARGEST_SIGMA2 = Fraction(10**12)  # its 24 million outcomes fill 200 MB; such a release costs less than 10^-5 per cell


class Grid(NamedTuple):
    """Masses of the losses (lowest + i) · step, i = 0, 1, …"""

    lowest: int
    masses: NDArray[np.float64]


@dataclass(frozen=True, order=True)
class TwoPoints:
    """Loss +`loss` with probability 1 / (1 + e^-loss), else -`loss`."""

    loss: Fraction

    @property
    def rho(self) -> Fraction:
        return self.loss**2 / 2  # Bun and Steinke 2016, Proposition 1.4

    def on_grid(self, step: float) -> Grid:
        loss = float(self.loss)
        return split(np.array([-loss, loss]), np.array([math.exp(-loss), 1.0]) / (1 + math.exp(-loss)), step)


@dataclass(frozen=True, order=True)
class UnitShift:
    """Discrete Gaussian of variance parameter `sigma2`, against the same one shifted by one."""

    sigma2: Fraction

    @property
    def rho(self) -> Fraction:
        return 1 / (2 * self.sigma2)  # Canonne, Kamath, Steinke 2020, Theorem 4

    def on_grid(self, step: float) -> Grid:
        if self.sigma2 > LARGEST_SIGMA2:
            raise OutOfRegime(f"sigma2 must be <= 1e12 for the numerical accountant, got {float(self.sigma2):.3g}")
        sigma2 = float(self.sigma2)
        # Less than 10^-30 lies beyond twelve deviations, far below what the accountant sets aside for its arithmetic.
        reach = math.ceil(12 * math.sqrt(sigma2)) + 1
        outcomes = np.arange(-reach, reach + 1, dtype=np.float64)
        masses = np.exp(-(outcomes**2) / (2 * sigma2))
        return split((1 - 2 * outcomes) / (2 * sigma2), masses / masses.sum(), step)


Pair = TwoPoints | UnitShift


class Worst(NamedTuple):
    """`copies` of `pair`, independent of each other, after giving everything away with probability `failure`."""

    pair: Pair
    copies: int = 1
    failure: Fraction = Fraction(0)


@singledispatch
def worst_case(event: object) -> Worst:
    """What bounds the event from above."""
    raise InvalidInput(f"no accounting rule for {type(event).__name__}")


@worst_case.register
def _(event: Pure | Filtered) -> Worst:
    return Worst(TwoPoints(event.epsilon))


@worst_case.register
def _(event: DiscreteLaplaceTally) -> Worst:
    return Worst(TwoPoints(1 / event.scale), event.cells_changed)


@worst_case.register
def _(event: DiscreteGaussianTally) -> Worst:
    return Worst(UnitShift(event.sigma2), event.cells_changed)


@worst_case.register
def _(event: Approximate) -> Worst:
    return Worst(TwoPoints(event.epsilon), failure=event.delta)


def pure_epsilon(event: Event) -> Fraction | None:
    """The event's epsilon at delta = 0, or None where it has none."""
    pair, copies, failure = worst_case(event)
    return pair.loss * copies if isinstance(pair, TwoPoints) and failure == 0 else None


def split(losses: NDArray[np.float64], masses: NDArray[np.float64], step: float) -> Grid:
    """A pair on the grid of multiples of `step` that dominates the given one.

    An outcome of loss l between the grid's f and c becomes two outcomes, of loss f and c, whose probabilities add up
    to its own under both distributions: mass · (1 - e^(f-l)) / (1 - e^(f-c)) goes to c and the rest to f. Forgetting
    which of the two it was gives the original pair back, so the original is a post-processing of the split one. (It
    is the discretisation of Doroshenko et al. 2022, arXiv:2207.04380, one outcome at a time.)
    """
    below = np.floor(losses / step)
    upper = masses * (np.expm1(below * step - losses) / math.expm1(-step))
    lowest = int(below.min())
    place = (below - lowest).astype(np.int64)
    on_grid = np.zeros(int(place.max()) + 2)
    np.add.at(on_grid, place, masses - upper)
    np.add.at(on_grid, place + 1, upper)
    return Grid(lowest, on_grid)
