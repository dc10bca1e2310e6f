"""Content hashes: of bytes, files and arrays, and of whatever an encoder learned."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.formats import opened

UNBUFFERED = "mMT"  # kinds of arrays that NumPy lets nobody see the bytes of: dates, times and text of any length


def digest(array: NDArray[np.generic]) -> str:
    """SHA-256 of an array's type, shape and content."""
    content = np.ascontiguousarray(array)
    sha = hashlib.sha256(f"{content.dtype.str}{content.shape}".encode())
    if content.dtype.kind in UNBUFFERED:
        sha.update(repr(content.tolist()).encode())
    else:
        sha.update(content.data if content.size else b"")
    return sha.hexdigest()


def digest_of(content: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(content).hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file's content."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(encoder: Any) -> str:
    """SHA-256 of a fitted encoder's class, parameters and learned state; of its own `fingerprint` where it has one.

    Samples of any kind have one too.

    Guarantees:
      - fitting the same encoder on the same pool again gives the same fingerprint, in another process too;
      - another parameter or another learned value gives another one.
    """
    sha = hashlib.sha256()
    _feed(sha, encoder)
    return sha.hexdigest()


def _feed(sha: Any, value: Any) -> None:
    """Write a value as (kind, content), so that no two different values read alike."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        _write(sha, "array", digest(np.asarray(value)))
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
        if isinstance(value, int) and value.bit_length() > 64:  # Python spells no decimal digits beyond a limit
            _write(sha, type(value).__name__, hex(value))
        else:
            _write(sha, type(value).__name__, repr(value))
    elif isinstance(value, Mapping):
        _write(sha, "mapping", str(len(value)))
        for key in sorted(value, key=repr):
            _feed(sha, key)
            _feed(sha, value[key])
    elif isinstance(value, Set):
        _feed(sha, sorted(value, key=repr))
    elif isinstance(value, np.ndarray | Sequence):
        _write(sha, "sequence", str(len(value)))
        for item in value:
            _feed(sha, item)
    elif hasattr(value, "iloc"):  # pandas
        _feed(sha, [list(map(str, getattr(value, "columns", []))), value.to_numpy(dtype=object)])
    elif isinstance(own := getattr(value, "fingerprint", None), str):
        _write(sha, type(value).__qualname__, own)
    elif callable(getattr(value, "detach", None)):  # a PyTorch tensor
        tensor = value.detach().cpu()
        _feed(sha, (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())
    elif callable(getattr(value, "state_dict", None)):  # a PyTorch module
        _write(sha, "module", repr(value))
        _feed(sha, dict(value.state_dict()))
    elif callable(getattr(value, "get_params", None)):
        _write(sha, "estimator", f"{type(value).__module__}.{type(value).__qualname__}")
        _feed(sha, {**_learned(value), **value.get_params(deep=False)})
    elif hasattr(value, "tocsr"):
        matrix = value.tocsr()
        _feed(sha, [matrix.shape, matrix.data, matrix.indices, matrix.indptr])
    elif isinstance(name := getattr(value, "__qualname__", None), str):  # a function or a class
        _write(sha, "name", f"{value.__module__}.{name}")
        if isinstance(value, FunctionType) and ("<" in name or value.__module__ == "__main__"):
            _feed(sha, _body(value))  # many have that name: lambdas, and cells of a notebook that were run again
    elif is_dataclass(value):  # settings, which may hold a function that has no pickle
        _write(sha, "dataclass", f"{type(value).__module__}.{type(value).__qualname__}")
        _feed(sha, {field.name: getattr(value, field.name) for field in fields(value)})
    else:
        _write(sha, type(value).__qualname__, hashlib.sha256(pickle.dumps(value)).hexdigest())


def _learned(estimator: Any) -> dict[str, Any]:
    """scikit-learn's convention: what was learned ends in an underscore; an inner estimator may hide behind one."""
    return {
        name: value
        for name, value in vars(estimator).items()
        if (name.endswith("_") and not name.startswith("__")) or hasattr(value, "get_params")
    }


def _body(function: FunctionType) -> list[Any]:
    """What a function does, as far as it is written in it: its code, its defaults and the plain values around it."""
    return [_steps(function.__code__), function.__defaults__, list(_around(function))]


def _steps(code: CodeType) -> list[Any]:
    constants = [_steps(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    return [code.co_code, constants, code.co_names]


def _around(function: FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            yield value


def _write(sha: Any, kind: str, content: str) -> None:
    sha.update(f"{kind}:{len(content)}:{content};".encode())
