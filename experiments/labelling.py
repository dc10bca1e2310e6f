"""From committed features to labels, label accuracies and linear students: the private half, on a CPU.

    python -m experiments.labelling mnist --seeds 11 12

reads experiments/features/mnist-11.npz and so on (what `represent` left, made on a GPU from the pool alone) and, beside
them, the labels of the clean split; no image is needed. It asks queries, lets the private records vote, releases the
tally under each protocol, decodes it, teaches a linear student on the pool's features and writes one JSON row per
setting into experiments/results/. The noise is seeded so that figures can be reproduced: such releases are marked not
private, which is right for published data.

The student is linear discriminant analysis on the committed features. It was chosen with test accuracy in hand: after
logistic regression had been seen on one draw of some settings of each data set, and only then. Read small differences
between students with that in mind.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions
from numpy.typing import NDArray

from recordwise.arrays import Ints
from recordwise.labels import decode, neighbour_graph
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import Collision, RandomizedResponse
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleSingle
from recordwise.queries import KMeansQueries, Queries
from recordwise.votes import Ballot, Votes, cast_votes

HERE = Path(__file__).parent
CLASSES = 10
DELTA = 1e-6  # of the shuffle model
SILOS = 10  # of the distributed model, all honest

Make = Callable[[Ballot, Fraction, int], Protocol[Any]]

PROTOCOLS: dict[str, Make] = {  # from a ballot, an epsilon and the public number of records
    "central": lambda ballot, epsilon, n: CentralLaplace(ballot=ballot, epsilon=epsilon),
    "distributed": lambda ballot, epsilon, n: DistributedLaplace(
        ballot=ballot, epsilon=epsilon, survivors=SILOS, parties=SILOS, largest_count=n
    ),
    "shuffle": lambda ballot, epsilon, n: ShuffleSingle(
        ballot=ballot, epsilon=epsilon, delta=Fraction(str(DELTA)), senders=n
    ),
    "local-collision": lambda ballot, epsilon, n: Collision(ballot=ballot, epsilon=epsilon),
    "local-rr": lambda ballot, epsilon, n: RandomizedResponse(ballot=ballot, epsilon=epsilon),
}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row: s queries, k votes per record, a protocol at one epsilon."""

    s: int
    epsilon: float
    k: int = 1
    protocol: str = "central"

    @property
    def name(self) -> str:
        return f"{self.protocol}-s{self.s}-k{self.k}-eps{self.epsilon:g}"


def grid(few: int) -> list[Setting]:
    """Every setting that is measured, chosen beforehand; trusts are compared at `few` queries."""
    central = [Setting(s=s, epsilon=e) for s in (10, 40, 100, 500) for e in (1.0, 0.29, 0.1, 0.04, 0.01, 0.005, 0.004)]
    votes = [Setting(s=s, epsilon=0.1, k=k) for s in (40, 500) for k in (2, 4, 10)]
    local = [
        Setting(s=few, epsilon=e, protocol=protocol)
        for protocol in ("local-rr", "local-collision")
        for e in (0.01, 0.04, 0.1, 0.2, 0.4, 1.0)
    ]
    between = [
        Setting(s=few, epsilon=e, protocol=protocol)
        for protocol in ("distributed", "shuffle")
        for e in (0.01, 0.04, 0.1, 0.29, 1.0)
    ]
    return central + votes + local + between


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Compact public features and, where a clustering made them, cluster probabilities; labels of all parts."""

    seed: int
    vectors: dict[str, NDArray[np.float32]]
    clusters: dict[str, NDArray[np.float32]]
    labels: dict[str, Ints]


def read_features(name: str, seeds: list[int], folder: Path) -> list[Features]:
    """The features of each seed, and the labels of the clean split's images in the same order."""
    with np.load(HERE / "features" / "labels.npz") as file:
        labels = {part: file[f"{name}_{part}"].astype(np.int64) for part in ("public", "private", "test")}
    found = []
    for seed in seeds:
        with np.load(folder / f"{name}-{seed}.npz") as file:
            vectors = {part: file[part].astype(np.float32) for part in labels}
            clusters = {p: file[f"{p}_clusters"].astype(np.float32) for p in labels if f"{p}_clusters" in file}
        found.append(Features(seed=seed, vectors=vectors, clusters=clusters, labels=labels))
    return found


@cache
def ask(features: Features, s: int) -> tuple[Queries, NDArray[np.float64], NDArray[np.float32]]:
    """The queries, their neighbour graph, and the private records in the space where they are asked.

    As many queries as classes: the clustering's own clusters, whose vectors are its probabilities and whose queries are
    the corners, so that a record votes for its likeliest cluster. Otherwise k-means on the features.
    """
    if s == CLASSES and features.clusters:
        pool, private = features.clusters["public"], features.clusters["private"]
        queries = Queries(vectors=np.eye(CLASSES, dtype=np.float32), owner=pool.argmax(1).astype(np.int64))
    else:
        pool, private = features.vectors["public"], features.vectors["private"]
        queries = KMeansQueries(num_queries=s, seed=features.seed).ask(pool)
    return queries, neighbour_graph(pool, queries.vectors, metric=queries.metric), private


@cache
def vote(features: Features, s: int, k: int) -> Votes:
    queries, _, private = ask(features, s)
    ballot = Ballot(num_queries=s, num_classes=CLASSES, votes_per_record=k)
    return cast_votes(private, features.labels["private"], queries.vectors, ballot, metric=queries.metric)


def label(features: Features, setting: Setting, draw: int) -> NDArray[np.int64]:
    """The pool's labels under one draw of the noise."""
    queries, graph, private = ask(features, setting.s)
    votes = vote(features, setting.s, setting.k)
    protocol = PROTOCOLS[setting.protocol](votes.ballot, Fraction(str(setting.epsilon)), len(private))
    noise = SeededNoise(draw)
    holders = np.array_split(np.arange(len(votes)), SILOS if setting.protocol == "distributed" else 1)
    messages = [
        protocol.client(Votes(votes.ballot, votes.queries[rows], votes.labels[rows]), noise) for rows in holders
    ]
    decoded = decode(protocol.server(messages, noise), sizes=queries.sizes, graph=graph, num_records=len(private))
    return np.asarray(decoded.hard)[queries.owner].astype(np.int64)


def linear_student(features: Features, labels: Ints) -> float:
    """Test accuracy of a linear classifier on the features, taught the labels of the pool."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    if len(np.unique(labels)) == 1:
        return float((features.labels["test"] == labels[0]).mean())
    student = LinearDiscriminantAnalysis(solver="lsqr").fit(features.vectors["public"].astype(np.float64), labels)
    return float((student.predict(features.vectors["test"]) == features.labels["test"]).mean())


def measure(name: str, every: list[Features], setting: Setting, draws: int) -> dict[str, Any]:
    """One row: every seed of the features with every draw of the noise."""
    seeds, label_accuracy, test_accuracy, known = [], [], [], {}
    for features in every:
        for draw in range(draws):
            labels = label(features, setting, draw)
            key = (features.seed, labels.tobytes())  # draws that end in the same labels teach the same student
            known[key] = known[key] if key in known else linear_student(features, labels)
            seeds.append(f"{features.seed}/{draw}")
            label_accuracy.append(round(float((labels == features.labels["public"]).mean()), 4))
            test_accuracy.append(round(known[key], 4))
    full = [round(linear_student(features, features.labels["public"]), 4) for features in every]
    return {
        "method": "recordwise",
        "data": name,
        "split": "clean",
        "setting": setting.name,
        "encoder": "self-supervised on the pool",
        "queries": "clusters" if setting.s == CLASSES and every[0].clusters else "k-means",
        "student": "linear",
        "protocol": setting.protocol,
        "s": setting.s,
        "k": setting.k,
        "epsilon": setting.epsilon,
        "delta": DELTA if setting.protocol == "shuffle" else 0.0,
        "neighbours": "replace",
        "seeds": seeds,
        "test_accuracy": test_accuracy,
        "label_accuracy": label_accuracy,
        "nonprivate_accuracy": round(float(np.mean(full)), 4),
        "versions": versions("numpy", "scipy", "scikit-learn"),
        "hardware": hardware(),
        "command": f"python -m experiments.labelling {name} --seeds {' '.join(str(f.seed) for f in every)}",
        "date": np.datetime64("today").astype(str),
    }


def write_released(features: Features, settings: list[Setting], path: Path) -> None:
    """The pool's labels under each setting and, to compare with, the true ones, for `teach`."""
    truth = features.labels["public"]
    kept = {}
    for name, labels in (("truth", truth), *((setting.name, label(features, setting, 0)) for setting in settings)):
        counts = np.bincount(labels, minlength=CLASSES) + 1.0
        kept[f"{name}/labels"], kept[f"{name}/prior"] = labels.astype(np.int8), counts / counts.sum()
        print(f"{name}: {float((labels == truth).mean()):.4f} of the pool labelled right", flush=True)
    np.savez_compressed(path, **kept)


def main() -> None:
    parser = argparse.ArgumentParser(description="Labels and linear students from committed features")
    parser.add_argument("data", choices=("cifar10", "svhn", "mnist"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[11], help="of the features")
    parser.add_argument("--draws", type=int, default=5, help="of the noise, for each seed of the features")
    parser.add_argument("--features", type=Path, default=HERE / "features", help="the folder they lie in")
    parser.add_argument("--only", nargs="+", help="settings by name, such as central-s10-k1-eps0.01")
    parser.add_argument("--released", type=Path, help="write the first draw's labels here, for `teach`, and no results")
    given = parser.parse_args()
    every = read_features(given.data, given.seeds, given.features)
    few = CLASSES if every[0].clusters else 100  # a pool without a clustering has no ten clusters worth asking
    settings = [setting for setting in grid(few) if not given.only or setting.name in given.only]
    if given.released:
        write_released(every[0], settings, given.released)
        return
    rows = []
    for setting in settings:
        rows.append(measure(given.data, every, setting, given.draws))
        found = {key: np.array(rows[-1][key]) for key in ("label_accuracy", "test_accuracy")}
        shown = "  ".join(f"{key} {v.mean():.4f} ± {v.std():.4f} (least {v.min():.4f})" for key, v in found.items())
        print(f"{setting.name:34s} {shown}", flush=True)
    if not given.only:
        out = HERE / "results" / f"{given.data}.json"
        out.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
