"""The paper's split with the paper's own clusterings, without a GPU: DTI for MNIST, HOG and k-means for SVHN.

    python -m experiments.paper_split mnist
    python -m experiments.paper_split mnist --convnet
    python -m experiments.paper_split svhn

The pool is taken from the official test set (5,000 of MNIST, the rest is for the test; 25,032 of SVHN, 1,000 are left),
the private records are the whole training set. Queries come from the pool alone; private records and test images find
theirs by the same public function. What takes minutes is kept under runs/: a killed run goes on from there. DTI's
distances are committed (experiments/features); without them it takes about half an hour of a core.

Of several DTI runs the one that rebuilds the pool best is kept, which no label decides. M3, M5 and M7 as the paper has
them take about eight minutes of a core per epoch on this pool; --convnet teaches M5 with a quarter of its channels
instead, on pixels: all labels, or those alone that an image's neighbours by gradients share. The other students see
gradient histograms. Everything was fixed before the first accuracy was looked at, but for the epochs of that network
(20, for a while 10), set before any accuracy of its own was seen, and for teaching it shared labels alone, which was
thought of after its accuracy with all of them was known.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from benchmarks.provenance import hardware, versions
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from experiments import compact, dti
from experiments.images import load_arrays
from experiments.labelling import HERE, released, right
from experiments.measuring import Log
from experiments.rows import CLASSES, Row, Setting, result_row
from experiments.steps import cast_votes
from experiments.vision import NEIGHBOURS
from recordwise.arrays import Ints
from recordwise.data import Rule
from recordwise.encoders.hog import Hog
from recordwise.labels import query_graph
from recordwise.nearest.search import nearest_queries
from recordwise.queries import KMeansQueries, Queries
from recordwise.students.shallow import Mlp
from recordwise.vision.augment import Augment, pixels
from recordwise.vision.convnets import M5, ConvNet, Shape
from recordwise.vision.dti import Dti, Prototypes, cluster_by_transformation, distances
from recordwise.vision.self_label import agreeing
from recordwise.vision.self_supervised import features_of
from recordwise.vision.spherical import nearest
from recordwise.vision.steps import Compute, fresh_weights
from recordwise.vision.supervised import Supervised, train
from recordwise.vision.training import TrainingRun
from recordwise.votes import Ballot, Votes

FEATURES = HERE / "features"
CPU = Compute(device="cpu")
SEED = 11  # of k-means and of the students
DTI_SEEDS = {10: (11, 12, 13), 40: (11,)}  # forty prototypes take three times as long as ten
EPOCHS = 60  # of DTI: 2,340 steps, enough in an earlier trial on 6,000 digits
CHECKPOINT_EVERY = 5  # epochs
CONVNET = "narrow M5"
CAREFUL = "narrow M5 of shared labels"
NARROW = Shape(M5.side, tuple(width // 4 for width in M5.channels))
TEACHING = Supervised(epochs=20, view=Augment(rotate=15, shear=0.2, zoom=0.1, shift=0.08, padding="zeros"))

TEN = [
    Setting(s=10, epsilon=0.01),
    Setting(s=10, epsilon=0.004),
    Setting(s=10, epsilon=0.4, protocol="local-collision"),
    Setting(s=10, epsilon=0.4, protocol="local-rr"),
]
SETTINGS = {
    "mnist": [Setting(s=40, epsilon=0.1), Setting(s=40, epsilon=0.04), *TEN],
    "svhn": [Setting(s=500, epsilon=0.1), Setting(s=500, epsilon=0.04)],
}

Vectors = dict[str, NDArray[np.float32]]  # of each part
Student = Callable[[Ints], Ints]  # from labels of the pool to answers on the test images


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """Queries made from the pool alone, and each part in the space where they are asked."""

    encoder: str
    how: str
    seed: int
    queries: Queries
    vectors: Vectors

    @cached_property
    def graph(self) -> NDArray[np.float64]:
        return query_graph(self.vectors["public"], self.queries.vectors)

    def votes(self, labels: Ints) -> Votes:
        ballot = Ballot(num_queries=len(self.queries), num_classes=CLASSES)
        return cast_votes(self.vectors["private"], labels, self.queries, ballot)


def by_gradients(hog: Vectors, count: int) -> Asked:
    """k-means of the pool's gradient histograms."""
    queries = KMeansQueries(num_queries=count, seed=SEED).ask(hog["public"])
    return Asked(encoder="HOG", how="k-means", seed=SEED, queries=queries, vectors=hog)


def by_transformation(
    images: dict[str, NDArray[np.uint8]], settings: Dti, seeds: tuple[int, ...], *, folder: Path
) -> Asked:
    """The prototypes of the seed that rebuilds the pool best.

    A part's vectors are minus its distances to the transformed prototypes, and queries the corners of the simplex: the
    corner nearest to such a vector is the prototype nearest to the image. The distances are committed, so DTI runs only
    where they are not there.
    """
    name, log = f"dti-{settings.prototypes}", Log(folder / f"dti-{settings.prototypes}.json")
    kept = FEATURES / f"mnist-paper-{name}.npz"
    if not kept.exists():
        models, errors = {}, {}
        for seed in seeds:
            models[seed] = cluster_by_transformation(
                CPU.images(images["public"]), settings,
                run=TrainingRun(
                    seed=seed, checkpoint=folder / f"{name}-{seed}.pt", checkpoint_every=CHECKPOINT_EVERY,
                ),
            )  # fmt: skip
            far = prototype_distances(models[seed], images["public"])
            errors[seed] = float(far.min(1).mean())
            reached = purity(far.argmin(1), images["public_labels"].astype(np.int64))  # decides nothing
            log.say(**{f"seed{seed}_error": round(errors[seed], 6), f"seed{seed}_purity": reached})
        best = min(seeds, key=errors.__getitem__)
        log.say(kept=best)
        found = {part: in_steps(prototype_distances(models[best], images[part])) for part in compact.PARTS}
        partial = folder / f"{name}.part.npz"
        np.savez_compressed(partial, seed=np.array(best), **found)  # type: ignore[arg-type]
        partial.rename(kept)
    with np.load(kept) as file:
        vectors, best = {part: -file[part].astype(np.float32) for part in compact.PARTS}, int(file["seed"])
    corners = np.eye(settings.prototypes, dtype=np.float32)
    queries = Queries(vectors=corners, owner=vectors["public"].argmax(1).astype(np.int64))
    return Asked(encoder="none (pixels)", how="DTI", seed=best, queries=queries, vectors=vectors)


@torch.no_grad()
def prototype_distances(model: Prototypes, images: NDArray[np.uint8], chunk: int = 64) -> NDArray[np.float32]:
    """(n, K) how far each image is from each prototype that has done its best to look like it."""
    parts = torch.split(CPU.images(images), chunk)  # few at a time: K changed prototypes each stay in the cache
    return torch.cat([distances(model, pixels(part)) for part in parts]).numpy()


def in_steps(far: NDArray[np.float32]) -> NDArray[np.uint8]:
    """How much farther than the nearest prototype each one is, in steps of which 32 are the mean least distance.

    The nearest alone is at zero.
    """
    least = far.min(axis=1, keepdims=True)
    steps = np.clip(np.rint((far - least) / (least.mean() / 32)), 1, 255)
    steps[np.arange(len(far)), far.argmin(axis=1)] = 0
    return np.asarray(steps.astype(np.uint8))


def gradients(images: dict[str, NDArray[np.uint8]]) -> Vectors:
    hog = Hog().fit(images["public"])
    return {part: hog.transform(images[part]) for part in compact.PARTS}


def nearest_query(asked: Asked) -> Student:
    """A test image is what its query is: no training at all."""

    def taught(labels: Ints) -> Ints:
        found = nearest_queries(asked.vectors["test"], asked.queries.vectors, 1)[:, 0]
        return commonest(asked.queries.owner, labels, len(asked.queries))[found]

    return taught


def linear(hog: Vectors) -> Student:
    """Linear discriminant analysis; covariances of so many dimensions are shrunk (Ledoit and Wolf 2004)."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    def taught(labels: Ints) -> Ints:
        student = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(hog["public"], labels)
        return np.asarray(student.predict(hog["test"]))

    return taught


def network_of_gradients(hog: Vectors) -> Student:
    """One hidden layer, with the package's own defaults."""
    return lambda labels: Mlp(seed=SEED).fit(hog["public"], labels).predict(hog["test"])


def convolutional(
    images: dict[str, NDArray[np.uint8]], teaching: Supervised, *, folder: Path, neighbours: Tensor | None = None
) -> Student:
    """The narrow M5 on pixels; what it learnt from one set of labels is kept.

    Args:
      neighbours: (n, count) of each pool image; where given, only labels that they share are taught.
    """
    public, test = CPU.images(images["public"]), CPU.images(images["test"])

    def taught(labels: Ints) -> Ints:
        with fresh_weights(SEED):
            network = ConvNet(NARROW)
        targets = torch.from_numpy(np.eye(CLASSES, dtype=np.float32)[labels])
        weights = torch.ones(len(labels))
        if neighbours is not None:
            weights = agreeing(torch.from_numpy(labels), neighbours).float()
        digest = sha256(labels.astype("<i8").tobytes() + weights.numpy().tobytes()).hexdigest()[:16]
        student = train(
            network, public, targets, weights, teaching,
            run=TrainingRun(
                seed=SEED, checkpoint=folder / f"narrow-m5-{digest}.pt", checkpoint_every=CHECKPOINT_EVERY,
            ),
        )  # fmt: skip
        return np.asarray(features_of(student, test, CPU).argmax(1))

    return taught


def once(student: Student) -> Student:
    """The same student, taught each set of labels once: many draws of the noise end in the same labels."""
    known: dict[bytes, Ints] = {}

    def taught(labels: Ints) -> Ints:
        key = labels.tobytes()
        known[key] = known[key] if key in known else student(labels)
        return known[key]

    return taught


def commonest(clusters: Ints, labels: Ints, count: int) -> Ints:
    """(count,) the most frequent label of each cluster."""
    table = np.zeros((count, CLASSES), dtype=np.int64)
    np.add.at(table, (clusters, labels), 1)
    return np.asarray(table.argmax(1))


def purity(clusters: Ints, labels: Ints) -> float:
    """Label accuracy if every cluster got its commonest class: all that votes without noise could give."""
    return right(commonest(clusters, labels, int(clusters.max()) + 1)[clusters], labels)


def measure(
    data: str, asked: Asked, students: dict[str, Student], images: dict[str, NDArray[np.uint8]], setting: Setting
) -> Iterator[Row]:
    """One row per student, over draws of the noise."""
    labels = {part: images[f"{part}_labels"].astype(np.int64) for part in compact.PARTS}
    votes = asked.votes(labels["private"])
    draws = range(20 if setting.s == CLASSES else 5)
    every = [released(asked.queries, asked.graph, votes, setting, draw)[asked.queries.owner] for draw in draws]
    for name, student in students.items():
        yield result_row(
            setting,
            data=data,
            split=str(Rule.PAPER),
            encoder=asked.encoder,
            queries=asked.how,
            student=name,
            records=len(votes),
            purity=purity(asked.queries.owner, labels["public"]),
            seeds=[f"{asked.seed}/{draw}" for draw in draws],
            test_accuracy=[right(student(taught), labels["test"]) for taught in every],
            label_accuracy=[right(taught, labels["public"]) for taught in every],
            nonprivate_accuracy=right(student(labels["public"]), labels["test"]),
            versions=versions("numpy", "scipy", "scikit-learn", "torch"),
            hardware=hardware(),
            command=f"python -m experiments.paper_split {data}" + " --convnet" * (name in (CONVNET, CAREFUL)),
        )


def rows_of(data: str, images: dict[str, NDArray[np.uint8]], *, folder: Path) -> Iterator[Row]:
    """The rows of the students that see gradient histograms, and of none at all."""
    hog = gradients(images)
    students = {"linear": once(linear(hog)), "network": once(network_of_gradients(hog))}
    for count, settings in by_count(data):
        asked = [by_gradients(hog, count)]
        if data == "mnist":
            asked.append(by_transformation(images, dti.settings(count, EPOCHS), DTI_SEEDS[count], folder=folder))
        *plainer, own = asked
        for setting in settings:
            for queries in plainer:  # to compare with
                yield from measure(data, queries, students, images, setting)
            yield from measure(data, own, {"nearest query": nearest_query(own), **students}, images, setting)


def convnet_rows(images: dict[str, NDArray[np.uint8]], *, folder: Path) -> Iterator[Row]:
    """The rows of MNIST's convolutional networks, taught what DTI's prototypes were called."""
    near = nearest(functional.normalize(torch.from_numpy(gradients(images)["public"]), dim=1), NEIGHBOURS)
    students = {
        CONVNET: once(convolutional(images, TEACHING, folder=folder)),
        CAREFUL: once(convolutional(images, TEACHING, folder=folder, neighbours=near)),
    }
    for count, settings in by_count("mnist"):
        queries = by_transformation(images, dti.settings(count, EPOCHS), DTI_SEEDS[count], folder=folder)
        for setting in settings:
            yield from measure("mnist", queries, students, images, setting)


def by_count(data: str) -> Iterator[tuple[int, list[Setting]]]:
    """The settings of a data set, those that ask the same queries together."""
    for count in dict.fromkeys(setting.s for setting in SETTINGS[data]):
        yield count, [setting for setting in SETTINGS[data] if setting.s == count]


def main() -> None:
    parser = argparse.ArgumentParser(description="The paper's split with the paper's clusterings, on a CPU")
    parser.add_argument("data", choices=tuple(SETTINGS))
    parser.add_argument("--convnet", action="store_true", help="MNIST: a network on pixels, minutes per set of labels")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where images, clusterings and networks go")
    given = parser.parse_args()
    if given.convnet and given.data != "mnist":
        parser.error("--convnet is for mnist")
    images = load_arrays(given.data, Rule.PAPER, given.runs / f"{given.data}-paper.npz")
    folder, rows = given.runs / "paper-split", []
    for row in convnet_rows(images, folder=folder) if given.convnet else rows_of(given.data, images, folder=folder):
        rows.append(row)
        shown = "  ".join(f"{key} {np.mean(row[key]):.4f}" for key in ("label_accuracy", "test_accuracy"))
        told = f"{row['queries']:8s} {row['student']:14s} {row['setting']:30s} {shown}"
        print(f"{told}  without privacy {row['nonprivate_accuracy']:.4f}, purity {row['purity']:.4f}", flush=True)
    out = HERE / "results" / "paper_split.json"
    others = json.loads(out.read_text()) if out.exists() else []
    every = [row for row in others if row["command"] != rows[0]["command"]] + rows
    out.write_text(json.dumps(sorted(every, key=itemgetter("command")), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
