"""Every way to train a network, each as a short run on a network whose convolutions some CPUs get wrong.

Run as a program, it carries out all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from recordwise.students import TorchStudent
from recordwise.vision.augment import Augment
from recordwise.vision.dti import Dti, Transform, cluster_by_transformation
from recordwise.vision.mixmatch import MixMatch, mixmatch
from recordwise.vision.scan import Scan, scan
from recordwise.vision.self_label import SelfLabel, self_label
from recordwise.vision.self_supervised import Byol, features_of, pretrain
from recordwise.vision.simclr import SimClr, simclr
from recordwise.vision.steps import Compute
from recordwise.vision.supervised import Supervised, train
from recordwise.vision.training import TrainingRun

CPU = Compute(device="cpu")
IMAGES = torch.randint(0, 256, (64, 3, 12, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
CLASSES = torch.arange(64) % 2
CHANCES = torch.eye(2)[CLASSES]
FLAGS = torch.arange(64) < 32
VIEW = Augment(flip=0.5)


def network(outputs: int = 2) -> nn.Module:
    """Strided 1×1 convolutions of fewer than eight channels, in channels last as it might come from elsewhere."""
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 8, 1, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(8, outputs),
    )  # fmt: skip
    return made.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def byol() -> None:
    settings = Byol(epochs=1, prototype_epochs=1, batch=32, width=4, hidden=16, projection=8, prototypes=3, view=VIEW)
    features_of(pretrain(IMAGES, settings, run=TrainingRun()), IMAGES, CPU)


def contrastive() -> None:
    simclr(
        IMAGES,
        SimClr(epochs=1, batch=32, width=4, hidden=16, projection=8, view=VIEW),
        run=TrainingRun(),
    )


def clusters() -> None:
    settings = Scan(clusters=2, heads=1, epochs=1, batch=32, view=VIEW)
    scan(network(8), 8, IMAGES, torch.arange(64)[:, None], settings, run=TrainingRun())


def own_labels() -> None:
    settings = SelfLabel(epochs=2, trusting_epochs=1, batch=32, strong=Augment(cutout=3), weak=VIEW)
    self_label(network(8), 8, IMAGES, CLASSES, FLAGS, settings, classes=2, run=TrainingRun())


def transformations() -> None:
    at_once = tuple((way, 1) for way in Transform)
    settings = Dti(prototypes=2, epochs=2, batch=32, width=4, curriculum=at_once)
    cluster_by_transformation(IMAGES, settings, run=TrainingRun())


def supervised() -> None:
    train(
        network(),
        IMAGES,
        CHANCES,
        torch.ones(64),
        Supervised(epochs=1, batch=32, view=VIEW),
        run=TrainingRun(),
    )


def mixed() -> None:
    mixmatch(network(), IMAGES, CHANCES, FLAGS, MixMatch(epochs=1, batch=32, view=VIEW), run=TrainingRun())


def anybodys_module() -> None:
    def prepare(batch: object) -> torch.Tensor:
        return torch.as_tensor(batch).float().contiguous(memory_format=torch.channels_last)

    TorchStudent(network(), epochs=1, batch_size=32, prepare=prepare).fit(IMAGES.numpy(), CLASSES.numpy())


TRAININGS: list[Callable[[], None]] = [
    byol, contrastive, clusters, own_labels, transformations, supervised, mixed, anybodys_module,
]  # fmt: skip

if __name__ == "__main__":
    for training in TRAININGS:
        training()
    print("all trained")
