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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from recordwise.encoders.resnet import Classifier, ResNet
from recordwise.encoders.self_supervised import Byol, Pretraining, channel_statistics, features_of
from recordwise.encoders.spherical import nearest, spherical_kmeans
from recordwise.encoders.steps import Compute, fresh_weights
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
    dims: int = 64


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


def represent(
    images: Images, recipe: Recipe, *, seed: int, compute: Compute, folder: Path, after: Path | None = None
) -> None:
    """Learn features and clusters from the pool; leave weights, compact features and measurements in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "represent.json")
    run = Pretraining(images.public, recipe.byol, seed=seed, compute=compute)
    checkpoint = folder / "pretraining.pt"
    if checkpoint.exists():
        run.resume(checkpoint)
    log.say(seed=seed, pool=len(images.public), settings=repr(recipe))
    _pretrain(run, recipe, log, images, checkpoint, after)
    backbone = run.backbone.eval()
    torch.save(backbone.state_dict(), folder / "backbone.pt")
    measure(backbone, images, recipe, compute, log, "byol")
    if recipe.scan is not None:
        network = _cluster(backbone, run, images, recipe, seed, compute, log)
        torch.save(network.state_dict(), folder / "clusters.pt")
        write_features(network.backbone, network, images, recipe, compute, folder)
    else:
        write_features(backbone, None, images, recipe, compute, folder)
    log.say(finished=True)


def _pretrain(run: Pretraining, recipe: Recipe, log: Log, images: Images, checkpoint: Path, after: Path | None) -> None:
    byol = recipe.byol
    total, started, counted = byol.epochs + byol.prototype_epochs, time.time(), 0
    while run.epoch < total:
        loss = run.run_epoch()  # reads the loss, so the device has finished
        if counted == 0:
            log.say(first_epoch_seconds=round(time.time() - started, 1))  # compilation is most of it
            while after is not None and not after.exists():  # somebody else's turn on the device
                time.sleep(0.2)
            started = time.time()
        elif run.epoch % 50 == 0 or run.epoch in (byol.epochs, total):
            per_epoch = (time.time() - started) / counted
            log.say(epoch=run.epoch, loss=round(loss, 4), seconds_per_epoch=round(per_epoch, 4))
        counted += 1
        if run.epoch == byol.epochs and byol.prototype_epochs:
            log.say(byol_epoch_seconds=round((time.time() - started) / max(counted - 1, 1), 4))
            measure(run.backbone, images, recipe, run.compute, log, "plain")
            run.target.train()
            run.save(checkpoint)
    log.say(pretraining_seconds=round(time.time() - started, 1))
    run.save(checkpoint)


def _cluster(
    backbone: nn.Module, run: Pretraining, images: Images, recipe: Recipe, seed: int, compute: Compute, log: Log
) -> Classifier:
    """SCAN, then rounds of self-labelling that restart from the self-supervised weights."""
    assert recipe.scan is not None
    dim = run.online[0].dim  # type: ignore[union-attr]
    features = functional.normalize(features_of(backbone, images.public, compute, mirror=recipe.mirror), dim=1)
    neighbours = nearest(features, NEIGHBOURS)
    with log.timed("scan"):
        network = scan(
            backbone, dim, images.public, neighbours, recipe.scan, seed=seed, compute=compute, progress=_every(20, log)
        )
    for round_ in range(1, recipe.rounds + 1):
        measure_clusters(network, images, recipe, compute, log, "scan" if round_ == 1 else f"round{round_ - 1}")
        clusters = features_of(network, images.public, compute, mirror=recipe.mirror).argmax(1)
        seen = functional.normalize(features_of(network.backbone, images.public, compute, mirror=recipe.mirror), dim=1)
        trusted = agreeing(clusters, nearest(seen, NEIGHBOURS), recipe.agreement)
        log.say(**{f"round{round_}_trusted": round(float(trusted.float().mean()), 4)})
        with log.timed(f"round{round_}"):
            network = self_label(
                backbone, dim, images.public, clusters, trusted, recipe.self_label,
                classes=recipe.scan.clusters, seed=seed + round_, compute=compute, progress=_every(30, log),
            )  # fmt: skip
    measure_clusters(network, images, recipe, compute, log, f"round{recipe.rounds}")
    measure(network.backbone, images, recipe, compute, log, "final")
    return network


def measure(network: nn.Module, images: Images, recipe: Recipe, compute: Compute, log: Log, name: str) -> None:
    """How well the true labels lie in these features: k-NN accuracy, and purity of k-means clusters."""
    seen = {
        part: functional.normalize(features_of(network, pixels, compute, mirror=recipe.mirror), dim=1)
        for part, pixels in images.parts.items()
    }
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
    """Principal components of the unit features (fitted on the pool) and cluster probabilities, as float16."""
    kept: dict[str, NDArray[np.float16]] = {}
    seen = {
        part: functional.normalize(features_of(backbone, pixels, compute, mirror=recipe.mirror), dim=1)
        for part, pixels in images.parts.items()
    }
    centre = seen["public"].mean(0)
    spread = (seen["public"] - centre).double()
    axes = torch.linalg.eigh(spread.T @ spread).eigenvectors[:, -recipe.dims :].flip(1).float()  # widest first
    for part, features in seen.items():
        kept[part] = ((features - centre) @ axes).half().cpu().numpy()
        if clusters is not None:
            answer = features_of(clusters, images.parts[part], compute, mirror=recipe.mirror).softmax(1)
            kept[f"{part}_clusters"] = answer.half().cpu().numpy()
    partial = folder / "features.part.npz"
    np.savez(partial, **kept)
    partial.rename(folder / "features.npz")


def teach(
    images: Images,
    labels: Tensor,
    trusted: Tensor,
    recipe: Recipe,
    *,
    prior: Tensor | None,
    seed: int,
    compute: Compute,
    folder: Path,
) -> Classifier:
    """A student that starts from the self-supervised backbone in `folder` and learns released labels."""
    mean, deviation = channel_statistics(images.public)
    backbone = ResNet(mean=mean, deviation=deviation, width=recipe.byol.width)
    backbone.load_state_dict(torch.load(folder / "backbone.pt", map_location="cpu", weights_only=True))
    compute.ready(backbone)
    return self_label(
        backbone, backbone.dim, images.public, labels, trusted, recipe.student,
        classes=CLASSES, prior=prior, seed=seed, compute=compute,
    )  # fmt: skip


def teach_all(
    images: Images, recipe: Recipe, released: Path, *, seed: int, compute: Compute, folder: Path, out: Path
) -> None:
    """One student for each set of released labels in a file that `experiments.labelling` wrote."""
    log, answers = Log(out / f"{released.stem}.json"), {}
    with np.load(folder / "features.npz") as file:
        compact = torch.from_numpy(file["public"]).float().to(compute.device)
    neighbours = nearest(functional.normalize(compact, dim=1), NEIGHBOURS)
    with np.load(released) as file:
        for name in sorted({key.split("/")[0] for key in file.files}):
            labels = torch.from_numpy(file[f"{name}/labels"]).long().to(compute.device)
            prior = torch.from_numpy(file[f"{name}/prior"]).float()
            trusted = agreeing(labels, neighbours, recipe.agreement)
            with log.timed(name):
                student = teach(
                    images, labels, trusted, recipe,
                    prior=prior, seed=seed, compute=compute, folder=folder,
                )  # fmt: skip
            answer = features_of(student, images.test, compute, mirror=recipe.mirror).argmax(1)
            pool = features_of(student, images.public, compute, mirror=recipe.mirror).argmax(1)
            answers[name] = answer.byte().cpu().numpy()
            if recipe.ensemble is not None:
                with log.timed(f"{name}_ensemble"):
                    voted = ensemble(student, images, recipe.ensemble, seed=seed, compute=compute)
                answers[f"{name}_ensemble"] = voted.byte().cpu().numpy()
                log.say(**{f"{name}_ensemble_test": round(float((voted == images.test_labels).float().mean()), 4)})
            log.say(
                **{
                    f"{name}_trusted": round(float(trusted.float().mean()), 4),
                    f"{name}_labels": round(float((labels == images.public_labels).float().mean()), 4),
                    f"{name}_pool": round(float((pool == images.public_labels).float().mean()), 4),
                    f"{name}_test": round(float((answer == images.test_labels).float().mean()), 4),
                }
            )
            np.savez_compressed(out / f"{released.stem}-answers.npz", **answers)


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


def load_arrays(name: str, cache: Path) -> dict[str, NDArray[np.uint8]]:
    """The clean split of a named data set, decoded once and then read from `cache`."""
    from recordwise.data import Rule, load, parts_of

    if not cache.exists():
        parts = parts_of(load(name), Rule.CLEAN)
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


def load_images(name: str, cache: Path, compute: Compute, limit: int | None = None) -> Images:
    """Images and labels on the device."""
    arrays = load_arrays(name, cache)
    return Images(
        **{part: to_device(arrays[part][:limit], compute) for part in ("public", "private", "test")},
        **{
            part: torch.from_numpy(arrays[part][:limit]).long().to(compute.device)
            for part in ("public_labels", "private_labels", "test_labels")
        },
    )


def main(name: str, recipe: Recipe, small: Recipe) -> None:
    """The command line of one data set's script."""
    parser = argparse.ArgumentParser(description=f"Features, clusters and students for {name}")
    parser.add_argument("stage", choices=("load", "represent", "teach"))
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="a few steps on a few images, to see that it runs")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-record", action="store_true", help="do not replay steps as CUDA graphs")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where weights and features go")
    parser.add_argument("--after", type=Path, help="compile now, but train only once this file exists")
    parser.add_argument("--released", type=Path, help="labels to teach, from `python -m experiments.labelling`")
    given = parser.parse_args()
    compute = Compute(
        device=given.device,
        compile=not given.no_compile and torch.device(given.device).type == "cuda",
        record=not given.no_record,
    )
    torch.backends.cudnn.benchmark = True
    torch._dynamo.config.recompile_limit = 64  # every student is another module of the same shape
    cache = given.runs / f"{name}.npz"
    if given.stage == "load":
        load_arrays(name, cache)
        return
    images = load_images(name, cache, compute, limit=1024 if given.small else None)
    recipe = small if given.small else recipe
    folder = given.runs / f"{name}-{given.seed}"
    if given.stage == "represent":
        represent(images, recipe, seed=given.seed, compute=compute, folder=folder, after=given.after)
    else:
        teach_all(images, recipe, given.released, seed=given.seed, compute=compute, folder=folder, out=folder)
