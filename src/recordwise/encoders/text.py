"""Text: which words a sample uses more than the pool does, reduced to the pool's main themes."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from recordwise.data.samples import Samples
from recordwise.errors import InvalidInput, whole
from recordwise.streams import stream


class Text(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """TF-IDF over the pool's words, a truncated singular value decomposition, and unit length.

    On unit vectors the Euclidean order of distances is that of the cosine. A sample without any word of the pool is the
    zero vector.

    Args:
      dim: How many themes; fewer where the pool has fewer samples or words.
      max_words: Keep the pool's most frequent words.
      seed: Of the decomposition, which is randomized.
    """

    def __init__(self, dim: int = 100, max_words: int = 50_000, seed: int = 0) -> None:
        self.dim = dim
        self.max_words = max_words
        self.seed = seed

    def fit(self, pool: Samples, y: object = None) -> Self:
        whole(dim=self.dim, max_words=self.max_words)
        words = TfidfVectorizer(sublinear_tf=True, max_features=self.max_words)
        try:
            weights = words.fit_transform(_as_strings(pool))
        except ValueError as fault:
            raise InvalidInput(f"the pool must hold words, scikit-learn says: {fault}") from fault
        dim = min(self.dim, weights.shape[0], weights.shape[1] - 1)
        if dim < 1:
            raise InvalidInput(f"the pool must hold at least two different words, it holds {weights.shape[1]}")
        self.words_ = words
        self.themes_ = TruncatedSVD(dim, random_state=int(stream(self.seed, "text").integers(2**31))).fit(weights)
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        themes = self.themes_.transform(self.words_.transform(_as_strings(samples)))
        return np.asarray(normalize(themes), dtype=np.float32)


def _as_strings(samples: Samples) -> list[str]:
    if np.ndim(samples) != 1:  # going through a table would give the names of its columns
        raise InvalidInput(f"text samples must be one string each, got shape {np.shape(samples)}")
    strings = list(samples)
    for row, sample in enumerate(strings):
        if not isinstance(sample, str):
            raise InvalidInput(f"text samples must be strings, row {row} is a {type(sample).__name__}")
    return strings
