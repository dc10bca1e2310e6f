"""The tilted objective's minimum costs what its formula says, by exact densities; what is released lies near it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from scipy.special import softmax

from recordwise.baselines import ObjectivePerturbation
from recordwise.baselines.estimator import Private
from recordwise.baselines.gaussian_sums import gaussian_delta
from recordwise.baselines.objective_perturbation import bend, farthest, least_tilt, minimum, slack, tilt_delta
from recordwise.errors import InvalidInput, OutOfRegime
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded

Record = tuple[tuple[float, ...], int]


def density(records: list[Record], grid: np.ndarray, *, sigma: float, ridge: float, num_classes: int) -> np.ndarray:
    """Of the minimum, exactly, at each point of the grid; without the direction in which all classes move alike.

    That direction meets no record: probabilities do not see it.
    """
    basis = np.linalg.svd(np.eye(num_classes) - 1 / num_classes)[0][:, : num_classes - 1]
    dim = grid.shape[1] // (num_classes - 1)
    weights = np.einsum("gdk,ck->gdc", grid.reshape(len(grid), dim, num_classes - 1), basis)
    tilt = -ridge * grid.astype(float)
    curvature = np.tile(ridge * np.eye(grid.shape[1]), (len(grid), 1, 1))
    for x, y in records:
        scores = np.einsum("d,gdc->gc", np.array(x), weights)
        probabilities = softmax(scores, axis=1)
        error = (probabilities - np.eye(num_classes)[y]) @ basis
        tilt -= np.einsum("d,gk->gdk", np.array(x), error).reshape(grid.shape)
        spread = probabilities[:, :, None] * (np.eye(num_classes) - probabilities[:, None])
        inner = basis.T @ spread @ basis
        curvature += np.einsum("de,gkl->gdkel", np.outer(x, x), inner).reshape(curvature.shape)
    normal = np.exp(-(tilt**2).sum(axis=1) / (2 * sigma**2)) / (math.sqrt(2 * math.pi) * sigma) ** grid.shape[1]
    return np.asarray(normal * np.linalg.det(curvature))


def points(dim: int, reach: float) -> tuple[np.ndarray, float]:
    """A grid, and the volume of its cells."""
    side = np.linspace(-reach, reach, {1: 40_001, 2: 301}[dim])
    return np.stack(np.meshgrid(*[side] * dim), axis=-1).reshape(-1, dim), float((side[1] - side[0]) ** dim)


def exact_delta(one: np.ndarray, other: np.ndarray, epsilon: float, volume: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum() * volume)


CASES = {  # classes, and vectors of length one that two records may have, beside those that stay
    "two classes": (2, [(1.0,), (-1.0,), (0.5,)], []),
    "two classes, others there": (2, [(1.0,), (-1.0,)], [((1.0,), 0), ((-0.7,), 1)]),
    "two classes, two columns": (2, [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)], []),
    "three classes": (3, [(1.0,), (-1.0,)], []),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("sigma", "ridge", "epsilon"), [(2.5, 3.0, 3.0), (4.0, 0.5, 2.0)])
def test_no_neighbours_exact_densities_differ_by_more_than_the_formula_says(
    case: str, sigma: float, ridge: float, epsilon: float
) -> None:
    num_classes, vectors, stay = CASES[case]
    grid, volume = points(len(vectors[0]) * (num_classes - 1), (7 * sigma + 4) / ridge)

    def found(records: list[Record]) -> np.ndarray:
        return density([*stay, *records], grid, sigma=sigma, ridge=ridge, num_classes=num_classes)

    every = [found([(x, y)]) for x in vectors for y in range(num_classes)]
    none = found([])
    assert none.sum() * volume == pytest.approx(1, abs=1e-3)
    added = [(none, one) for one in every] + [(one, none) for one in every]
    settings = {"sigma": sigma, "num_classes": num_classes}
    for neighbours, pairs in (
        (Neighbours.ADD_REMOVE, added),
        (Neighbours.REPLACE, list(itertools.permutations(every, 2))),
    ):
        claimed = tilt_delta(epsilon, ridge=ridge, neighbours=neighbours, **settings)
        worst = max(exact_delta(one, other, epsilon, volume) for one, other in pairs)
        assert 0 < worst <= claimed
        if neighbours is Neighbours.ADD_REMOVE and ridge > 1:
            assert claimed < 20 * worst  # no idle bound; in epsilon a factor of 20 is a tenth


def test_without_the_determinant_the_formula_would_be_false() -> None:
    sigma, ridge, epsilon = 60.0, 0.05, 1.0
    grid, volume = points(1, (7 * sigma + 4) / ridge)
    settings = {"sigma": sigma, "ridge": ridge, "num_classes": 2}
    one, none = (density(records, grid, **settings) for records in ([((1.0,), 0)], []))
    worst = exact_delta(one, none, epsilon, volume)
    assert worst > gaussian_delta(math.sqrt(2) / sigma, epsilon) * 1.5
    assert worst <= tilt_delta(epsilon, neighbours=Neighbours.ADD_REMOVE, **settings)


def test_two_classes_and_a_strong_ridge_cost_what_a_normal_release_does() -> None:
    """dp-accounting's, for a sensitivity of √2."""
    sigma = 5.0
    pld = from_gaussian_mechanism(sigma / math.sqrt(2), value_discretization_interval=1e-4)
    ours = tilt_delta(1.0, sigma=sigma, ridge=1e9, num_classes=2, neighbours=Neighbours.ADD_REMOVE)
    assert ours == pytest.approx(pld.get_delta_for_epsilon(1.0), rel=1e-2)


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize("num_classes", [2, 10])
def test_the_tilt_is_the_least_that_costs_what_was_asked(neighbours: Neighbours, num_classes: int) -> None:
    settings = {"num_classes": num_classes, "neighbours": neighbours}
    sigma = least_tilt(0.5, 1e-5, penalty=1.0, **settings)
    assert tilt_delta(0.5, sigma=sigma, ridge=sigma, **settings) <= 1e-5
    assert tilt_delta(0.5, sigma=sigma * 0.999, ridge=sigma * 0.999, **settings) > 1e-5
    assert tilt_delta(bend(0.1, num_classes) * 0.99, sigma=1e9, ridge=0.1, **settings) == 1


def test_the_minimum_is_found_as_nearly_as_was_asked() -> None:
    """Against the gradient in extended precision, where the machine has it."""
    rng = seeded(0, "x")
    x = rng.normal(size=(5000, 7))
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = np.where(x[:, 0] > 0, 1, rng.integers(0, 3, 5000))
    tilt = rng.normal(size=(7, 3))
    near = 1e-6
    weights = minimum(x, y, tilt, ridge=0.1, near=near).astype(np.longdouble)
    wide = x.astype(np.longdouble)
    powers = np.exp(wide @ weights)
    error = powers / powers.sum(axis=1, keepdims=True) - np.eye(3)[y]
    slope = wide.T @ error + np.longdouble(0.1) * weights + tilt
    assert float(np.sqrt((slope**2).sum())) <= near
    assert np.linalg.norm(x.T @ (1 / 3 - np.eye(3)[y])) > 1e8 * near


def test_a_minimum_that_descent_alone_finds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Newton's steps fail, those of descent end the search."""
    x, y, tilt = np.array([[1.0], [-0.5]]), np.array([0, 1]), np.array([[0.3, -0.3]])
    expected = minimum(x, y, tilt, ridge=1.0, near=1e-9)
    monkeypatch.setattr("recordwise.baselines.objective_perturbation.cg", lambda *a, **k: (np.full(2, 1e3), 0))
    monkeypatch.setattr(
        "recordwise.baselines.objective_perturbation.minimize", lambda f, x0, **k: type("R", (), {"x": x0})
    )
    np.testing.assert_allclose(minimum(x, y, tilt, ridge=1.0, near=1e-9), expected, atol=3e-9)


def test_what_is_released_lies_near_the_minimum() -> None:
    """By six deviations of 12 numbers: one run in ten million would fail, and the noise is seeded."""
    x = seeded(0, "x").normal(size=(300, 3)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int) + 1
    model = ObjectivePerturbation(1.0, classes=range(3)).fit(x, y, noise=SeededNoise(0))
    scaled = model.scale_(x)
    private = Private(vectors=x, labels=y, count=300)
    weights = model.release(private, SeededNoise(3))["weights"]
    probabilities = softmax(scaled @ weights, axis=1)
    probabilities[np.arange(300), y] -= 1
    # Where the released weights are the minimum, the gradient without the tilt is minus the tilt.
    tilt = -(scaled.T @ probabilities + model.ridge_ * weights)
    assert np.abs(tilt).max() < 6 * model.noise_multiplier_
    assert model._reach * model._last_multiplier * 2 < 0.01


def test_mistakes_and_too_many_records_are_refused() -> None:
    with pytest.raises(InvalidInput, match="penalty"):
        ObjectivePerturbation(1.0, penalty=0.0, classes=[0, 1]).fit(np.zeros((2, 1)), [0, 1])
    model = ObjectivePerturbation(1.0)
    model.check(10**6, 400, 10)
    with pytest.raises(OutOfRegime, match="not exact enough"):
        model.check(10**9, 400, 10)
    assert slack(10**6, 400, 10, 1.0) < slack(10**7, 400, 10, 1.0)


def test_the_minimum_is_no_longer_than_what_sums_were_checked_for() -> None:
    """Records of two classes that lie apart pull hardest; the noise is seeded."""
    x = np.tile([[1.0], [-1.0]], (500, 1))
    tilt = seeded(0, "tilt").normal(size=(1, 2))
    found = minimum(x, np.tile([0, 1], 500), tilt, ridge=0.01, near=1e-6)
    far = farthest(1000, 2, 2, ridge=0.01, sigma=1.0)
    assert 5 < np.linalg.norm(found) < far
    assert farthest(10**6, 1010, 10, ridge=11.4, sigma=3.8) > 600
