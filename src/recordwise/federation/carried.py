"""An encoder as bytes that hold numbers and names, never code: reading it runs nothing the sender chose.

A pickled encoder would let a coordinator run anything on a silo's machine. Here an encoder is the name of a class that
both sides have installed, out of a short list, and the values of its attributes.
"""

from __future__ import annotations

import io
import json
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, ProtocolFault

CLASSES = frozenset(
    {
        "recordwise.data.schema.Column",
        "recordwise.data.schema.Schema",
        "recordwise.encoders.exact.ExactLinear",
        "recordwise.encoders.hog.Hog",
        "recordwise.encoders.table.Table",
        "recordwise.encoders.table._Numbers",
        "recordwise.encoders.table._Values",
        "recordwise.encoders.text.Text",
        "recordwise.encoders.vectors.Pca",
        "recordwise.encoders.vectors.Scaler",
        "sklearn.decomposition._pca.PCA",
        "sklearn.decomposition._truncated_svd.TruncatedSVD",
        "sklearn.feature_extraction.text.CountVectorizer",
        "sklearn.feature_extraction.text.TfidfTransformer",
        "sklearn.feature_extraction.text.TfidfVectorizer",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing._data.MinMaxScaler",
        "sklearn.preprocessing._data.Normalizer",
        "sklearn.preprocessing._data.StandardScaler",
    }
)


def to_bytes(encoder: Any) -> bytes:
    """An encoder as data."""
    arrays: list[NDArray[Any]] = []
    told = json.dumps(_told(encoder, arrays))
    file = io.BytesIO()
    named = {f"array-{number}": array for number, array in enumerate(arrays)}
    np.savez_compressed(file, told=np.frombuffer(told.encode(), dtype=np.uint8), **named)  # type: ignore[arg-type]
    return file.getvalue()


def from_bytes(content: bytes) -> Any:
    """The encoder that `to_bytes` wrote."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _built(json.loads(arrays["told"].tobytes()), arrays)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise ProtocolFault(f"an encoder must be carried as plain data, this one is not: {error}") from error


def _told(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return {"scalar": value.item(), "dtype": value.dtype.str}
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays.append(value)
        return {"array": f"array-{len(arrays) - 1}"}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_told(item, arrays) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _told(item, arrays) for key, item in value.items()}}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"type": np.dtype(value).str}
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if name in CLASSES:
        return {"class": name, "state": {key: _told(item, arrays) for key, item in vars(value).items()}}
    raise InvalidInput(
        f"an encoder must be made of {', '.join(sorted(CLASSES))} to be carried to silos, got {name}; "
        "others must be installed on each silo"
    )


def _built(told: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if not isinstance(told, dict):
        return told
    match told:
        case {"scalar": item, "dtype": dtype}:
            return np.dtype(dtype).type(item)
        case {"array": name}:
            return arrays[name]
        case {"list": items}:
            return [_built(item, arrays) for item in items]
        case {"tuple": items}:
            return tuple(_built(item, arrays) for item in items)
        case {"dict": items}:
            return {key: _built(item, arrays) for key, item in items.items()}
        case {"type": dtype}:
            return np.dtype(dtype).type
        case {"class": name, "state": state} if name in CLASSES:
            module, _, kind = name.rpartition(".")
            made = object.__new__(getattr(import_module(module), kind))
            made.__dict__.update({key: _built(item, arrays) for key, item in state.items()})
            return made
    raise ProtocolFault(f"an encoder must be made of known classes, got {str(told)[:80]}")
