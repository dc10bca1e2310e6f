"""The encoders and students that the paper used, on the same pools, to compare with ours.

    python -m experiments.paper simclr --epochs 60                                                 # CIFAR-10's encoder
    python -m experiments.paper densenet --released runs/cifar10-together/released.npz \\
        --features experiments/features/cifar10-agreed-14.npz --epochs 15                          # CIFAR-10's student
    python -m experiments.paper mixmatch --released runs/svhn-13/released.npz \\
        --features runs/svhn-13/features.npz --epochs 30                                           # SVHN's student

SimCLR learns from CIFAR-10's pool; its features are measured as `represent` measures ours. DenseNet-121 and
WideResNet-28-2 with MixMatch start from nothing and learn labels that `experiments.labelling` released; one is trusted
where the nearest images in the given features carry it too. The last epoch counts. Epochs were set by the GPU time at
hand, before a result was seen; MixMatch's rate and weight after a run with others had learnt nothing, by a look at the
loss on 6,000 digits of the pool.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from experiments import compact
from experiments.cifar10 import RECIPE as CIFAR10
from experiments.images import Images, load_images
from experiments.measuring import Log, made_by, measure, share
from experiments.rows import CLASSES
from experiments.svhn import RECIPE as SVHN
from experiments.vision import NEIGHBOURS, draw_of, sets_of_labels
from recordwise.data import Rule
from recordwise.vision.densenet import DenseNet
from recordwise.vision.mixmatch import MixMatch, mixmatch
from recordwise.vision.resnet import Classifier
from recordwise.vision.self_label import WEAK_VIEW, agreeing
from recordwise.vision.self_supervised import channel_statistics, features_of
from recordwise.vision.simclr import SimClr, simclr
from recordwise.vision.spherical import nearest
from recordwise.vision.steps import Compute, fresh_weights
from recordwise.vision.supervised import Supervised, train
from recordwise.vision.training import TrainingRun
from recordwise.vision.wide_resnet import WideResNet

DATA = {"simclr": "cifar10", "densenet": "cifar10", "mixmatch": "svhn"}
UNLABELLED = 5.0  # MixMatch's weight: three quarters of the pool are labelled here, and the run is short


def compare_simclr(images: Images, epochs: int, run: TrainingRun, log: Log) -> None:
    with log.timed("simclr"):
        backbone = simclr(images.public, SimClr(epochs=epochs), run=run)
    measure(backbone, images, run.compute, log, "simclr", mirror=CIFAR10.mirror)


def teach(
    stage: str, images: Images, released: Path, features: Path, epochs: int, run: TrainingRun, log: Log, only: list[str]
) -> None:
    """One student from nothing for each set of labels."""
    compute = run.compute
    mean, deviation = channel_statistics(images.public)
    vectors = torch.from_numpy(compact.read(features)[0]["public"]).to(compute.device)
    neighbours = nearest(functional.normalize(vectors, dim=1), NEIGHBOURS)
    with np.load(released) as file:
        for name in only or sets_of_labels(released):
            labels = torch.from_numpy(file[f"{name}/labels"]).long().to(compute.device)
            trusted = agreeing(labels, neighbours)
            labels, trusted = labels[: len(images.public)], trusted[: len(images.public)]  # fewer under --limit
            targets = functional.one_hot(labels, CLASSES).float()
            with log.timed(name), fresh_weights(run.seed):
                if stage == "densenet":
                    body = DenseNet(mean=mean, deviation=deviation)
                    network: nn.Module = Classifier(body, body.dim, CLASSES)
                    settings = Supervised(epochs=epochs, view=WEAK_VIEW, rate=0.1)
                    weight = 0.5 + 0.5 * trusted.float()  # a label that its neighbours share counts twice
                    network = train(network, images.public, targets, weight, settings, run=run)
                else:
                    network = mixmatch(
                        WideResNet(mean=mean, deviation=deviation), images.public, targets, trusted,
                        MixMatch(epochs=epochs, rate=0.1, unlabelled_weight=UNLABELLED, view=SVHN.student.weak),
                        run=run,
                    )  # fmt: skip
            said = features_of(network, images.test, compute, mirror=stage == "densenet").argmax(1)
            log.say(
                **{
                    f"{name}_trusted": share(trusted, True),
                    f"{name}_labels": share(labels, images.public_labels),
                    f"{name}_test": share(said, images.test_labels),
                }
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="The paper's encoders and students")
    parser.add_argument("stage", choices=tuple(DATA))
    parser.add_argument("--released", type=Path, help="labels to teach, from `python -m experiments.labelling`")
    parser.add_argument(
        "--features", type=Path, help="whose neighbours say which to trust; if not given, those beside the labels"
    )
    parser.add_argument("--only", nargs="+", default=[], help="settings by name")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=12, help="of weights, batches and views, and in the log's name")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--limit", type=int, help="use this many images of each part, to see that it runs")
    given = parser.parse_args()
    if given.stage != "simclr" and given.released is None:
        parser.error(f"{given.stage} needs --released")
    features = given.features or (given.released and given.released.parent / "features.npz")
    if given.stage != "simclr":
        # Before the images are loaded and the log is opened: what cannot run leaves nothing behind.
        if not given.released.is_file():
            parser.error(f"there are no labels in {given.released}")
        if not features.is_file():
            parser.error(f"there are no features in {features}; name others by --features")
        names = sets_of_labels(given.released)
        if unknown := [name for name in given.only if name not in names]:
            parser.error(f"{given.released} has no {', '.join(unknown)}; it has {', '.join(names)}")
    compute = Compute(device=given.device, compile=torch.device(given.device).type == "cuda")
    torch.backends.cudnn.benchmark = True
    data = DATA[given.stage]
    images = load_images(data, Rule.CLEAN, given.runs / f"{data}.npz", compute, given.limit)
    log = Log(given.runs / f"paper-{given.stage}-{given.seed}.json")
    log.say(data=data, seed=given.seed, pool=len(images.public), epochs=given.epochs, **made_by(compute))
    if given.stage == "simclr":
        compare_simclr(images, given.epochs, TrainingRun(seed=given.seed, compute=compute), log)
    else:
        # DenseNet has 120 different convolutions: compiling them takes longer than it saves.
        compute = replace(compute, compile=compute.compile and given.stage != "densenet")
        log.say(labels=given.released.parent.name, draw=draw_of(given.released), features=str(features))
        run = TrainingRun(seed=given.seed, compute=compute)
        teach(given.stage, images, given.released, features, given.epochs, run, log, given.only)


if __name__ == "__main__":
    main()
