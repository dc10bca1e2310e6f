"""The public half of the image experiments: features and clusters from the unlabelled pool, students from its labels.

Everything here needs a GPU to run in full and touches no private label: `represent` looks at pool images only, and
`teach` at labels that were released. Labels known from the data sets are used to *measure*, after the fact.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.provenance import hardware, versions
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from experiments import compact
from recordwise.data import Rule, load, parts_of
from recordwise.encoders.resnet import Classifier, ResNet
from recordwise.encoders.saved import load_weights, save_weights
from recordwise.encoders.self_supervised import Byol, Pretraining, channel_statistics, features_of
from recordwise.encoders.spherical import nearest, spherical_kmeans
from recordwise.encoders.steps import Compute, fresh_weights
from recordwise.queries.consensus import consensus
from recordwise.queries.scan import Scan, scan
from recordwise.queries.self_label import SelfLabel, agreeing, self_label
from recordwise.students.convnets import M3, M5, M7, ConvNet, majority
from recordwise.students.supervised import Supervised, train

NEIGHBOURS = 20
CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All settings of one data set, fixed before any result was looked at (see docs/concepts/seeing.md).

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """The three parts on the device: (n, channels, height, width) uint8. True labels are for measuring only."""

    public: Tensor
    private: Tensor
    test: Tensor
    public_labels: Tensor
    private_labels: Tensor
    test_labels: Tensor

    @property
    def parts(self) -> dict[str, Tensor]:
        return {"public": self.public, "private": self.private, "test": self.test}


def to_device(samples: NDArray[np.uint8], compute: Compute) -> Tensor:
    """(n, height, width) or (n, height, width, channels) bytes, channels first."""
    images = torch.from_numpy(np.ascontiguousarray(samples))
    images = images[:, None] if images.ndim == 3 else images.permute(0, 3, 1, 2)
    return images.contiguous().to(compute.device)


class Log:
    """What happened when: printed as it goes, kept as JSON."""

    def __init__(self, path: Path) -> None:
        self.path, self.began = path, time.time()
        self.facts: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}

    def say(self, **facts: object) -> None:
        self.facts.update(facts)
        print(f"[{time.time() - self.began:7.1f}s] " + " ".join(f"{k}={v}" for k, v in facts.items()), flush=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.facts, indent=1))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        started = time.time()
        yield
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.say(**{f"{name}_seconds": round(time.time() - started, 1)})


def represent(images: Images, recipe: Recipe, *, seed: int, compute: Compute, folder: Path) -> None:
    """Learn features and clusters from the pool; leave weights, compact features and measurements in `folder`.

    Every step leaves a file and is not done again where that file exists, so a killed run goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "represent.json")
    log.say(seed=seed, pool=len(images.public), settings=repr(recipe), **made_by(compute))
    backbone = kept(
        folder / "backbone.safetensors",
        empty_backbone(images, recipe, compute),
        lambda: _pretrain(images, recipe, seed, compute, folder / "pretraining.pt", log),
        log,
    )
    if recipe.scan is None:
        measure(backbone, images, recipe, compute, log, "byol")
        write_features(backbone, None, images, recipe, compute, folder)
    else:
        network = _cluster(backbone, images, recipe, seed, compute, log, folder)
        measure(network.backbone, images, recipe, compute, log, "final")
        write_features(network.backbone, network, images, recipe, compute, folder)
    log.say(finished=True)


def kept(path: Path, empty: nn.Module, make: Callable[[], nn.Module], log: Log) -> Any:
    """The network whose weights lie in `path`; made, and its weights put there, if they do not."""
    if not path.exists():
        network = make()
        log.say(**{f"{path.stem}_sha256": save_weights(network, path)})
        return network
    return load_weights(empty, path).eval()


def empty_backbone(images: Images, recipe: Recipe, compute: Compute) -> ResNet:
    mean, deviation = channel_statistics(images.public)
    network: ResNet = compute.ready(ResNet(mean=mean, deviation=deviation, width=recipe.byol.width))
    return network


def empty_classifier(images: Images, recipe: Recipe, compute: Compute) -> Classifier:
    backbone = empty_backbone(images, recipe, compute)
    network: Classifier = compute.ready(Classifier(backbone, backbone.dim, CLASSES))
    return network


def _pretrain(images: Images, recipe: Recipe, seed: int, compute: Compute, checkpoint: Path, log: Log) -> nn.Module:
    byol = recipe.byol
    run = Pretraining(images.public, byol, seed=seed, compute=compute)
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
        neighbours = nearest(directions(backbone, images.public, recipe, compute), NEIGHBOURS)
        with log.timed("scan"):
            return scan(
                backbone, dim, images.public, neighbours, settings,
                seed=seed, compute=compute, progress=_every(20, log),
            )  # fmt: skip

    network = kept(folder / "scan.safetensors", empty, first, log)
    measure_clusters(network, images, recipe, compute, log, "scan")
    for round_ in range(1, recipe.rounds + 1):
        clusters = features_of(network, images.public, compute, mirror=recipe.mirror).argmax(1)
        near = nearest(directions(network.backbone, images.public, recipe, compute), NEIGHBOURS)
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
                classes=CLASSES, seed=seed, compute=compute, progress=_every(30, log),
            )  # fmt: skip

    network: Classifier = kept(path, empty_classifier(images, recipe, compute), make, log)
    measure_clusters(network, images, recipe, compute, log, path.stem)
    return network


def agree(
    images: Images, recipe: Recipe, others: list[Path], *, seed: int, compute: Compute, folder: Path, out: Path
) -> None:
    """Sharpen once more what this run and others (their feature files) agree on, from this run's weights."""
    out.mkdir(parents=True, exist_ok=True)
    log = Log(out / "represent.json")
    names = [path.parent.name if path.stem == "features" else path.stem for path in others]
    log.say(seed=seed, others=names, **made_by(compute))
    every = [compact.read(path)[1]["public"] for path in (folder / "features.npz", *others)]
    found = consensus(every, pool=every, clusters=CLASSES)
    clusters = torch.from_numpy(found.clusters).to(compute.device)
    log.say(
        unanimous=round(float(found.unanimous.mean()), 4),
        consensus_public=round(purity(clusters, images.public_labels), 4),
    )
    backbone = load_weights(empty_backbone(images, recipe, compute), folder / "backbone.safetensors").eval()
    network = sharpened(
        backbone, images, clusters, torch.from_numpy(found.unanimous).to(compute.device), recipe,
        seed=seed + 100, compute=compute, log=log, path=out / "agreed.safetensors",
    )  # fmt: skip
    measure(network.backbone, images, recipe, compute, log, "final")
    write_features(network.backbone, network, images, recipe, compute, out)
    log.say(finished=True)


def made_by(compute: Compute) -> dict[str, object]:
    """Versions and hardware, for the results."""
    gpu = torch.cuda.get_device_properties(0) if compute.on_gpu else None
    return {
        "versions": versions("torch", "numpy"),
        "hardware": {"processor": gpu.name, "memory_gib": gpu.total_memory >> 30} if gpu else hardware(),
    }


def directions(network: nn.Module, images: Tensor, recipe: Recipe, compute: Compute) -> Tensor:
    """Features on the unit sphere."""
    return functional.normalize(features_of(network, images, compute, mirror=recipe.mirror), dim=1)


def measure(network: nn.Module, images: Images, recipe: Recipe, compute: Compute, log: Log, name: str) -> None:
    """How well the true labels lie in these features: k-NN accuracy, and purity of k-means clusters."""
    seen = {part: directions(network, pixels, recipe, compute) for part, pixels in images.parts.items()}
    found = {f"{name}_knn_test": round(knn_accuracy(seen["public"], images.public_labels, seen["test"], images), 4)}
    for clusters in (10, 40, 100, 500):
        generator = compute.generator(clusters)
        groups = spherical_kmeans(seen["public"], clusters, generator, restarts=5 if clusters < 100 else 1)
        found[f"{name}_purity{clusters}"] = round(purity(groups.assignment, images.public_labels), 4)
    log.say(**found)


def measure_clusters(network: nn.Module, images: Images, recipe: Recipe, compute: Compute, log: Log, name: str) -> None:
    """Purity of the network's own clusters on pool and test."""
    found = {}
    for part, labels in (("public", images.public_labels), ("test", images.test_labels)):
        clusters = features_of(network, images.parts[part], compute, mirror=recipe.mirror).argmax(1)
        found[f"{name}_{part}"] = round(purity(clusters, labels), 4)
    log.say(**found)


def knn_accuracy(bank: Tensor, bank_labels: Tensor, asked: Tensor, images: Images, count: int = 20) -> float:
    right = 0
    for start in range(0, len(asked), 2000):
        alike, index = (asked[start : start + 2000] @ bank.T).topk(count, dim=1)
        votes = functional.one_hot(bank_labels[index], CLASSES) * (alike / 0.1).exp()[..., None]
        right += int((votes.sum(1).argmax(1) == images.test_labels[start : start + 2000]).sum())
    return right / len(asked)


def purity(clusters: Tensor, labels: Tensor) -> float:
    """Share of points whose label is the most frequent one of their cluster: label accuracy without noise."""
    table = torch.zeros(int(clusters.max()) + 1, CLASSES, device=labels.device)
    table.index_put_((clusters, labels), torch.ones(len(labels), device=labels.device), accumulate=True)
    return float(table.max(1).values.sum()) / len(labels)


def write_features(
    backbone: nn.Module, clusters: nn.Module | None, images: Images, recipe: Recipe, compute: Compute, folder: Path
) -> None:
    """Compact features and cluster numbers, for `experiments.labelling` and for other seeds to agree with."""
    features, numbers = {}, {}
    for part, pixels in images.parts.items():
        features[part] = directions(backbone, pixels, recipe, compute).cpu().numpy()
        if clusters is not None:
            said = features_of(clusters, pixels, compute, mirror=recipe.mirror).argmax(1)
            numbers[part] = said.cpu().numpy()
    compact.write(folder / "features.npz", features, numbers, dims=recipe.dims)


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

    A label is trusted at first where the images nearest to it in the compact features carry it too.
    """
    log, answers = Log(out / f"{released.stem}.json"), {}
    log.say(seed=seed, **made_by(compute))
    backbone = load_weights(empty_backbone(images, recipe, compute), folder / "backbone.safetensors").eval()
    vectors = torch.from_numpy(compact.read(features)[0]["public"]).to(compute.device)
    neighbours = nearest(functional.normalize(vectors, dim=1), NEIGHBOURS)
    with np.load(released) as file:
        for name in dict.fromkeys(key.split("/")[0] for key in file.files):
            if f"{name}_test" in log.facts:
                continue
            labels = torch.from_numpy(file[f"{name}/labels"]).long().to(compute.device)
            trusted = agreeing(labels, neighbours, recipe.agreement)
            with log.timed(name):
                student = self_label(
                    backbone, 8 * recipe.byol.width, images.public, labels, trusted, recipe.student, classes=CLASSES,
                    prior=torch.from_numpy(file[f"{name}/prior"]).float(), seed=seed, compute=compute,
                )  # fmt: skip
            said = {part: features_of(student, images.parts[part], compute, mirror=recipe.mirror).argmax(1)
                    for part in ("public", "test")}  # fmt: skip
            answers[name] = said["test"].byte().cpu().numpy()
            if recipe.ensemble is not None:
                with log.timed(f"{name}_ensemble"):
                    voted = ensemble(student, images, recipe.ensemble, seed=seed, compute=compute)
                answers[f"{name}_ensemble"] = voted.byte().cpu().numpy()
                log.say(**{f"{name}_ensemble_test": share(voted, images.test_labels)})
            log.say(
                **{
                    f"{name}_trusted": share(trusted, True),
                    f"{name}_labels": share(labels, images.public_labels),
                    f"{name}_pool": share(said["public"], images.public_labels),
                    f"{name}_test": share(said["test"], images.test_labels),
                }
            )
            np.savez_compressed(out / f"{released.stem}-answers.npz", **answers)


def share(found: Tensor, wanted: Tensor | bool) -> float:
    """How often two answers are the same."""
    return round(float((found == wanted).float().mean()), 4)


def ensemble(student: nn.Module, images: Images, settings: Supervised, *, seed: int, compute: Compute) -> Tensor:
    """What M3, M5 and M7, taught the student's answers to the pool by their sureness, vote for on the test images."""
    plain = replace(compute, compile=False)
    taught = features_of(student, images.public, plain).softmax(1)
    weights = taught.max(1).values
    votes = []
    for number, plan in enumerate((M3, M5, M7)):
        with fresh_weights(seed + number):
            network = ConvNet(plan)
        network = train(network, images.public, taught, weights, settings, seed=seed + number, compute=plain)
        votes.append(features_of(network, images.test, plain).argmax(1))
    return majority(votes)


def _every(epochs: int, log: Log) -> Callable[[int, float], None]:
    def tell(epoch: int, value: float) -> None:
        if (epoch + 1) % epochs == 0:
            log.say(epoch=epoch + 1, value=round(value, 4))

    return tell


def load_arrays(name: str, rule: Rule, cache: Path) -> dict[str, NDArray[np.uint8]]:
    """A split of a named data set, decoded once and then read from `cache`."""
    if not cache.exists():
        parts = parts_of(load(name), rule)
        arrays = {}
        for part in ("public", "private", "test"):
            arrays[part] = getattr(parts, part).samples
            arrays[f"{part}_labels"] = np.asarray(getattr(parts, part).labels).astype(np.uint8)
        cache.parent.mkdir(parents=True, exist_ok=True)
        partial = cache.with_suffix(".part.npz")
        np.savez(partial, **arrays)
        partial.rename(cache)
    with np.load(cache) as file:
        return dict(file)


def load_images(name: str, rule: Rule, cache: Path, compute: Compute, limit: int | None = None) -> Images:
    """Images and labels on the device."""
    arrays = load_arrays(name, rule, cache)
    return Images(
        **{part: to_device(arrays[part][:limit], compute) for part in ("public", "private", "test")},
        **{
            part: torch.from_numpy(arrays[part][:limit]).long().to(compute.device)
            for part in ("public_labels", "private_labels", "test_labels")
        },
    )


def main(name: str, recipe: Recipe, small: Recipe, paper: Recipe | None = None) -> None:
    """The command line of one data set's script; `paper` is the recipe for the paper's pool where that differs."""
    parser = argparse.ArgumentParser(description=f"Features, clusters and students for {name}")
    parser.add_argument("stage", choices=("load", "represent", "agree", "teach"))
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--split", type=Rule, choices=list(Rule), default=Rule.CLEAN)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="a few steps on a few images, to see that it runs")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-record", action="store_true", help="do not replay steps as CUDA graphs")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where weights and features go")
    parser.add_argument(
        "--others", type=Path, nargs="+", default=[], help="feature files of other seeds, to agree with"
    )
    parser.add_argument("--released", type=Path, help="labels to teach, from `python -m experiments.labelling`")
    given = parser.parse_args()
    compute = Compute(
        device=given.device,
        compile=not given.no_compile and torch.device(given.device).type == "cuda",
        record=not given.no_record,
    )
    torch.backends.cudnn.benchmark = True
    torch._dynamo.config.recompile_limit = 64  # every student is another module of the same shape
    clean = given.split is Rule.CLEAN
    data = name if clean else f"{name}-{given.split}"
    cache = given.runs / f"{data}.npz"
    if given.stage == "load":
        load_arrays(name, given.split, cache)
        return
    images = load_images(name, given.split, cache, compute, limit=1024 if given.small else None)
    recipe = small if given.small else recipe if clean or paper is None else paper
    folder = given.runs / f"{data}-{given.seed}"
    agreed = given.runs / f"{data}-agreed-{given.seed}"
    if given.stage == "represent":
        represent(images, recipe, seed=given.seed, compute=compute, folder=folder)
    elif given.stage == "agree":
        agree(images, recipe, given.others, seed=given.seed, compute=compute, folder=folder, out=agreed)
    else:
        latest = agreed if (agreed / "features.npz").exists() else folder
        teach(
            images, recipe, given.released,
            seed=given.seed, compute=compute, folder=folder, features=latest / "features.npz", out=latest,
        )  # fmt: skip
