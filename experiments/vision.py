"""The public half of the image experiments: features and clusters from the unlabelled pool, students from its labels.

Everything here needs a GPU to run in full and touches no private label: `represent` looks at pool images only, and
`teach` at labels that were released. Labels known from the data sets are used to *measure*, after the fact.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from experiments import compact
from experiments.images import Images, load_arrays, load_images
from experiments.measuring import Log, directions, made_by, measure, measure_clusters, purity, share
from experiments.rows import CLASSES
from recordwise.data import Rule
from recordwise.vision.consensus import consensus
from recordwise.vision.convnets import M3, M5, M7, ConvNet, majority
from recordwise.vision.resnet import Classifier, ResNet
from recordwise.vision.saved import load_weights, save_weights
from recordwise.vision.scan import Scan, scan
from recordwise.vision.self_label import SelfLabel, agreeing, self_label
from recordwise.vision.self_supervised import Byol, Pretraining, channel_statistics, features_of
from recordwise.vision.spherical import nearest
from recordwise.vision.steps import Compute, fresh_weights
from recordwise.vision.supervised import Supervised, train
from recordwise.vision.training import TrainingRun

NEIGHBOURS = 20
FEW = 1024  # images of each part under --small


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of one data set; its script says what they were chosen by.

    Attributes:
      scan: None stops after self-supervised features: nothing then says that ten clusters are ten classes.
      rounds: Self-labelling rounds, each restarted from the self-supervised weights.
      student: Self-labelling from released labels.
      ensemble: Training of three plain networks on the student's answers to the pool, which then vote.
      agreement: Share of neighbours that must carry an image's label before it is trusted.
      dims: Principal components kept in the committed features.
    """

    byol: Byol
    scan: Scan | None
    self_label: SelfLabel
    rounds: int
    student: SelfLabel
    mirror: bool
    ensemble: Supervised | None = None
    agreement: float = 0.9
    dims: int


def represent(images: Images, recipe: Recipe, *, seed: int, compute: Compute, folder: Path) -> None:
    """Learn features and clusters from the pool; leave weights, compact features and measurements in `folder`.

    Every step leaves a file and is not done again where that file exists, so a killed run goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "represent.json")
    log.say(seed=seed, pool=len(images.public), settings=repr(recipe), **made_by(compute))
    backbone = self_supervised(images, recipe, seed, compute, folder, log)
    if recipe.scan is None:
        measure(backbone, images, compute, log, "byol", mirror=recipe.mirror)
        write_features(backbone, None, images, recipe, compute, folder)
    else:
        network = _cluster(backbone, images, recipe, seed, compute, log, folder)
        measure(network.backbone, images, compute, log, "final", mirror=recipe.mirror)
        write_features(network.backbone, network, images, recipe, compute, folder)
    log.say(finished=True)


def kept(path: Path, empty: nn.Module, make: Callable[[], nn.Module], log: Log) -> Any:
    """The network whose weights lie in `path`; made, and its weights put there, if they do not."""
    if not path.exists():
        network = make()
        log.say(**{f"{path.stem}_sha256": save_weights(network, path)})
        return network
    return load_weights(empty, path).eval()


def self_supervised(images: Images, recipe: Recipe, seed: int, compute: Compute, folder: Path, log: Log) -> nn.Module:
    """The self-supervised weights in `folder`, learnt from the pool if they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    found: nn.Module = kept(
        folder / "backbone.safetensors",
        empty_backbone(images, recipe, compute),
        lambda: _pretrain(images, recipe, seed, compute, folder / "pretraining.pt", log),
        log,
    )
    return found


def empty_backbone(images: Images, recipe: Recipe, compute: Compute) -> ResNet:
    mean, deviation = channel_statistics(images.public)
    return compute.ready(ResNet(mean=mean, deviation=deviation, width=recipe.byol.width))


def empty_classifier(images: Images, recipe: Recipe, compute: Compute) -> Classifier:
    backbone = empty_backbone(images, recipe, compute)
    return compute.ready(Classifier(backbone, backbone.dim, CLASSES))


def _pretrain(images: Images, recipe: Recipe, seed: int, compute: Compute, checkpoint: Path, log: Log) -> nn.Module:
    byol = recipe.byol
    run = Pretraining(images.public, byol, run=TrainingRun(seed=seed, compute=compute))
    if checkpoint.exists():
        run.resume(checkpoint)
    total, started, counted = byol.epochs + byol.prototype_epochs, time.time(), 0
    while run.epoch < total:
        loss = run.run_epoch()  # reads the loss, so the device has finished
        if counted == 0:
            log.say(first_epoch_seconds=round(time.time() - started, 1))  # compilation is most of it
            started = time.time()
        elif run.epoch % 50 == 0 or run.epoch in (byol.epochs, total):
            log.say(epoch=run.epoch, loss=round(loss, 4), epoch_seconds=round((time.time() - started) / counted, 4))
            run.save(checkpoint)
        counted += 1
    log.say(pretraining_seconds=round(time.time() - started, 1))
    return run.backbone.eval()


def _cluster(
    backbone: nn.Module, images: Images, recipe: Recipe, seed: int, compute: Compute, log: Log, folder: Path
) -> Classifier:
    """SCAN, then rounds of self-labelling that restart from the self-supervised weights."""
    assert recipe.scan is not None
    empty, settings, dim = empty_classifier(images, recipe, compute), recipe.scan, 8 * recipe.byol.width

    def first() -> nn.Module:
        neighbours = nearest(directions(backbone, images.public, compute, mirror=recipe.mirror), NEIGHBOURS)
        with log.timed("scan"):
            return scan(
                backbone, dim, images.public, neighbours, settings,
                run=TrainingRun(seed=seed, compute=compute, progress=_every(20, log)),
            )  # fmt: skip

    network = kept(folder / "scan.safetensors", empty, first, log)
    measure_clusters(network, images, compute, log, "scan", mirror=recipe.mirror)
    for round_ in range(1, recipe.rounds + 1):
        clusters = features_of(network, images.public, compute, mirror=recipe.mirror).argmax(1)
        near = nearest(directions(network.backbone, images.public, compute, mirror=recipe.mirror), NEIGHBOURS)
        trusted = agreeing(clusters, near, recipe.agreement)
        network = sharpened(
            backbone, images, clusters, trusted, recipe,
            seed=seed + round_, compute=compute, log=log, path=folder / f"round{round_}.safetensors",
        )  # fmt: skip
    return network  # type: ignore[no-any-return]


def sharpened(
    backbone: nn.Module,
    images: Images,
    clusters: Tensor,
    trusted: Tensor,
    recipe: Recipe,
    *,
    seed: int,
    compute: Compute,
    log: Log,
    path: Path,
) -> Classifier:
    """One round of self-labelling from the self-supervised weights."""

    def make() -> nn.Module:
        log.say(**{f"{path.stem}_trusted": round(float(trusted.float().mean()), 4)})
        with log.timed(path.stem):
            return self_label(
                backbone, 8 * recipe.byol.width, images.public, clusters, trusted, recipe.self_label,
                classes=CLASSES, run=TrainingRun(seed=seed, compute=compute, progress=_every(30, log)),
            )  # fmt: skip

    network: Classifier = kept(path, empty_classifier(images, recipe, compute), make, log)
    measure_clusters(network, images, compute, log, path.stem, mirror=recipe.mirror)
    return network


def agree(
    images: Images, recipe: Recipe, others: list[Path], *, seed: int, compute: Compute, folder: Path, out: Path
) -> None:
    """Sharpen what this run and others (their feature files) agree on, from this run's self-supervised weights.

    A run that has no clusters of its own learns its self-supervised weights here and has no say in the consensus.
    What the others say of a whole pool is cut to the images there are.
    """
    out.mkdir(parents=True, exist_ok=True)
    log = Log(out / "represent.json")
    names = [path.parent.name if path.stem == "features" else path.stem for path in others]
    log.say(seed=seed, others=names, **made_by(compute))
    own = folder / "features.npz"
    every = [compact.read(path)[1]["public"][: len(images.public)] for path in ([own] if own.exists() else []) + others]
    found = consensus(every, pool=every, clusters=CLASSES)
    clusters = torch.from_numpy(found.clusters).to(compute.device)
    log.say(
        unanimous=round(float(found.unanimous.mean()), 4),
        consensus_public=round(purity(clusters, images.public_labels), 4),
    )
    backbone = self_supervised(images, recipe, seed, compute, folder, log)
    network = sharpened(
        backbone, images, clusters, torch.from_numpy(found.unanimous).to(compute.device), recipe,
        seed=seed + 100, compute=compute, log=log, path=out / "agreed.safetensors",
    )  # fmt: skip
    measure(network.backbone, images, compute, log, "final", mirror=recipe.mirror)
    write_features(network.backbone, network, images, recipe, compute, out)
    log.say(finished=True)


def write_features(
    backbone: nn.Module, clusters: nn.Module | None, images: Images, recipe: Recipe, compute: Compute, folder: Path
) -> None:
    """Compact features and cluster numbers, for `experiments.labelling` and for other seeds to agree with."""
    features, numbers = {}, {}
    for part, pixels in images.parts.items():
        features[part] = directions(backbone, pixels, compute, mirror=recipe.mirror).cpu().numpy()
        if clusters is not None:
            said = features_of(clusters, pixels, compute, mirror=recipe.mirror).argmax(1)
            numbers[part] = said.cpu().numpy()
    compact.write(folder / "features.npz", features, numbers, dims=recipe.dims)


def sets_of_labels(released: Path) -> list[str]:
    """The names of the sets of labels in a file that `experiments.labelling` wrote."""
    with np.load(released) as file:
        return list(dict.fromkeys(key.split("/")[0] for key in file.files if "/" in key))


def draw_of(released: Path) -> int:
    """The draw of the noise behind those labels."""
    with np.load(released) as file:
        return int(file["draw"]) if "draw" in file else 0


def teach(
    images: Images,
    recipe: Recipe,
    released: Path,
    *,
    seed: int,
    compute: Compute,
    folder: Path,
    features: Path,
    out: Path,
) -> None:
    """One student for each set of labels in a file that `experiments.labelling` wrote, from the backbone in `folder`.

    A label is trusted at first where the images nearest to it in the compact features carry it too. Labels and
    features of a whole pool are cut to the images there are.
    """
    log, kept_answers = Log(out / f"{released.stem}.json"), out / f"{released.stem}-answers.npz"
    answers = dict(np.load(kept_answers)) if kept_answers.exists() else {}
    log.say(seed=seed, labels=released.parent.name, draw=draw_of(released), **made_by(compute))
    backbone = load_weights(empty_backbone(images, recipe, compute), folder / "backbone.safetensors").eval()
    vectors = torch.from_numpy(compact.read(features)[0]["public"][: len(images.public)]).to(compute.device)
    neighbours = nearest(functional.normalize(vectors, dim=1), NEIGHBOURS)
    with np.load(released) as file:
        for name in sets_of_labels(released):
            if f"{name}_test" in log.facts:
                continue
            labels = torch.from_numpy(file[f"{name}/labels"][: len(images.public)]).long().to(compute.device)
            trusted = agreeing(labels, neighbours, recipe.agreement)
            with log.timed(name):
                student = self_label(
                    backbone, 8 * recipe.byol.width, images.public, labels, trusted, recipe.student, classes=CLASSES,
                    prior=torch.from_numpy(file[f"{name}/prior"]).float(), run=TrainingRun(seed=seed, compute=compute),
                )  # fmt: skip
            said = {part: features_of(student, images.parts[part], compute, mirror=recipe.mirror).argmax(1)
                    for part in ("public", "test")}  # fmt: skip
            answers[name] = said["test"].byte().cpu().numpy()
            if recipe.ensemble is not None:
                with log.timed(f"{name}_ensemble"):
                    voted = ensemble(student, images, recipe.ensemble, seed=seed, compute=compute)
                answers[f"{name}_ensemble"] = voted.byte().cpu().numpy()
                log.say(**{f"{name}_ensemble_test": share(voted, images.test_labels)})
            np.savez_compressed(kept_answers, **answers)  # before the log says that this student is done
            log.say(
                **{
                    f"{name}_trusted": share(trusted, True),
                    f"{name}_labels": share(labels, images.public_labels),
                    f"{name}_pool": share(said["public"], images.public_labels),
                    f"{name}_test": share(said["test"], images.test_labels),
                }
            )


def ensemble(student: nn.Module, images: Images, settings: Supervised, *, seed: int, compute: Compute) -> Tensor:
    """What M3, M5 and M7, taught the student's answers to the pool by their sureness, vote for on the test images."""
    plain = replace(compute, compile=False)
    taught = features_of(student, images.public, plain).softmax(1)
    weights = taught.max(1).values
    votes = []
    for number, plan in enumerate((M3, M5, M7)):
        with fresh_weights(seed + number):
            untaught = ConvNet(plan)
        network = train(
            untaught, images.public, taught, weights, settings, run=TrainingRun(seed=seed + number, compute=plain)
        )
        votes.append(features_of(network, images.test, plain).argmax(1))
    return majority(votes)


def _every(epochs: int, log: Log) -> Callable[[int, float], None]:
    def tell(epoch: int, value: float) -> None:
        if (epoch + 1) % epochs == 0:
            log.say(epoch=epoch + 1, value=round(value, 4))

    return tell


def main(name: str, recipe: Recipe, small: Recipe) -> None:
    """The command line of one data set's script, on the clean split."""
    parser = argparse.ArgumentParser(description=f"Features, clusters and students for {name}")
    parser.add_argument(
        "stage",
        choices=("load", "represent", "agree", "teach"),
        help="load: decode the images; represent: learn features and clusters from the pool; agree: sharpen what "
        "several seeds agree on; teach: students from released labels",
    )
    parser.add_argument(
        "--seed", type=int, default=11, help="of weights and views, and in the name of the run's folder"
    )
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu", help="such as cuda or cpu; now %(default)s"
    )
    parser.add_argument(
        "--small",
        action="store_true",
        help=f"to see that it runs: a few steps on {FEW:,} images, in {name}-small-SEED. Its features are not for "
        "experiments/features; labels to teach come from the committed ones",
    )
    parser.add_argument("--no-compile", action="store_true", help="do not compile networks, as is done on a GPU")
    parser.add_argument("--no-record", action="store_true", help="do not replay steps as CUDA graphs")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where weights and features go")
    parser.add_argument(
        "--others", type=Path, nargs="+", default=[], help="feature files of other seeds, to agree with"
    )
    parser.add_argument("--released", type=Path, help="labels to teach, from `python -m experiments.labelling`")
    given = parser.parse_args()
    if given.stage == "agree" and not given.others:
        parser.error("agree needs --others")
    if given.stage == "teach" and given.released is None:
        parser.error("teach needs --released")
    compute = Compute(
        device=given.device,
        compile=not given.no_compile and torch.device(given.device).type == "cuda",
        record=not given.no_record,
    )
    limit = FEW if given.small else None
    run = f"{name}-small" if given.small else name
    folder, agreed = given.runs / f"{run}-{given.seed}", given.runs / f"{run}-agreed-{given.seed}"
    latest = agreed if (agreed / "features.npz").exists() else folder
    if given.stage == "teach":
        # Before the images are loaded and a log is written: what cannot run leaves nothing behind.
        if not given.released.is_file():
            parser.error(f"there are no labels in {given.released}")
        for path in (folder / "backbone.safetensors", latest / "features.npz"):
            if not path.is_file():
                parser.error(f"there is no {path}: represent comes first")
    torch.backends.cudnn.benchmark = True
    torch._dynamo.config.recompile_limit = 64  # every student is another module of the same shape
    cache = given.runs / f"{name}.npz"
    if given.stage == "load":
        load_arrays(name, Rule.CLEAN, cache)
        return
    images = load_images(name, Rule.CLEAN, cache, compute, limit)
    recipe = small if given.small else recipe
    if given.stage == "represent":
        represent(images, recipe, seed=given.seed, compute=compute, folder=folder)
    elif given.stage == "agree":
        agree(images, recipe, given.others, seed=given.seed, compute=compute, folder=folder, out=agreed)
    else:
        teach(
            images, recipe, given.released,
            seed=given.seed, compute=compute, folder=folder, features=latest / "features.npz", out=latest,
        )  # fmt: skip
