"""Several encoders side by side: what one of them does not see, another may."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone

from recordwise.data.samples import Samples
from recordwise.errors import InvalidInput


class Joined(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The vectors of several encoders in a row, each at the same length, so that all count alike in distances.

    A sample that one of them cannot encode is a row of NaN; a zero vector stays one.

    Args:
      encoders: Two or more, each fitted on the pool.
    """

    def __init__(self, encoders: Sequence[Any] = ()) -> None:
        self.encoders = encoders

    def fit(self, pool: Samples, y: object = None) -> Self:
        if len(self.encoders) < 2:
            raise InvalidInput(f"encoders must be two or more, got {len(self.encoders)}")
        self.encoders_ = [clone(one, safe=False).fit(pool) for one in self.encoders]
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        return np.hstack([self._part(one.transform(samples)) for one in self.encoders_])

    def _part(self, found: Any) -> NDArray[np.float32]:
        vectors = np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64)
        length = np.sqrt(np.einsum("nd,nd->n", vectors, vectors) * len(self.encoders_))[:, None]
        return (vectors / np.where(length == 0, 1.0, length)).astype(np.float32)

    def state(self) -> dict[str, Any]:
        """What is stored of it."""
        return {"encoders": self.encoders_}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        fitted = state["encoders"]
        if not isinstance(fitted, list) or len(fitted) < 2 or not all(hasattr(one, "transform") for one in fitted):
            raise InvalidInput("must be two or more encoders that were fitted, this is not")
        made = cls([clone(one) for one in fitted])
        made.encoders_ = fitted
        return made

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """What was joined, in full: two encoders that print alike encode alike."""
        return f"Joined({', '.join(map(repr, self.encoders))})"
