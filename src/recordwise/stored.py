"""Models as data: numbers, text and the names of known classes, never code. Reading one runs nothing its writer chose.

One form, whether a model lies in a run's folder, is published, or goes to a silo: an archive of plain arrays, one of
which is JSON. An object is the name of a class out of a closed list and its state: what its `state()` says, or its
attributes. How large an archive is unpacked is known, and bounded, before anything is unpacked.

What is not of the list is refused, unless writer and reader allow for foreign objects; one may stand alone or in a
list or mapping, never inside another object. A scikit-learn object is then kept by `skops`, which has a closed list of
its own. Anything else is left out and named by its fingerprint (`Absent`): whoever reads the archive has to bring it.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any

from recordwise.extras.asking import optional

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, MissingExtra, shown
from recordwise.formats import Archive, json_from
from recordwise.hashing import fingerprint

MOST_UNPACKED, MOST_ENTRIES, MOST_DEPTH = 1 << 34, 100_000, 32
MOST_DIGITS = 8_601  # of a fraction: two whole numbers as long as Python writes them, and the slash
PLAIN = "fiubU"  # kinds of arrays that hold no code: floats, whole numbers, bytes, booleans, text
DESCRIPTION = "description"  # the array that is JSON

ENCODERS = frozenset(
    {
        "recordwise.encoders.exact.ExactLinear",
        "recordwise.data.schema.Column",
        "recordwise.data.schema.Schema",
        "recordwise.encoders.hog.Hog",
        "recordwise.encoders.sharpened.Sharpened",
        "recordwise.encoders.table.Table",
        "recordwise.encoders.table._Dates",
        "recordwise.encoders.table._Numbers",
        "recordwise.encoders.table._Values",
        "recordwise.encoders.text.Text",
        "recordwise.encoders.vectors.Pca",
        "recordwise.encoders.vectors.Scaler",
        "recordwise.encoders.words.Words",
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
MODELS = ENCODERS | {
    "recordwise.encoders.joined.Joined",
    "recordwise.encoders.module.TorchEncoder",
    "recordwise.privacy.guarantee.Guarantee",
    "recordwise.queries.queries.Queries",
    "recordwise.students.counts.TableStudent",
    "recordwise.students.parts.Network",
    "recordwise.students.per_class.PerClass",
    "recordwise.students.shallow.Linear",
    "recordwise.students.shallow.Mlp",
    "recordwise.students.within.Regions",
    "recordwise.students.held_network.CountsNetwork",
    "sklearn.dummy.DummyClassifier",
}
# Settings an encoder of text must leave alone: another pattern might never finish on some record, which would show.
MOST_IN_A_ROW = 10  # words, or letters, that count as one: the work on a record grows with its length times this
FIXED = {"input": "content", "token_pattern": r"(?u)\b\w\w+\b", "tokenizer": None, "preprocessor": None}


@dataclass(frozen=True)
class Absent:
    """What stands for a part that could not be written down.

    Attributes:
      kind: The name of its class, for a person.
      digest: Its fingerprint.
      weights: Of a network that its reader builds again: what to fill it with, by name.
    """

    kind: str
    digest: str
    weights: Mapping[str, NDArray[Any]] | None = None


class NotPlain(InvalidInput):
    """An object that is not of the list."""


def to_bytes(value: Any, classes: Collection[str] = MODELS, *, foreign: bool = False) -> bytes:
    """An object as data: the same bytes for the same object.

    Args:
      classes: What it may be made of.
      foreign: Whether what is not made of them is kept by skops or left out, instead of refused.
    """
    arrays: list[NDArray[Any]] = []
    tree = json.dumps({"value": _as_json(value, arrays, classes, foreign)})
    named = {f"array-{number}": array for number, array in enumerate(arrays)}
    file = io.BytesIO()
    np.savez_compressed(file, **{DESCRIPTION: np.frombuffer(tree.encode(), dtype=np.uint8)}, **named)  # type: ignore[arg-type]
    return file.getvalue()


def from_bytes(
    content: bytes,
    classes: Collection[str] = MODELS,
    *,
    foreign: bool = False,
    trusted: Collection[str] = (),
) -> Any:
    """The object that `to_bytes` wrote, or one line that says what it should have been.

    Args:
      classes: What it may be made of.
      foreign: Whether parts that skops kept are read; those that were left out come as `Absent`.
      trusted: Types beyond skops' own list that it may build. Their code runs.
    """
    return from_parts(*unpacked(content), classes, foreign=foreign, trusted=trusted)


def from_parts(
    tree: Any,
    arrays: dict[str, NDArray[Any]],
    classes: Collection[str],
    *,
    foreign: bool = False,
    trusted: Collection[str] = (),
) -> Any:
    """The object that `unpacked` took apart; see `from_bytes`."""
    try:
        return _Reader(arrays, classes, trusted).built(tree, MOST_DEPTH, foreign)
    except (InvalidInput, MissingExtra):
        raise
    except Exception as error:  # whatever a class of the list makes of values it did not expect
        raise InvalidInput("must be plain data, this is not") from error


def unpacked(
    content: bytes, *, most: int = MOST_UNPACKED, entries: int = MOST_ENTRIES
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """What an archive tells, and its other arrays by name."""
    try:
        with Archive(content, what="it", most=most, members=entries) as file:
            arrays = dict(file)
        tree = json_from(arrays.pop(DESCRIPTION).tobytes())["value"]
        if any(array.dtype.kind not in PLAIN for array in arrays.values()):
            raise InvalidInput("it must hold arrays of plain numbers or text, this does not")
        return tree, arrays
    except (InvalidInput, LookupError, TypeError) as error:
        said = str(error)
        rule = (
            said.removeprefix("it ")
            if said.startswith("it must")
            else "must be an archive of plain arrays, this is not"
        )
        raise InvalidInput(rule) from error


def names_in(tree: Any, classes: Collection[str], depth: int = MOST_DEPTH) -> list[str]:
    """The classes in what an archive tells, outer ones first; only those of the list, so that they can be printed."""
    names: list[str] = []
    if isinstance(tree, dict) and depth:
        if tree.get("class") in classes:
            names.append(tree["class"])
        tree = list(tree.values())
    if isinstance(tree, list) and depth:
        for item in tree:
            names += names_in(item, classes, depth - 1)
    return names


def _as_json(value: Any, arrays: list[NDArray[Any]], classes: Collection[str], foreign: bool) -> Any:
    """A value as JSON; arrays are put aside."""

    def aside(array: NDArray[Any]) -> str:
        arrays.append(array)
        return f"array-{len(arrays) - 1}"

    def inner(item: Any) -> Any:
        return _as_json(item, arrays, classes, foreign)

    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "fiub":
        return {"scalar": inner(value.item()), "dtype": value.dtype.str}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}  # JSON has no word for it
    if isinstance(value, bytes):
        return {"bytes": aside(np.frombuffer(value, dtype=np.uint8))}
    if isinstance(value, np.ndarray) and value.dtype.kind in PLAIN:
        return {"array": aside(value)}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [inner(item) for item in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: inner(item) for key, item in value.items()}}
    if isinstance(value, Fraction):
        return {"fraction": str(value)}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"type": np.dtype(value).str}
    if isinstance(value, Absent) and foreign:
        return {"absent": value.kind, "digest": value.digest, "weights": inner(value.weights)}
    before = len(arrays)
    try:
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        if name not in classes:
            raise NotPlain(f"must be made of {', '.join(sorted(classes))}, got {name}")
        state = value.state() if hasattr(value, "state") else vars(value)
        return {"class": name, "state": {key: _as_json(item, arrays, classes, False) for key, item in state.items()}}
    except NotPlain:
        if not foreign:
            raise
        del arrays[before:]
    if hasattr(value, "weights"):
        return inner(Absent(type(value).__qualname__, "", value.weights()))
    content = _by_skops(value)
    if content is not None:
        return {"skops": aside(np.frombuffer(content, dtype=np.uint8))}
    return inner(Absent(type(value).__qualname__, fingerprint(value)))


@dataclass(frozen=True)
class _Reader:
    arrays: dict[str, NDArray[Any]]
    classes: Collection[str]
    trusted: Collection[str]

    def built(self, tree: Any, depth: int, foreign: bool) -> Any:
        if not isinstance(tree, dict):
            if isinstance(tree, list):
                raise InvalidInput(f"must be made of known parts, got {shown(tree)}")
            return tree
        if not depth:
            raise InvalidInput(f"must be nested at most {MOST_DEPTH} deep, this is deeper")
        match tree:
            case {"scalar": bool() | int() | float() | {"float": str()} as item, "dtype": dtype} if (
                np.dtype(dtype).kind in "fiub"
            ):
                return np.dtype(dtype).type(self.built(item, depth - 1, False))
            case {"float": "inf" | "-inf" | "nan" as word}:
                return float(word)
            case {"bytes": str() as name}:
                return self.arrays[name].tobytes()
            case {"array": str() as name}:
                return self.arrays[name]
            case {"list": list() as items}:
                return [self.built(item, depth - 1, foreign) for item in items]
            case {"tuple": list() as items}:
                return tuple(self.built(item, depth - 1, foreign) for item in items)
            case {"dict": dict() as items}:
                return {key: self.built(item, depth - 1, foreign) for key, item in items.items()}
            case {"fraction": str() as digits} if len(digits) <= MOST_DIGITS and "e" not in digits.lower():
                return Fraction(digits)
            case {"type": str() as dtype} if np.dtype(dtype).kind in "fiub":
                return np.dtype(dtype).type
            case {"class": str() as name, "state": dict() as state} if name in self.classes:
                return self._object(name, state, depth)
            case {"absent": str() as kind, "digest": str() as digest, "weights": weights} if foreign:
                return Absent(kind, digest, self.built(weights, depth - 1, False))
            case {"skops": str() as name} if foreign:
                return _from_skops(self.arrays[name].tobytes(), self.trusted)
        raise InvalidInput(f"must be made of known parts, got {shown(tree)}")

    def _object(self, name: str, tree: dict[str, Any], depth: int) -> Any:
        if any(key in tree and tree[key] != value for key, value in FIXED.items()):
            raise InvalidInput(f"must read words by the usual pattern, this {name} does not")
        module, _, known = name.rpartition(".")
        kind = getattr(importlib.import_module(module), known)
        state = {key: self.built(item, depth - 1, False) for key, item in tree.items()}
        if hasattr(kind, "from_state"):
            return kind.from_state(state)
        if any(callable(getattr(kind, key, None)) for key in state):
            raise InvalidInput(f"must bring numbers and no methods, this {name} does")
        made: Any
        if is_dataclass(kind):
            if not state.keys() <= {one.name for one in fields(kind)}:
                raise InvalidInput(f"must be of this version, its {known} is of another: teach it again, which is free")
            made = kind(**state)  # type: ignore[operator]
        else:
            made = object.__new__(kind)
            made.__dict__.update(state | _since(kind, state))
        if not _as_fitted(made):
            raise InvalidInput(f"must be such as fitting leaves it, this {name} is not")
        return made


def _since(kind: type, state: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that a class has got since an object of it was written: at their defaults."""
    parameters = inspect.signature(kind).parameters.values()
    return {one.name: one.default for one in parameters if one.default is not one.empty and one.name not in state}


def _as_fitted(made: Any) -> bool:
    """Whether a record's vector will be its own: another state could look at where a record stands among others."""
    if (spans := vars(made).get("ngram_range")) is not None:
        fewest, most = spans
        if not 1 <= fewest <= most <= MOST_IN_A_ROW:
            return False
    return not hasattr(type(made), "holds") or bool(type(made).holds(made))


def _by_skops(value: Any) -> bytes | None:
    """A scikit-learn object as skops keeps it; None where skops is not installed or would not build it again."""
    try:
        skops = importlib.import_module("skops.io")
    except ImportError:
        return None
    try:
        content: bytes = skops.dumps(value)
        return content if not skops.get_untrusted_types(data=content) else None
    except Exception:  # it cannot write this
        return None


def _from_skops(content: bytes, trusted: Collection[str]) -> Any:
    skops = optional("skops.io", "this scikit-learn object", extra="skops")
    unknown = sorted(set(skops.get_untrusted_types(data=content)) - set(trusted))
    if unknown:
        raise InvalidInput(f"must be of types that skops trusts, this also needs {shown(unknown)}")
    return skops.loads(content, trusted=list(trusted))
