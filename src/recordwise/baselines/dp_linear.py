"""Softmax regression from noisy class sums: one release, no rounds, the pool's help for free.

The log-likelihood of softmax regression on n records is Σ x·w_y - Σ log Σ_c exp(x·w_c). Labels enter through its first
part alone, which is the product of the weights with the class sums S_c = Σ_{y=c} x: a table of d·C numbers in which one
record moves one column by its own vector. The second part needs unlabelled vectors only, so the public pool's mean
stands in for the records'. Noisy class sums are all that is released; the rest is a convex problem on public numbers.
It is what noisy sufficient statistics (Vu and Slavković 2009; Wang 2018 for linear regression) come to where a public
pool spares the second moments. Without a pool the second moments are released too, and the answer is ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from recordwise.arrays import softmax
from recordwise.baselines.estimator import Facts, Private, Released, Rival, Vectors
from recordwise.baselines.gaussian_sums import noise_for, noised, outer_sum, shorten
from recordwise.baselines.public_scale import PublicScale
from recordwise.privacy.noise import Noise


@dataclass(eq=False, repr=False)
class DPLinear(Rival):
    """Softmax regression from one release of noisy class sums; ridge regression where there is no pool.

    Args:
      whiten: How far the pool's spectrum is flattened first, in [0, 1].
      penalty: Weight of the L2 penalty, in units of the error of the class sums' mean, from noise and from sampling.

    Attributes:
      weights_: (d + 1, C), the intercept last.
    """

    name: ClassVar[str] = "dp-linear"
    facts: ClassVar[Facts] = Facts(
        protects="one record",
        public="features; an unlabelled pool spares the second moments",
        rounds="one",
        data_dependent="no",
        elsewhere=(
            "distributed: yes, one secure sum of d·C integers; shuffle and local: a noisy vector per record, an error "
            "of √(d·C·n)/epsilon in each sum"
        ),
    )

    whiten: float = field(default=0.0, kw_only=True)
    penalty: float = field(default=1.0, kw_only=True)

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        self.second_moments_ = self.encoder_ is None
        cells = (dim + 1) * (num_classes + (dim + 1 if self.second_moments_ else 0))
        self.noise_multiplier_ = noise_for(
            float(self.epsilon), float(self.delta), neighbours=self._relation, cells=cells
        )
        self._count = num_records

    @property
    def _clip(self) -> float:
        # A record of length one adds one vector of that length, and without a pool a matrix of length one, too.
        return 2**0.5 if self.second_moments_ else 1.0

    def prepare(self, pool: Vectors | None, dim: int) -> None:
        self.scale_ = PublicScale.of(pool, dim, whiten=self.whiten)

    def release(self, private: Private, noise: Noise) -> Released:
        x = self.scale_(private.vectors)
        x *= shorten(np.linalg.norm(x, axis=1), 1.0)[:, None]
        one_hot = np.eye(len(self.classes_))[private.labels]
        settings = {"noise_multiplier": self.noise_multiplier_, "clip": self._clip, "noise": noise}
        sums = {"sums": noised(outer_sum(x, one_hot), **settings)}  # type: ignore[arg-type]
        if self.second_moments_:
            sums["moments"] = noised(outer_sum(x, x), **settings)  # type: ignore[arg-type]
        return sums

    def learn(self, released: Released, pool: Vectors | None) -> None:
        sums = released["sums"]
        error = self.noise_multiplier_ * self._clip / self._count  # of a cell of the class sums' mean
        # Records and pool are samples, so the sums would not fit the pool quite, even without noise.
        drawn = 1 / self._count + (0 if pool is None else 1 / len(pool))
        error = (error**2 + drawn / sums.size) ** 0.5
        if "moments" in released:
            self.weights_ = _ridge(released["moments"] / self._count, sums / self._count, error, self.penalty)
        else:
            assert pool is not None
            self.weights_ = _softmax_regression(self.scale_(pool), sums / self._count, error * self.penalty)

    def probabilities(self, vectors: Vectors) -> NDArray[np.float64]:
        return softmax(self.scale_(vectors) @ self.weights_)


def _softmax_regression(
    pool: NDArray[np.float64], mean_sums: NDArray[np.float64], penalty: float
) -> NDArray[np.float64]:
    """The weights that explain the class sums, given what samples look like; convex.

    The noise tilts the objective by an amount of the order of its deviation times the weights, so the penalty is that
    deviation: weights that gain less than the noise could feign are not worth having.
    """
    shape, ridge = mean_sums.shape, max(penalty, 1e-5)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = flat.reshape(shape)
        scores = pool @ weights
        top = scores.max(axis=1, keepdims=True)
        powers = np.exp(scores - top)
        total = powers.sum(axis=1, keepdims=True)
        value = float((np.log(total) + top).mean() - (mean_sums * weights).sum() + ridge / 2 * (flat @ flat))
        slope = pool.T @ (powers / total) / len(pool) - mean_sums + ridge * weights
        return value, slope.ravel()

    found = minimize(objective, np.zeros(mean_sums.size), jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return np.asarray(found.x).reshape(shape)


def _ridge(
    moments: NDArray[np.float64], sums: NDArray[np.float64], error: float, penalty: float
) -> NDArray[np.float64]:
    """Ridge regression of the classes' indicators on released moments, made positive before it is inverted."""
    size, axes = np.linalg.eigh((moments + moments.T) / 2)
    # A symmetric matrix of noise has eigenvalues up to about twice its deviation times the root of its size.
    floor = penalty * max(error * 2 * len(size) ** 0.5, 1e-6)
    scores: NDArray[np.float64] = axes @ ((axes.T @ sums) / (np.maximum(size, 0) + floor)[:, None])
    return 6 * scores  # indicators lie in [0, 1]; softmax of six times them is about as sure as they are
