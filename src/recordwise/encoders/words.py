"""Static word vectors, such as GloVe's or fastText's: a text is the mean of its words, rare ones counted more."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer

from recordwise.arrays import sum_in_order
from recordwise.data.samples import Samples
from recordwise.encoders.exact import ExactLinear, are_numbers
from recordwise.encoders.text import as_list, refuse_other_than_text, weigh
from recordwise.errors import InvalidInput, first_line, whole
from recordwise.formats import lines_of
from recordwise.hashing import digest_of_file, fingerprint


class Words(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The mean of a text's word vectors, weighted by rarity in the pool, at unit length.

    A text's vector is a function of that text alone, to the last bit. A text without any known word is the zero vector;
    one that is no text is a row of NaN.

    Args:
      file: One word per line with its numbers behind it, as GloVe (.txt) and fastText and word2vec (.vec) write them.
      max_words: Read so many; such files begin with the most frequent words.
    """

    def __init__(self, file: str | Path, max_words: int = 100_000) -> None:
        self.file = str(file)  # a plain value, so that a fitted encoder can be stored and sent
        self.max_words = max_words

    def fit(self, pool: Samples, y: object = None) -> Self:
        whole(max_words=self.max_words)
        strings = as_list(pool)
        refuse_other_than_text(strings)
        words, vectors = read_word_vectors(Path(self.file), self.max_words)
        self.words_ = CountVectorizer(vocabulary=words).fit(strings)
        counts = self.words_.transform(strings)
        if not counts.nnz:
            raise InvalidInput(f"the pool must hold words of {Path(self.file).name!r}, it holds none")
        held = np.bincount(counts.indices, minlength=counts.shape[1])
        self.rarity_: NDArray[np.float64] = 1 + np.log((1 + counts.shape[0]) / (1 + held))
        self.vectors_ = ExactLinear.of(vectors, limit=1.0)
        return self

    @property
    def fingerprint(self) -> str:
        """Of the words and what they are worth, wherever the file lies."""
        if not hasattr(self, "vectors_"):
            return digest_of_file(Path(self.file))
        return fingerprint([self.words_.vocabulary_, self.rarity_, self.vectors_.weights, self.vectors_.units])

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"Words({Path(self.file).name}, SHA-256 {self.fingerprint})"

    def holds(self) -> bool:
        """Whether its state is such as `fit` leaves; see `recordwise.encoders.encoding`."""
        words = self.words_.vocabulary_ if type(self.words_) is CountVectorizer else {}
        exact = type(self.vectors_) is ExactLinear and self.vectors_.holds()
        return (
            sorted(map(int, words.values())) == list(range(len(words)))
            and are_numbers(self.rarity_, 1)
            and exact
            and len(words) == len(self.rarity_) == len(self.vectors_.weights)
        )

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        strings = as_list(samples)
        readable = np.array([isinstance(sample, str) for sample in strings], dtype=np.bool_)
        texts = [sample if isinstance(sample, str) else "" for sample in strings]
        means = self.vectors_(weigh(self.words_.transform(texts), self.rarity_))
        length = np.sqrt(sum_in_order(means * means))
        means /= np.where(length > 0, length, 1.0)[:, None]
        means[~readable] = np.nan
        return means.astype(np.float32)


def read_word_vectors(path: Path, max_words: int) -> tuple[list[str], NDArray[np.float64]]:
    """Words and their vectors; a first line of two numbers, which counts them, is skipped."""
    words: dict[str, NDArray[np.float64]] = {}
    try:
        for line in lines_of(path):
            word, *numbers = line.decode().rstrip().split(" ")
            if len(numbers) > 1:
                words.setdefault(word, np.array(numbers, dtype=np.float64))
            if len(words) == max_words:
                break
        vectors = np.stack(list(words.values()))
    except (InvalidInput, ValueError) as fault:
        raise InvalidInput(f"word vectors could not be read from {str(path)!r}: {first_line(fault)}") from fault
    if not np.isfinite(vectors).all():
        raise InvalidInput(f"word vectors must be finite, those in {str(path)!r} are not")
    return list(words), vectors
