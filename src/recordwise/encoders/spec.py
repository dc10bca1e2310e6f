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
from recordwise.encoders.joined import Joined
from recordwise.encoders.module import TorchEncoder, load_torch
from recordwise.encoders.onnx_text import TOKENIZER, onnx_sentences
from recordwise.encoders.sentences import SENTENCES, TRANSFORMERS, Sentences, installed
from recordwise.encoders.sharpened import Sharpened
from recordwise.encoders.table import Table
from recordwise.encoders.text import Text
from recordwise.encoders.universal import UNIVERSAL, UniversalSentences
from recordwise.encoders.vectors import Pca, Scaler
from recordwise.encoders.words import Words
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
JOINED = "joined"
WORDS = (".vec", ".txt")
FILES = (".safetensors", ".onnx", *WORDS)
TRAINED = ("timm:", "efficientnet-lite")  # how the names of networks begin that `pretrained` knows
HUB = (SENTENCES, TRANSFORMERS)
SETTINGS_OF_TRAINED = ("side", "device", "batch_size")
SETTINGS_OF_HUB = ("device", "batch_size")
SETTINGS_OF_ONNX_TEXT = ("tokenizer", "longest", "batch_size")
SMALLEST_FOR_HOG = 16  # pixels: smaller images have too few cells for their gradients to say more than their pixels
_BY_KIND = {Kind.IMAGES: "hog+pca", Kind.TEXT: "text", Kind.TABLE: "table", Kind.VECTORS: "scaler"}


def encoder_from(spec: Any, samples: Samples, *, seed: int) -> Any:
    """An encoder, not yet fitted.

    Args:
      spec: "auto" (by the kind of samples), a name such as "hog", names in a row such as "hog+pca", a name with
        settings such as {"name": "pca", "dim": 32}, a scikit-learn transformer, which is taken as it is, a PyTorch
        module, or a list of those. A name is also that of a trained network: "sentence-transformers:NAME",
        "transformers:NAME", "timm:NAME", or the path of a file: "backbone.safetensors", "model.onnx", word vectors as
        "glove.txt" or "wiki.vec". Side by side they are {"name": "joined", "encoders": [one, other]}.
      samples: The pool: "auto" looks at its type and shape.
      seed: Of the encoders that are randomized and whose settings name no other.
    """
    return _made(chosen(samples) if isinstance(spec, str) and spec == "auto" else spec, seed)


def located(spec: Any, folder: Path) -> Any:
    """The same specification with its files, if it names any, looked for in `folder`."""
    steps = _steps(spec)
    there = [_located(step, folder) for step in steps]
    return spec if there == steps else there


def opened(spec: Any) -> Any:
    """The same specification with encoders in place of its files and modules, if it has any.

    It then prints what they hold, not where they lie: a hash that every weight counts in.
    """

    def trained(step: Any) -> bool:
        return _is_file(step) or _is_module(step) or _is_hub(step) or _is_joined(step)

    steps = _steps(spec)
    return [_step(step, seed=0) if trained(step) else step for step in steps] if any(map(trained, steps)) else spec


def chosen(samples: Samples) -> str:
    """What "auto" is for these samples."""
    kind = kind_of(samples)
    if kind is Kind.IMAGES and min(np.shape(samples)[1:3]) < SMALLEST_FOR_HOG:
        return "pca"
    return (kind is Kind.TEXT and installed()) or _BY_KIND[kind]


def _steps(spec: Any) -> list[Any]:
    """One specification after another; text is split at every plus sign."""
    if isinstance(spec, str):
        return [name.strip() for name in spec.split("+")]
    if isinstance(spec, Path):
        return [str(spec)]
    return spec if isinstance(spec, list) else [spec]


def _made(spec: Any, seed: int) -> Any:
    """An encoder of one step, or of several in a row."""
    steps = _steps(spec)
    if not steps:
        raise InvalidInput("encoder must have at least one step, got []")
    made = [_step(step, seed) for step in steps]
    return made[0] if len(made) == 1 else make_pipeline(*made)


def _joined(encoders: Any = (), *, seed: int) -> Joined:
    if not isinstance(encoders, list | tuple) or len(encoders) < 2:
        raise InvalidInput(f"encoder {JOINED!r} must have a list of two or more encoders, got {encoders!r}")
    return Joined([_made(one, seed) for one in encoders])


def _step(spec: Any, seed: int) -> Any:
    if isinstance(spec, str | Mapping):
        return _named(spec, seed)
    if isinstance(spec, type):
        raise InvalidInput(f"encoder must be an object and not a class: {spec.__name__}() instead of {spec.__name__}")
    if isinstance(spec, BaseEstimator) or (hasattr(spec, "fit") and hasattr(spec, "transform")):
        return spec
    if _is_module(spec):
        return TorchEncoder(spec)
    raise InvalidInput(f"encoder must be a name, settings with a name, a transformer or a PyTorch module, got {spec!r}")


def _named(spec: str | Mapping[str, Any], seed: int) -> Any:
    settings: dict[str, Any] = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = settings.pop("name", None)
    build, known = _builder(name, settings)
    for setting in settings:
        if setting not in known:
            raise InvalidInput(f"encoder {name!r} has no setting {setting!r}, it has {', '.join(known) or 'none'}")
    if "seed" in known:
        settings.setdefault("seed", seed)
    return build(**settings)


def _builder(name: Any, settings: Mapping[str, Any]) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """What makes the encoder of that name, and the settings it takes."""
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name], tuple(_BY_NAME[name]().get_params())
    if name == JOINED:
        return _joined, ("encoders", "seed")
    if name == UNIVERSAL:
        return UniversalSentences, ()
    if isinstance(name, str) and name.startswith(HUB):
        return partial(_from_hub, name), SETTINGS_OF_HUB
    if _is_text_model(name, settings):
        return partial(onnx_sentences, name), SETTINGS_OF_ONNX_TEXT
    if isinstance(name, str) and name.endswith(WORDS):
        return partial(Words, name), ("max_words",)
    if _is_file(name) or str(name).startswith(TRAINED):
        return partial(_pretrained, name), SETTINGS_OF_TRAINED
    if isinstance(name, str) and (kind := brought("encoders", name)) is not None:
        return kind, tuple(kind().get_params())
    raise InvalidInput(
        f"encoder must be auto, a file ({', '.join(FILES)}), a network ({', '.join(f'{one}NAME' for one in HUB)}, "
        f"timm:NAME), {UNIVERSAL}, {JOINED} or made of {', '.join(_BY_NAME)}, got {name!r}"
    )


def _is_text_model(name: Any, settings: Mapping[str, Any]) -> bool:
    """An ONNX file is one of text if a tokenizer is named or lies beside it."""
    onnx = isinstance(name, str) and name.endswith(".onnx")
    return onnx and ("tokenizer" in settings or Path(name).with_name(TOKENIZER).is_file())


def _is_file(step: Any) -> bool:
    name = step.get("name") if isinstance(step, Mapping) else step
    return isinstance(name, str) and name.endswith(FILES)


def _is_hub(step: Any) -> bool:
    name = step.get("name") if isinstance(step, Mapping) else step
    return isinstance(name, str) and name.startswith(HUB)


def _is_joined(step: Any) -> bool:
    return isinstance(step, Mapping) and step.get("name") == JOINED


def _is_module(step: Any) -> bool:
    return callable(getattr(step, "state_dict", None))


def _located(step: Any, folder: Path) -> Any:
    if _is_joined(step) and isinstance(step.get("encoders"), list):
        return {**step, "encoders": [located(one, folder) for one in step["encoders"]]}
    if not _is_file(step) and not _in_folder(step, folder):
        return step
    settings = dict(step) if isinstance(step, Mapping) else {"name": step}
    if "tokenizer" in settings:
        settings["tokenizer"] = str(folder / settings["tokenizer"])
    prefix = next((one for one in HUB if settings["name"].startswith(one)), "")
    settings["name"] = f"{prefix}{folder / settings['name'].removeprefix(prefix)}"
    return settings if isinstance(step, Mapping) else settings["name"]


def _in_folder(step: Any, folder: Path) -> bool:
    """Whether a network's name is that of a folder which lies in this one."""
    name = step.get("name") if isinstance(step, Mapping) else step
    return _is_hub(step) and (folder / str(name).partition(":")[2]).is_dir()


def _from_hub(name: str, **settings: Any) -> Sentences | TorchEncoder:
    load_torch()
    from recordwise.encoders.hub import from_hub

    return from_hub(name, **settings)


def _pretrained(source: str, **settings: Any) -> TorchEncoder:
    load_torch()
    from recordwise.encoders.pretrained import pretrained

    return pretrained(source, **settings)
