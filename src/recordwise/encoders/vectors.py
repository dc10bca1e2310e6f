"""Encoders of vectors: each dimension to unit variance, and the directions in which the pool varies most."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA

from recordwise.arrays import as_vectors
from recordwise.data.samples import Samples, rows
from recordwise.encoders.exact import ExactLinear, are_numbers
from recordwise.encoders.numbers import as_numbers, finite_rows
from recordwise.errors import InvalidInput, first_line, whole
from recordwise.randomness import seeded

_EXACT_UP_TO = 2000  # dimensions: the covariance matrix and its eigenvectors still take seconds
REACH = 8  # times the pool's largest deviation: what lies farther out is taken to lie there
_CHUNK = 256  # samples at a time: what is multiplied stays in the cache


class Scaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each dimension minus its mean over the pool, over its standard deviation (images are flattened).

    A dimension that does not vary in the pool is centred and left at its scale. A sample that is not as many finite
    numbers is a row of NaN.
    """

    def fit(self, pool: Samples, y: object = None) -> Self:
        vectors = flat("pool", pool)
        self.mean_ = vectors.mean(axis=0, dtype=np.float64)
        deviation = vectors.std(axis=0, dtype=np.float64)
        self.scale_ = np.where(deviation > 1e-6 * np.abs(self.mean_), deviation, 1.0)  # below: rounding, not variation
        self.scale_[self.scale_ == 0] = 1.0
        return self

    def holds(self) -> bool:
        """Whether its state is such as `fit` leaves; see `recordwise.encoders.encoding`."""
        return are_numbers(self.mean_, 1) and are_numbers(self.scale_, 1) and self.mean_.shape == self.scale_.shape

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        vectors = as_numbers(samples, self.mean_.shape, flatten=True)
        with np.errstate(over="ignore", invalid="ignore"):  # beyond float32 is infinite, and infinite is not encoded
            return np.asarray((vectors - self.mean_) / self.scale_, dtype=np.float32)


class Projection(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A linear map of vectors minus the pool's mean, exact to the last bit; how it is found is `fit`'s own affair."""

    mean_: NDArray[np.float64]
    projection_: ExactLinear

    def holds(self) -> bool:
        """Whether its state is such as `fit` leaves; see `recordwise.encoders.encoding`."""
        linear = self.projection_
        exact = type(linear) is ExactLinear and linear.holds()
        return exact and are_numbers(self.mean_, 1) and len(self.mean_) == len(linear.weights)

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        found = np.empty((len(samples), len(self.projection_.units)), dtype=np.float32)
        room = np.empty((min(_CHUNK, len(samples)), len(self.mean_)))
        for start in range(0, len(samples), _CHUNK):
            some = as_numbers(rows(samples, slice(start, start + _CHUNK)), self.mean_.shape, flatten=True)
            finite = finite_rows(some)
            centred = np.subtract(some, self.mean_, out=room[: len(some)])
            centred[~finite] = 0
            found[start : start + _CHUNK] = np.where(finite[:, None], self.projection_(centred), np.nan)
        return found


class Pca(Projection):
    """The coordinates of vectors (or flattened images) along the pool's first principal components.

    The projection is exact (`recordwise.encoders.exact`): its inputs and components are rounded to public grids, which
    moves a coordinate by less than a millionth of the vector's length. A value farther from the pool's mean than eight
    times the pool's farthest counts as the last on the grid. A sample that is not as many finite numbers is a row of
    NaN.

    Args:
      dim: How many components; fewer where the pool has fewer dimensions, or hardly more samples.
      whiten: Scale every component to unit variance.
      seed: Of the approximate solver, used beyond 2,000 dimensions.
    """

    def __init__(self, dim: int = 64, whiten: bool = False, seed: int = 0) -> None:
        self.dim = dim
        self.whiten = whiten
        self.seed = seed

    def fit(self, pool: Samples, y: object = None) -> Self:
        whole(dim=self.dim)
        vectors = flat("pool", pool)
        # Exact either way; with fewer samples than dimensions their own matrix is the smaller one to take apart.
        exact = "covariance_eigh" if len(vectors) >= vectors.shape[1] else "full"
        solver = exact if vectors.shape[1] <= _EXACT_UP_TO else "randomized"
        start = int(seeded(self.seed, "pca").integers(2**31))
        # m samples span m - 1 directions; in one more they vary by rounding, which would be all that counts if scaled.
        dim = max(1, min(self.dim, len(vectors) - 1, vectors.shape[1]))
        pca = _fitted(PCA(dim, svd_solver=solver, random_state=start), vectors)
        self.mean_ = pca.mean_.astype(np.float64)
        components = pca.components_.T.astype(np.float64)
        if self.whiten:
            deviation = np.sqrt(pca.explained_variance_.astype(np.float64))
            components /= np.maximum(deviation, np.finfo(vectors.dtype).eps)
        farthest = float(np.abs(vectors - self.mean_).max())
        self.projection_ = ExactLinear.of(components, limit=REACH * farthest)
        return self


def _fitted(pca: PCA, vectors: NDArray[np.float32]) -> PCA:
    """Principal components of the pool, or one line that says why there are none."""
    try:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            pca.fit(vectors)
        if np.isfinite(pca.components_).all() and np.isfinite(pca.mean_).all():
            return pca
    except (ValueError, np.linalg.LinAlgError) as fault:
        raise InvalidInput(f"the pool must have principal components, it has none: {first_line(fault)}") from fault
    raise InvalidInput("the pool must have principal components, its numbers are too large: scale them")


def flat(name: str, samples: Samples) -> NDArray[np.float32]:
    """Samples as finite (n, dim) vectors: an image is its pixels in a row."""
    array: NDArray[Any] = np.asarray(samples)
    if array.ndim > 2:
        array = array.reshape(len(array), -1)
    vectors = as_vectors(name, array)
    if not len(vectors):
        raise InvalidInput(f"{name} must hold at least one sample, got {vectors.shape}")
    return vectors
