"""Encoders by name, as a job file writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from recordwise.arrays import as_vectors
from recordwise.data.samples import Kind, Samples, kind_of
from recordwise.encoders.hog import Hog
from recordwise.encoders.module import TorchEncoder
from recordwise.encoders.table import Table
from recordwise.encoders.text import Text
from recordwise.encoders.vectors import Pca, Scaler
from recordwise.errors import InvalidInput

_BY_NAME: dict[str, Callable[..., Any]] = {"scaler": Scaler, "pca": Pca, "hog": Hog, "text": Text, "table": Table}
SMALLEST_FOR_HOG = 16  # pixels: smaller images have too few cells for their gradients to say more than their pixels
_BY_KIND = {Kind.IMAGES: "hog+pca", Kind.TEXT: "text", Kind.TABLE: "table", Kind.VECTORS: "scaler"}


def encoder_from(spec: Any, samples: Samples, *, seed: int) -> Any:
    """An encoder, not yet fitted.

    Args:
      spec: "auto" (by the kind of samples), a name such as "hog", names in a row such as "hog+pca", a name with
        settings such as {"name": "pca", "dim": 32}, a list of those, a PyTorch module, or a scikit-learn transformer,
        which is taken as it is.
      samples: The pool: "auto" looks at its type and shape.
      seed: Of the encoders that are randomized and whose settings name no other.
    """
    if isinstance(spec, str):
        names = _chosen(samples) if spec == "auto" else spec
        spec = [name.strip() for name in names.split("+")]
    if isinstance(spec, Mapping):
        spec = [spec]
    if isinstance(spec, list) and spec:
        steps = [_step(step, seed) for step in spec]
        return steps[0] if len(steps) == 1 else make_pipeline(*steps)
    if isinstance(spec, BaseEstimator) or (hasattr(spec, "fit") and hasattr(spec, "transform")):
        return spec
    if callable(getattr(spec, "state_dict", None)):
        return TorchEncoder(spec)
    raise InvalidInput(f"encoder must be a name, settings with a name, a transformer or a PyTorch module, got {spec!r}")


def _chosen(samples: Samples) -> str:
    kind = kind_of(samples)
    if kind is Kind.IMAGES and min(np.shape(samples)[1:3]) < SMALLEST_FOR_HOG:
        return "pca"
    return _BY_KIND[kind]


def encode(encoder: Any, samples: Samples) -> NDArray[np.float32]:
    """Finite float32 vectors (n, dim) from any transformer."""
    vectors = encoder.transform(samples)
    return as_vectors("encoded samples", vectors.toarray() if hasattr(vectors, "toarray") else vectors)


def _step(spec: str | Mapping[str, Any], seed: int) -> Any:
    settings: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = settings.pop("name", None)
    if name not in _BY_NAME:
        raise InvalidInput(f"encoder must be auto or made of {', '.join(_BY_NAME)}, got {name!r}")
    known = _BY_NAME[name]().get_params()
    for setting in settings:
        if setting not in known:
            raise InvalidInput(f"encoder {name!r} has no setting {setting!r}, it has {', '.join(known) or 'none'}")
    if "seed" in known:
        settings.setdefault("seed", seed)
    return _BY_NAME[name](**settings)
