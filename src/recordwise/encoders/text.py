"""Text: which words a sample uses more than the pool does, reduced to the pool's main themes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from recordwise.arrays import sum_in_order
from recordwise.data.samples import Samples
from recordwise.encoders.exact import ExactLinear, are_numbers
from recordwise.errors import InvalidInput, whole
from recordwise.randomness import seeded


class OfWords(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A linear map of how often a text uses each known word, rare ones counted more, at unit length.

    A text's vector is a function of that text alone, to the last bit. A text without any known word is the zero vector;
    one that is no text is a row of NaN. A subclass fits `words_`, `rarity_` and the map.
    """

    words_: CountVectorizer
    rarity_: NDArray[np.float64]

    @property
    @abstractmethod
    def linear(self) -> ExactLinear:
        """(words, dim) the map."""

    def weigh_by(self, counts: csr_matrix) -> None:
        """Learn from the pool's counts how rare each word is."""
        held = np.bincount(counts.indices, minlength=counts.shape[1])
        self.rarity_ = 1 + np.log((1 + counts.shape[0]) / (1 + held))

    def holds(self) -> bool:
        """Whether its state is such as `fit` leaves; see `recordwise.encoders.encoding`."""
        words = self.words_.vocabulary_ if type(self.words_) is CountVectorizer else {}
        exact = type(self.linear) is ExactLinear and self.linear.holds()
        return (
            sorted(map(int, words.values())) == list(range(len(words)))
            and are_numbers(self.rarity_, 1)
            and exact
            and len(words) == len(self.rarity_) == len(self.linear.weights)
        )

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        strings = as_list(samples)
        readable = np.array([isinstance(sample, str) for sample in strings], dtype=np.bool_)
        texts = [sample if isinstance(sample, str) else "" for sample in strings]
        vectors = self.linear(weigh(self.words_.transform(texts), self.rarity_))
        length = np.sqrt(sum_in_order(vectors * vectors))
        vectors /= np.where(length > 0, length, 1.0)[:, None]
        vectors[~readable] = np.nan
        return vectors.astype(np.float32)


class Text(OfWords):
    """TF-IDF over the pool's words, a truncated singular value decomposition, and unit length.

    On unit vectors the Euclidean order of distances is that of the cosine.

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
        strings = as_list(pool)
        refuse_other_than_text(strings)
        words = CountVectorizer(max_features=self.max_words)
        try:
            counts = words.fit_transform(strings)
        except ValueError as fault:
            raise InvalidInput(f"the pool must hold words, scikit-learn says: {fault}") from fault
        dim = min(self.dim, counts.shape[0], counts.shape[1] - 1)
        if dim < 1:
            raise InvalidInput(f"the pool must hold at least two different words, it holds {counts.shape[1]}")
        self.words_ = words
        self.weigh_by(counts)
        start = int(seeded(self.seed, "text").integers(2**31))
        themes = TruncatedSVD(dim, random_state=start).fit(weigh(counts, self.rarity_))
        self.themes_ = ExactLinear.of(themes.components_.T, limit=1.0)
        return self

    @property
    def linear(self) -> ExactLinear:
        return self.themes_


def weigh(counts: csr_matrix, rarity: NDArray[np.float64]) -> csr_matrix:
    """TF-IDF of unit length: each step looks at one row, in the order of its words."""
    kinds, kind = np.unique(counts.data, return_inverse=True)
    frequency = np.array([1 + math.log(one) for one in kinds.tolist()])[kind]
    weights = csr_matrix((frequency * rarity[counts.indices], counts.indices, counts.indptr), counts.shape)
    return normalize(weights, copy=False)


def refuse_other_than_text(pool: list[Any]) -> None:
    """Refuse a public sample that is no string, by its row."""
    for row, sample in enumerate(pool):
        if not isinstance(sample, str):
            raise InvalidInput(f"text samples must be strings, row {row} is a {type(sample).__name__}")


def as_list(samples: Samples) -> list[Any]:
    """Texts one by one, whatever held them together."""
    if getattr(samples, "ndim", 1) != 1:  # going through a table would give the names of its columns
        raise InvalidInput(f"text samples must be one string each, got shape {samples.shape}")
    return list(samples)
