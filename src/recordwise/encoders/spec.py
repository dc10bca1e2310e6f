"""Encoders by name, as a job file writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from recordwise.data.samples import Kind, Samples, kind_of
from recordwise.encoders.hog import Hog
from recordwise.encoders.module import TorchEncoder, load_torch
from recordwise.encoders.sharpened import Sharpened
from recordwise.encoders.table import Table
from recordwise.encoders.text import Text
from recordwise.encoders.vectors import Pca, Scaler
from recordwise.errors import InvalidInput
from recordwise.plugins import brought

_BY_NAME: dict[str, Callable[..., Any]] = {
    "scaler": Scaler,
    "pca": Pca,
    "hog": Hog,
    "text": Text,
    "table": Table,
    "sharpened": Sharpened,
}
FILES = (".safetensors", ".onnx")
TRAINED = ("timm:", "efficientnet-lite")  # how the names of networks begin that `pretrained` knows
SETTINGS_OF_TRAINED = ("side", "device", "batch_size")
SMALLEST_FOR_HOG = 16  # pixels: smaller images have too few cells for their gradients to say more than their pixels
_BY_KIND = {Kind.IMAGES: "hog+pca", Kind.TEXT: "text", Kind.TABLE: "table", Kind.VECTORS: "scaler"}


def encoder_from(spec: Any, samples: Samples, *, seed: int) -> Any:
    """An encoder, not yet fitted.

    Args:
      spec: "auto" (by the kind of samples), a name such as "hog", names in a row such as "hog+pca", a name with
        settings such as {"name": "pca", "dim": 32}, a scikit-learn transformer, which is taken as it is, a PyTorch
        module, or a list of those. A name is also what `pretrained` takes: "backbone.safetensors", "model.onnx",
        "timm:NAME", or the path of a file.
      samples: The pool: "auto" looks at its type and shape.
      seed: Of the encoders that are randomized and whose settings name no other.
    """
    steps = _steps(_chosen(samples) if isinstance(spec, str) and spec == "auto" else spec)
    if not steps:
        raise InvalidInput("encoder must have at least one step, got []")
    made = [_step(step, seed) for step in steps]
    return made[0] if len(made) == 1 else make_pipeline(*made)


def located(spec: Any, folder: Path) -> Any:
    """The same specification with its files, if it names any, looked for in `folder`."""
    steps = _steps(spec)
    return [_located(step, folder) for step in steps] if any(map(_is_file, steps)) else spec


def opened(spec: Any) -> Any:
    """The same specification with encoders in place of its files and modules, if it has any.

    It then prints what they hold, not where they lie: a hash that every weight counts in.
    """

    def trained(step: Any) -> bool:
        return _is_file(step) or _is_module(step)

    steps = _steps(spec)
    return [_step(step, seed=0) if trained(step) else step for step in steps] if any(map(trained, steps)) else spec


def _chosen(samples: Samples) -> str:
    kind = kind_of(samples)
    if kind is Kind.IMAGES and min(np.shape(samples)[1:3]) < SMALLEST_FOR_HOG:
        return "pca"
    return _BY_KIND[kind]


def _steps(spec: Any) -> list[Any]:
    """One specification after another; text is split at every plus sign."""
    if isinstance(spec, str):
        return [name.strip() for name in spec.split("+")]
    if isinstance(spec, Path):
        return [str(spec)]
    return spec if isinstance(spec, list) else [spec]


def _step(spec: Any, seed: int) -> Any:
    if isinstance(spec, str | Mapping):
        return _named(spec, seed)
    if isinstance(spec, BaseEstimator) or (hasattr(spec, "fit") and hasattr(spec, "transform")):
        return spec
    if _is_module(spec):
        return TorchEncoder(spec)
    raise InvalidInput(f"encoder must be a name, settings with a name, a transformer or a PyTorch module, got {spec!r}")


def _named(spec: str | Mapping[str, Any], seed: int) -> Any:
    settings: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = settings.pop("name", None)
    build: Callable[..., Any]
    if _is_file(name) or str(name).startswith(TRAINED):
        build, known = partial(_pretrained, name), SETTINGS_OF_TRAINED
    elif name in _BY_NAME:
        build, known = _BY_NAME[name], tuple(_BY_NAME[name]().get_params())
    elif (kind := brought("encoders", name)) is not None:
        build, known = kind, tuple(kind().get_params())
    else:
        raise InvalidInput(
            f"encoder must be auto, a file ({', '.join(FILES)}) or made of {', '.join(_BY_NAME)}, got {name!r}"
        )
    for setting in settings:
        if setting not in known:
            raise InvalidInput(f"encoder {name!r} has no setting {setting!r}, it has {', '.join(known) or 'none'}")
    if "seed" in known:
        settings.setdefault("seed", seed)
    return build(**settings)


def _is_file(step: Any) -> bool:
    name = step.get("name") if isinstance(step, Mapping) else step
    return isinstance(name, str) and name.endswith(FILES)


def _is_module(step: Any) -> bool:
    return callable(getattr(step, "state_dict", None))


def _located(step: Any, folder: Path) -> Any:
    if not _is_file(step):
        return step
    return {**step, "name": str(folder / step["name"])} if isinstance(step, Mapping) else str(folder / step)


def _pretrained(source: str, **settings: Any) -> TorchEncoder:
    load_torch()
    from recordwise.encoders.pretrained import pretrained

    return pretrained(source, **settings)
