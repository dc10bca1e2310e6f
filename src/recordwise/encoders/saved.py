"""Weights on disk: safetensors files, which hold numbers and no code, named by their SHA-256."""

from __future__ import annotations

import hashlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recordwise.errors import ChangedInput, InvalidInput, MissingExtra

if TYPE_CHECKING:
    from torch import nn


def save_weights(module: nn.Module, path: Path) -> str:
    """Write a module's parameters and buffers, whole or not at all; returns the file's SHA-256."""
    write = _library().save_file
    partial = path.with_name(path.name + ".part")
    write({name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}, partial)
    partial.replace(path)
    return digest_of(path)


def load_weights(module: nn.Module, path: Path, *, sha256: str | None = None) -> nn.Module:
    """The module with the weights of a file, which must be the one that `sha256` names and fit the module exactly."""
    if not path.is_file():
        raise InvalidInput(f"weights must be a file, got {str(path)!r}")
    if sha256 is not None and digest_of(path) != sha256:
        raise ChangedInput(f"{path.name} must have SHA-256 {sha256}, got {digest_of(path)}: not the weights expected")
    kept = _library().load_file(path)
    wanted = module.state_dict()
    for name in sorted(kept.keys() ^ wanted.keys()):
        raise InvalidInput(f"{path.name} must hold this module's weights, {name} is in only one of the two")
    for name, tensor in kept.items():
        if tensor.shape != wanted[name].shape:
            raise InvalidInput(f"{name} must have shape {tuple(wanted[name].shape)}, got {tuple(tensor.shape)}")
    module.load_state_dict(kept)
    return module


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _library() -> Any:
    try:
        return importlib.import_module("safetensors.torch")
    except ImportError as fault:
        raise MissingExtra("weights are kept as safetensors: install recordwise[torch]") from fault
