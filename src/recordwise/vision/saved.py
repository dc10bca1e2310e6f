"""Networks on disk: safetensors files, which hold numbers and no code, named by their SHA-256."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recordwise.extras.asking import optional

from recordwise.durable import write_whole
from recordwise.errors import ChangedInput, InvalidInput
from recordwise.formats.weights import safetensors_file
from recordwise.hashing import digest_of_file

if TYPE_CHECKING:
    from torch import Tensor, nn

    from recordwise.vision.resnet import Classifier, ResNet


def save_weights(module: nn.Module, path: str | Path) -> str:
    """Write a module's parameters and buffers, whole or not at all; returns the file's SHA-256."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    write_whole(path, optional("safetensors.torch", "a file of weights", extra="torch").save(kept))
    return digest_of_file(path)


def load_weights(module: nn.Module, path: str | Path, *, sha256: str | None = None) -> nn.Module:
    """The module with the weights of a file, which must be the one that `sha256` names and fit the module exactly."""
    path = Path(path)
    kept = _read(path, sha256)
    _check_fits(module, kept, path.name)
    module.load_state_dict(kept)
    return module


def load_network(path: str | Path, *, sha256: str | None = None) -> ResNet | Classifier:
    """The network that `save_weights` wrote, alone enough to rebuild it: a `ResNet`, or one with a head."""
    path = Path(path)
    return network_of(_read(path, sha256), path.name)


def network_of(kept: dict[str, Tensor], name: str) -> ResNet | Classifier:
    """The network whose weights these are: a `ResNet`, or one with a head.

    Args:
      name: What messages call it.
    """
    import torch

    from recordwise.vision.resnet import Classifier, ResNet
    from recordwise.vision.steps import fresh_weights

    stem = kept.get("stem.weight", kept.get("backbone.stem.weight"))  # (width, channels, 3, 3)
    if stem is None or stem.ndim != 4:
        raise InvalidInput(f"{name} must hold a ResNet, alone or as the backbone of a Classifier")
    width, channels = stem.shape[:2]

    def fresh() -> ResNet | Classifier:
        network = ResNet(mean=[0.0] * channels, deviation=[1.0] * channels, width=width)
        return Classifier(network, 8 * width, len(kept["head.bias"])) if "head.bias" in kept else network

    with torch.device("meta"):  # takes no memory, whatever width the stem announces
        _check_fits(fresh(), kept, name)
    with fresh_weights(0):  # all of them are overwritten
        network = fresh()
    network.load_state_dict(kept)
    return network.eval()


def _read(path: Path, sha256: str | None) -> dict[str, Tensor]:
    if not path.is_file():
        raise InvalidInput(f"weights must be a file, got {str(path)!r}")
    if sha256 is not None and digest_of_file(path) != sha256:
        raise ChangedInput(
            f"{path.name} must have SHA-256 {sha256}, got {digest_of_file(path)}: not the weights expected"
        )
    try:
        return safetensors_file(path)
    except InvalidInput as fault:
        raise InvalidInput(f"weights must be a safetensors file, {path.name} is not: {fault}") from fault


def _check_fits(module: nn.Module, kept: dict[str, Tensor], file: str) -> None:
    wanted = module.state_dict()
    for name in sorted(kept.keys() ^ wanted.keys()):
        raise InvalidInput(f"{file} must hold this module's weights, {name} is in only one of the two")
    for name, tensor in kept.items():
        if tensor.shape != wanted[name].shape:
            raise InvalidInput(f"{name} must have shape {tuple(wanted[name].shape)}, got {tuple(tensor.shape)}")
