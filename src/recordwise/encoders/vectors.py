"""Encoders of vectors: each dimension to unit variance, and the directions in which the pool varies most."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA

from recordwise.arrays import as_vectors
from recordwise.data.samples import Samples
from recordwise.errors import InvalidInput, whole
from recordwise.streams import stream

_EXACT_UP_TO = 2000  # dimensions: the covariance matrix and its eigenvectors still take seconds


class Scaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Each dimension minus its mean over the pool, over its standard deviation (images are flattened).

    A dimension that does not vary in the pool is centred and left at its scale.
    """

    def fit(self, pool: Samples, y: object = None) -> Self:
        vectors = flat("pool", pool)
        self.mean_ = vectors.mean(axis=0, dtype=np.float64)
        deviation = vectors.std(axis=0, dtype=np.float64)
        self.scale_ = np.where(deviation > 1e-6 * np.abs(self.mean_), deviation, 1.0)  # below: rounding, not variation
        self.scale_[self.scale_ == 0] = 1.0
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        vectors = flat("samples", samples, dim=len(self.mean_))
        return np.asarray((vectors - self.mean_) / self.scale_, dtype=np.float32)


class Pca(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The coordinates of vectors (or flattened images) along the pool's first principal components.

    Args:
      dim: How many components; fewer where the pool has fewer samples or dimensions.
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
        solver = "covariance_eigh" if vectors.shape[1] <= _EXACT_UP_TO else "randomized"
        start = int(stream(self.seed, "pca").integers(2**31))
        pca = PCA(min(self.dim, *vectors.shape), whiten=self.whiten, svd_solver=solver, random_state=start)
        self.pca_ = pca.fit(vectors)
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        vectors = flat("samples", samples, dim=self.pca_.n_features_in_)
        return np.asarray(self.pca_.transform(vectors), dtype=np.float32)


def flat(name: str, samples: Samples, *, dim: int | None = None) -> NDArray[np.float32]:
    """Samples as finite (n, dim) vectors: an image is its pixels in a row."""
    array: NDArray[Any] = np.asarray(samples)
    if array.ndim > 2:
        array = array.reshape(len(array), -1)
    vectors = as_vectors(name, array, dim=dim)
    if not len(vectors):
        raise InvalidInput(f"{name} must hold at least one sample, got {vectors.shape}")
    return vectors
