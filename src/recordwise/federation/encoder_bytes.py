"""An encoder as bytes that hold numbers and names, never code: reading it runs nothing the sender chose.

A pickled encoder would let a coordinator run anything on a silo's machine. Here an encoder is the name of a class that
both sides have installed, out of a short list, and the values of its attributes. How large it is unpacked is known, and
bounded, before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, ProtocolFault, shown
from recordwise.federation.forms import array_from, json_object

MOST_UNPACKED, MOST_ENTRIES, MOST_DEPTH = 1 << 28, 10_000, 32
CLASSES = frozenset(
    {
        "recordwise.encoders.exact.ExactLinear",
        "recordwise.data.schema.Column",
        "recordwise.data.schema.Schema",
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
# Settings an encoder of text must leave alone: another pattern might never finish on some record, which would show.
MOST_IN_A_ROW = 10  # words, or letters, that count as one: the work on a record grows with its length times this
FIXED = {"input": "content", "token_pattern": r"(?u)\b\w\w+\b", "tokenizer": None, "preprocessor": None}


def to_bytes(encoder: Any) -> bytes:
    """An encoder as data."""
    arrays: list[NDArray[Any]] = []
    description = json.dumps({"encoder": _description(encoder, arrays)})
    file = io.BytesIO()
    named = {f"array-{number}": array for number, array in enumerate(arrays)}
    np.savez_compressed(file, description=np.frombuffer(description.encode(), dtype=np.uint8), **named)  # type: ignore[arg-type]
    return file.getvalue()


def from_bytes(content: bytes) -> Any:
    """The encoder that `to_bytes` wrote."""
    description, arrays = _unpacked(content)
    try:
        return _built(description, arrays, MOST_DEPTH)
    except ProtocolFault:
        raise
    except Exception as error:  # whatever a class of the list makes of values it did not expect
        raise ProtocolFault("an encoder must be plain data, this one is not") from error


def shown_as(content: bytes) -> str:
    """What a person reads about an encoder: what it runs, how large it is, and its SHA-256."""
    description, arrays = _unpacked(content)
    names: list[str] = []
    _collect(description, names, MOST_DEPTH)
    numbers = sum(array.size for name, array in arrays.items() if name != "description")
    runs = ", ".join(dict.fromkeys(name.rpartition(".")[2].lstrip("_") for name in names)) or "nothing"
    return f"{runs}; {numbers:,} numbers, {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()}"


def _unpacked(content: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            entries = file.infolist()
            size = sum(entry.file_size for entry in entries)
            if len(entries) > MOST_ENTRIES or size > MOST_UNPACKED:
                raise ProtocolFault(
                    f"an encoder must unpack to at most {MOST_UNPACKED:,} bytes in {MOST_ENTRIES:,} parts, this one "
                    f"has {size:,} in {len(entries):,}"
                )
            # A part gives no more bytes than it announced, whatever it holds.
            parts = {entry.filename.removesuffix(".npy"): file.read(entry) for entry in entries}
        arrays = {name: array_from(part) for name, part in parts.items()}
        return json_object(arrays["description"].tobytes())["encoder"], arrays
    except ProtocolFault:
        raise
    except Exception as error:  # a damaged archive fails in as many ways as there are formats in it
        raise ProtocolFault("an encoder must be an archive of plain arrays, this one is not") from error


def _description(value: Any, arrays: list[NDArray[Any]]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return {"scalar": value.item(), "dtype": value.dtype.str}
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays.append(value)
        return {"array": f"array-{len(arrays) - 1}"}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_description(item, arrays) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _description(item, arrays) for key, item in value.items()}}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"type": np.dtype(value).str}
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if name in CLASSES:
        return {"class": name, "state": {key: _description(item, arrays) for key, item in vars(value).items()}}
    raise InvalidInput(
        f"an encoder must be made of {', '.join(sorted(CLASSES))} to be sent to silos, got {name}; "
        "others must be installed on each silo"
    )


def _built(description: Any, arrays: dict[str, NDArray[Any]], depth: int) -> Any:
    if not isinstance(description, dict):
        return description
    if not depth:
        raise ProtocolFault(f"an encoder must be nested at most {MOST_DEPTH} deep, this one is deeper")
    match description:
        case {"scalar": bool() | int() | float() as item, "dtype": dtype} if np.dtype(dtype).kind in "fiub":
            return np.dtype(dtype).type(item)
        case {"array": name}:
            return arrays[name]
        case {"list": items}:
            return [_built(item, arrays, depth - 1) for item in items]
        case {"tuple": items}:
            return tuple(_built(item, arrays, depth - 1) for item in items)
        case {"dict": items}:
            return {key: _built(item, arrays, depth - 1) for key, item in items.items()}
        case {"type": dtype}:
            return np.dtype(dtype).type
        case {"class": name, "state": state} if name in CLASSES:
            if any(key in state and state[key] != value for key, value in FIXED.items()):
                raise ProtocolFault(f"an encoder of text must read words by the usual pattern, this {name} does not")
            module, _, known = name.rpartition(".")
            kind = getattr(import_module(module), known)
            if any(callable(getattr(kind, key, None)) for key in state):
                raise ProtocolFault(f"an encoder must bring numbers and no methods, this {name} does")
            made = object.__new__(kind)
            made.__dict__.update({key: _built(item, arrays, depth - 1) for key, item in state.items()})
            if not _as_fitted(made):
                raise ProtocolFault(f"an encoder must be such as fitting leaves it, this {name} is not")
            return made
    raise ProtocolFault(f"an encoder must be made of known classes, got {shown(description)}")


def _as_fitted(made: Any) -> bool:
    """Whether a record's vector will be its own: another state could look at where a record stands among others."""
    if (spans := vars(made).get("ngram_range")) is not None:
        fewest, most = spans
        if not 1 <= fewest <= most <= MOST_IN_A_ROW:
            return False
    return not hasattr(type(made), "holds") or bool(type(made).holds(made))


def _collect(description: Any, names: list[str], depth: int) -> None:
    """The names of the classes, from the outside in; only those of the list, so that they can be printed."""
    if isinstance(description, dict) and depth:
        if description.get("class") in CLASSES:
            names.append(description["class"])
        description = list(description.values())
    if isinstance(description, list) and depth:
        for item in description:
            _collect(item, names, depth - 1)
