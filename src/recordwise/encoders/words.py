"""Static word vectors, such as GloVe's or fastText's: a text is the mean of its words, rare ones counted more."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from recordwise.data.samples import Samples
from recordwise.encoders.exact import ExactLinear
from recordwise.encoders.text import OfWords, as_list, refuse_other_than_text
from recordwise.errors import InvalidInput, first_line, whole
from recordwise.formats import lines_of
from recordwise.hashing import digest_of_file, fingerprint


class Words(OfWords):
    """The mean of a text's word vectors, weighted by rarity in the pool, at unit length.

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
        self.weigh_by(counts)
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

    @property
    def linear(self) -> ExactLinear:
        return self.vectors_


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
