"""Softmax regression by objective perturbation (Chaudhuri et al. 2011): noise tilts the objective, not its steps.

The weights θ, of shape (d, C), minimise Σ loss(θ; record) + Λ/2·|θ|² + b·θ, where b is normal noise of deviation σ.

What the minimum costs. It is where b = -Σ ∇loss(θ) - Λθ, a smooth map from θ to b that can be turned round. So θ has
the density of that b, times the determinant of A = Σ ∇²loss + ΛI. Of neighbours, the second has b + h for b:

- A record's gradient is x ⊗ (p - e_y), with p its class probabilities. It depends on b through p. But the log-ratio of
  the two normal densities, (|b + h|² - |b|²)/2σ², is convex in p, so no p is worse than the worst corner of the
  simplex; there h is fixed, and the ratio is that of two normal laws |h|/σ apart. As |x| <= 1, a corner moves b by √2
  where a record is added or removed, and by at most 2√2 where one is replaced. The deltas of all corners are added.
- A record's Hessian is xxᵀ ⊗ (diag p - ppᵀ), with C - 1 eigenvalues that add up to at most 1 - 1/C. So it multiplies
  the determinant by one at least and by (1 + 1/(CΛ))^(C-1) at most. Its logarithm is taken from epsilon.

This is the argument of Kifer et al. (2012) and Redberg et al. (2023) for generalised linear models, for C classes.

What stopping near it costs (approximate minima perturbation, Iyengar et al. 2019). Weights at which the gradient has
length γ lie within γ/Λ of the minimum, for the objective bends by Λ at least. Noise for twice that distance hides where
they are. The same γ covers all else in which a computer errs: b on a grid, and sums of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg

from recordwise.arrays import softmax
from recordwise.baselines.estimator import Facts, Places, Private, Released, Rival, Vectors
from recordwise.baselines.gaussian_sums import UNIT, gaussian_delta, left_of, noise_for, noised, shorten
from recordwise.baselines.public_scale import PublicScale
from recordwise.errors import OutOfRegime, positive
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.noise import Noise
from recordwise.privacy.search import least_noise

Doubles = NDArray[np.float64]
LAST_EPSILON, LAST_DELTA = 1 / 50, 1 / 20  # of the budget, for stopping near the minimum
NEAR = 1e-5  # the length of the gradient at which to stop, in units of the noise, at epsilon one and above
FINER = 2**14  # the answer's grid, beside that of sums
CHUNK = 4096  # records whose gradients are added at a time: sums of floats err by their number of terms
ROUNDING = 2.0**-53


@dataclass(eq=False, repr=False)
class ObjectivePerturbation(Rival):
    """Softmax regression whose objective was tilted by noise once, and minimised.

    Args:
      penalty: The objective's ridge, in units of the noise.
      whiten: How far the pool's spectrum is flattened first, in [0, 1].

    Attributes:
      noise_multiplier_: The deviation of the tilt.
      ridge_: Λ.
      weights_: (d + 1, C), the intercept last.
    """

    name: ClassVar[str] = "objective-perturbation"
    facts: ClassVar[Facts] = Facts(
        protects="one record",
        public="features; no pool needed",
        rounds="one",
        data_dependent="no",
        elsewhere="nothing: the minimum is a question about all records together, and steps towards it are not noised",
    )

    penalty: float = field(default=3.0, kw_only=True)
    whiten: float = field(default=0.0, kw_only=True)

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        positive(penalty=self.penalty)
        epsilon, delta = float(self.epsilon), float(self.delta)
        cells = (dim + 1) * num_classes
        self.noise_multiplier_ = least_tilt(
            epsilon * (1 - LAST_EPSILON),
            left_of(delta * (1 - LAST_DELTA), epsilon, cells),
            penalty=self.penalty,
            num_classes=num_classes,
            neighbours=self._relation,
        )
        self.ridge_ = self.penalty * self.noise_multiplier_
        self._near = NEAR * min(1.0, epsilon) * self.noise_multiplier_
        far = farthest(num_records, cells, num_classes, ridge=self.ridge_, sigma=self.noise_multiplier_)
        if not slack(num_records, dim + 1, num_classes, far) < self._near * 3 / 4:  # the rest is the gradient's own
            raise OutOfRegime(f"sums over {num_records:,} records are not exact enough at epsilon {epsilon:g}")
        grids = math.sqrt(cells) / (2 * UNIT**2)  # the tilt's, which moves the gradient; the answer's is finer
        self._reach = (self._near + grids) / self.ridge_ + grids / FINER
        self._last_multiplier = noise_for(
            epsilon * LAST_EPSILON,
            delta * LAST_DELTA,
            neighbours=Neighbours.ADD_REMOVE,  # the distance is that between two answers, whatever made them neighbours
            cells=cells,
        )

    def prepare(self, pool: Vectors | None, dim: int) -> None:
        self.scale_ = PublicScale.of(pool, dim, whiten=self.whiten)

    def release(self, private: Private, noise: Noise) -> Released:
        x = self.scale_(private.vectors)
        x *= shorten(np.linalg.norm(x, axis=1), 1.0)[:, None]
        shape = (x.shape[1], len(self.classes_))
        tilt = noised(np.zeros(shape), noise_multiplier=self.noise_multiplier_, clip=1.0, noise=noise)
        found = minimum(x, private.labels, tilt, ridge=self.ridge_, near=self._near)
        hidden = noised(
            np.rint(found * (FINER * UNIT**2)),
            noise_multiplier=self._last_multiplier,
            clip=2 * self._reach * FINER,
            noise=noise,
        )
        return {"weights": hidden / FINER}

    def learn(self, released: Released, pool: Vectors | None) -> None:
        self.weights_ = released["weights"]

    def probabilities(self, vectors: Vectors) -> Doubles:
        return softmax(self.scale_(vectors) @ self.weights_)


def tilt_delta(epsilon: float, *, sigma: float, ridge: float, num_classes: int, neighbours: Neighbours) -> float:
    """The delta at which the exact minimum is (epsilon, delta)-DP; one where epsilon does not pay the determinant."""
    left = epsilon - bend(ridge, num_classes)
    if left < 0:
        return 1.0
    others, side = num_classes - 1, math.sqrt(2) / sigma
    one = others * gaussian_delta(side, left)
    if neighbours is Neighbours.ADD_REMOVE:
        return one
    return 2 * one + others**2 * gaussian_delta(2 * side, left)


def bend(ridge: float, num_classes: int) -> float:
    """The logarithm of what one record multiplies the determinant by, at most."""
    return (num_classes - 1) * math.log1p(1 / (num_classes * ridge))


def least_tilt(epsilon: float, delta: float, *, penalty: float, num_classes: int, neighbours: Neighbours) -> float:
    """The least deviation of the noise with which the exact minimum, at a ridge of `penalty` times it, is private."""

    def affordable(sigma: float) -> bool:
        settings: dict[str, Any] = {"num_classes": num_classes, "neighbours": neighbours}
        return tilt_delta(epsilon, sigma=sigma, ridge=penalty * sigma, **settings) <= delta

    return least_noise(affordable, epsilon=epsilon, delta=delta, within=1e-4)


def farthest(num_records: int, cells: int, num_classes: int, *, ridge: float, sigma: float) -> float:
    """How long the minimum may be: there the objective is no larger than at zero, where it is n log C.

    The noise is taken to be longer than its mean by ten deviations at most, which it exceeds once in 10^21 runs.
    """
    pull = sigma * (math.sqrt(cells) + 10) / ridge
    return 2 * pull + math.sqrt(2 * num_records * math.log(num_classes) / ridge)


def slack(num_records: int, dim: int, num_classes: int, size: float) -> float:
    """By how much sums of floats may err in the gradient's length, at weights of length `size`."""
    terms = min(CHUNK, num_records) + num_records / CHUNK + 1
    return 4 * ROUNDING * (num_records + 1) * (terms + (dim + num_classes + 20) * (1 + size))


def minimum(x: Doubles, labels: Places, tilt: Doubles, *, ridge: float, near: float) -> Doubles:
    """Weights at which the tilted objective's gradient is no longer than `near`, rounding included. Private.

    The loop ends: what a Newton step does not halve, a step of descent shortens, since the objective bends by at least
    `ridge` and by at most that and half the number of records.
    """
    (dim, num_classes), steepest = tilt.shape, ridge + len(x) / 2
    shape = dim, num_classes

    def objective(flat: Doubles) -> tuple[float, Doubles]:
        weights = flat.reshape(shape)
        value, slope = 0.0, np.zeros(shape)
        for rows, y in _chunks(x, labels):
            scores = rows @ weights
            top = scores.max(axis=1, keepdims=True)
            value += float((np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]).sum())
            value -= float(scores[np.arange(len(y)), y].sum())
            error = softmax(scores)
            error[np.arange(len(y)), y] -= 1
            slope += rows.T @ error
        value += float((tilt * weights).sum() + ridge / 2 * (weights * weights).sum())
        return value, (slope + ridge * weights + tilt).ravel()

    found = minimize(
        objective, np.zeros(tilt.size), jac=True, method="L-BFGS-B",
        options={"maxiter": 1000, "maxfun": 2000, "gtol": near / math.sqrt(tilt.size), "ftol": 0.0, "maxcor": 20},
    )  # fmt: skip
    weights = np.asarray(found.x, dtype=np.float64)
    slope = objective(weights)[1]

    def too_long() -> bool:
        rounding = slack(len(x), dim, num_classes, float(np.linalg.norm(weights)))
        rounding += 4 * ROUNDING * (ridge * float(np.linalg.norm(weights)) + float(np.linalg.norm(tilt)))
        return float(np.linalg.norm(slope)) + rounding > near

    while too_long():
        step, _ = cg(LinearOperator((tilt.size,) * 2, matvec=_curvature(x, weights, shape, ridge)), -slope, rtol=1e-4)
        there = objective(weights + step)[1]
        if np.linalg.norm(there) > np.linalg.norm(slope) / 2:
            step = -slope / steepest
            there = objective(weights + step)[1]
        weights, slope = weights + step, there
    return weights.reshape(shape)


def _chunks(x: Doubles, labels: Places) -> list[tuple[Doubles, Places]]:
    return [(x[at : at + CHUNK], labels[at : at + CHUNK]) for at in range(0, len(x), CHUNK)]


def _curvature(x: Doubles, weights: Doubles, shape: tuple[int, ...], ridge: float) -> Callable[[Doubles], Doubles]:
    """The objective's Hessian at these weights, as a map of directions."""
    probabilities = softmax(x @ weights.reshape(shape))

    def times(flat: Doubles) -> Doubles:
        direction = flat.reshape(shape)
        moved = probabilities * (x @ direction)
        moved -= probabilities * moved.sum(axis=1, keepdims=True)
        return np.asarray(x.T @ moved + ridge * direction).ravel()

    return times
