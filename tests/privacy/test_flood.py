from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from experiments.printed import published_flood
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.privacy.flood import Flood, calibrate_flood, flood_delta
from recordwise.privacy.noise import NegativeBinomial


def view(flood: Flood, noise_epsilon: float, size: int) -> NDArray[np.float64]:
    """P(a positive, b negative) for x = 0 and a, b < size, summed over the three noises without any algebra."""
    one_sided = NegativeBinomial(Fraction(1), 1 / Fraction(noise_epsilon)).pmf(np.arange(size))
    cancelling = NegativeBinomial(flood.shape, flood.scale).pmf(np.arange(size))
    law = np.zeros((size, size))
    for z, weight in enumerate(cancelling):
        law[z:, z:] += weight * np.outer(one_sided[: size - z], one_sided[: size - z])
    return law


def hockey_stick(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def neighbours(law: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x = 0 and x = 1, the last rows left out, where the shift would fall off the table."""
    shifted = np.zeros_like(law)
    shifted[1:] = law[:-1]
    return law, shifted


CASES = [
    (Flood(Fraction(5), Fraction(2)), 0.7, 0.5),
    (Flood(Fraction(3, 2), Fraction(1)), 1.0, 0.2),
    (Flood(Fraction(12), Fraction(1, 2)), 2.0, 1.0),
    (Flood(Fraction(8), Fraction(4)), 0.3, 0.3),
]


@pytest.mark.parametrize(("flood", "noise_epsilon", "flood_epsilon"), CASES)
def test_delta_is_the_divergence_of_the_two_counts(flood: Flood, noise_epsilon: float, flood_epsilon: float) -> None:
    p, q = neighbours(view(flood, noise_epsilon, 220))
    exact = hockey_stick(p, q, noise_epsilon + flood_epsilon)
    certified = flood_delta(flood, noise_epsilon=noise_epsilon, flood_epsilon=flood_epsilon)
    assert exact * (1 - 1e-9) <= certified <= exact * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize(("flood", "noise_epsilon", "flood_epsilon"), CASES)
def test_the_other_direction_costs_the_noise_alone(flood: Flood, noise_epsilon: float, flood_epsilon: float) -> None:
    p, q = neighbours(view(flood, noise_epsilon, 220))
    assert hockey_stick(q[:200, :200], p[:200, :200], noise_epsilon + 1e-9) < 1e-14


@pytest.mark.parametrize("cells", [1, 2])
def test_a_whole_release_keeps_its_budget_by_enumeration(cells: int) -> None:
    """Add or remove: one cell changes; replace: one goes up and another down. The counts of all of them together."""
    epsilon, delta, share = Fraction(4), Fraction(1, 20), Fraction(1, 4)
    noise, hidden = (1 - share) * epsilon / cells, share * epsilon / cells
    flood = calibrate_flood(noise, hidden, delta / cells)

    def spent(flood: Flood) -> float:
        p, q = (law.ravel() for law in neighbours(view(flood, float(noise), 60)))
        if cells == 1:
            return max(hockey_stick(p, q, float(epsilon)), hockey_stick(q, p, float(epsilon)))
        keep = (p > 1e-9) | (q > 1e-9)
        p, q = p[keep], q[keep]
        lost = 2 - p.sum() - q.sum()
        assert lost < 1e-3 * delta
        return hockey_stick(np.outer(p, q), np.outer(q, p), float(epsilon))

    assert spent(flood) <= delta
    # The broken twin: half the flood. With two cells composition leaves room, so the twin has to be worse.
    twin = Flood(max(Fraction(1), flood.shape * Fraction(1, 2 if cells == 1 else 10)), flood.scale)
    assert spent(twin) > delta


@pytest.mark.parametrize(
    ("flood_epsilon", "published", "to_beat"), [("0.05", 4422, 579), ("0.1", 2200, 312), ("0.5", 423, 69)]
)
@pytest.mark.parametrize("ratio", [1, 9, 1000])
def test_a_sixth_of_the_published_messages_suffices(
    flood_epsilon: str, published: int, to_beat: int, ratio: int
) -> None:
    hidden, delta = Fraction(flood_epsilon), Fraction(1, 10**6)
    flood = calibrate_flood(ratio * hidden, hidden, delta)
    assert flood_delta(flood, noise_epsilon=ratio * hidden, flood_epsilon=hidden) <= delta
    formula = published_flood(hidden, delta)
    assert formula.mean == pytest.approx(published, abs=1)
    assert flood_delta(formula, noise_epsilon=ratio * hidden, flood_epsilon=hidden) <= delta
    assert flood.mean <= min(to_beat + 0.5, formula.mean / 5)


def test_calibration_leaves_little_unused() -> None:
    noise, hidden, delta = Fraction(1, 2), Fraction(1, 10), Fraction(1, 10**8)
    flood = calibrate_flood(noise, hidden, delta)
    assert flood_delta(flood, noise_epsilon=noise, flood_epsilon=hidden) > 0.99 * delta
    less = Flood(flood.shape * Fraction(99, 100), flood.scale)
    assert flood_delta(less, noise_epsilon=noise, flood_epsilon=hidden) > delta


def test_bad_parameters_are_one_line() -> None:
    with pytest.raises(InvalidInput, match="shape must be >= 1"):
        Flood(Fraction(1, 2), Fraction(1))
    with pytest.raises(InvalidInput, match="flood_epsilon"):
        calibrate_flood(Fraction(1), Fraction(0), Fraction(1, 100))
    with pytest.raises(InvalidInput, match="delta"):
        calibrate_flood(Fraction(1), Fraction(1), Fraction(0))
