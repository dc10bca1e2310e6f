"""From committed features to labels, label accuracies and linear students: the private half, on a CPU.

    python -m experiments.labelling cifar10 --seed 11

reads experiments/features/cifar10-11.npz (what `represent` left, made on a GPU from the pool alone) and the data set's
labels, asks queries, lets the private records vote, releases the tally under each protocol, decodes it and writes one
JSON row per setting into experiments/results/. The noise is seeded so that the figures can be reproduced: these
releases are marked not private, which is right for data that is published anyway.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Ints
from recordwise.data import Rule, load, parts_of
from recordwise.labels import decode, neighbour_graph
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.local import Collision, RandomizedResponse
from recordwise.protocols.protocol import Protocol
from recordwise.queries import KMeansQueries, Queries
from recordwise.votes import Ballot, cast_votes

HERE = Path(__file__).parent
CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One row: s queries, k votes per record, a protocol at one epsilon."""

    s: int
    epsilon: float
    k: int = 1
    protocol: type[Protocol[Any]] = CentralLaplace

    @property
    def name(self) -> str:
        return f"{self.protocol.__name__}-s{self.s}-k{self.k}-eps{self.epsilon:g}"


def grid() -> list[Setting]:
    """Every setting that is measured on every data set; chosen beforehand, the same for all."""
    central = [Setting(s=s, epsilon=e) for s in (10, 40, 100, 500) for e in (1.0, 0.29, 0.1, 0.04, 0.01, 0.005)]
    votes = [Setting(s=s, epsilon=0.1, k=k) for s in (40, 500) for k in (2, 4, 10)]
    local = [
        Setting(s=10, epsilon=e, protocol=protocol)
        for protocol in (RandomizedResponse, Collision)
        for e in (0.01, 0.04, 0.1, 0.2, 0.4, 1.0)
    ]
    return central + votes + local


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Compact public features and, where a clustering made them, cluster probabilities; labels of all parts."""

    vectors: dict[str, NDArray[np.float32]]
    clusters: dict[str, NDArray[np.float32]]
    labels: dict[str, Ints]


def read_features(name: str, path: Path) -> Features:
    parts = parts_of(load(name), Rule.CLEAN)
    labels = {part: np.asarray(getattr(parts, part).labels) for part in ("public", "private", "test")}
    with np.load(path) as file:
        vectors = {part: file[part].astype(np.float32) for part in labels}
        clusters = {part: file[f"{part}_clusters"].astype(np.float32) for part in labels if f"{part}_clusters" in file}
    return Features(vectors=vectors, clusters=clusters, labels=labels)


def ask(features: Features, s: int, seed: int) -> tuple[Queries, NDArray[np.float32], NDArray[np.float32]]:
    """The queries, and the vectors of pool and private records in the space where they are asked.

    As many queries as classes: the clustering's own clusters, whose vectors are its probabilities and whose queries are
    the corners, so that a record votes for its likeliest cluster. Otherwise k-means on the features.
    """
    if s == CLASSES and features.clusters:
        pool, private = features.clusters["public"], features.clusters["private"]
        corners = np.eye(CLASSES, dtype=np.float32)
        return Queries(vectors=corners, owner=pool.argmax(1).astype(np.int64)), pool, private
    pool, private = features.vectors["public"], features.vectors["private"]
    return KMeansQueries(num_queries=s, seed=seed).ask(pool), pool, private


def label(
    features: Features, setting: Setting, *, queries_seed: int, draws: int
) -> tuple[list[NDArray[np.int64]], list[NDArray[np.float64]]]:
    """Labels and class shares of the pool for each draw of the noise."""
    queries, pool, private = ask(features, setting.s, queries_seed)
    ballot = Ballot(num_queries=setting.s, num_classes=CLASSES, votes_per_record=setting.k)
    protocol = setting.protocol(ballot=ballot, epsilon=Fraction(str(setting.epsilon)))  # type: ignore[call-arg]
    votes = cast_votes(private, features.labels["private"], queries.vectors, ballot, metric=queries.metric)
    graph = neighbour_graph(pool, queries.vectors, metric=queries.metric)
    labels, shares = [], []
    for draw in range(draws):
        noise = SeededNoise(draw)
        release = protocol.server([protocol.client(votes, noise)], noise)
        decoded = decode(release, sizes=queries.sizes, graph=graph)
        labels.append(np.asarray(decoded.hard)[queries.owner].astype(np.int64))
        found = np.bincount(labels[-1], minlength=CLASSES) + 1.0
        shares.append(found / found.sum())
    return labels, shares


def linear_student(features: Features, labels: Ints) -> float:
    """Test accuracy of a linear classifier on the features, taught the labels of the pool."""
    from sklearn.linear_model import LogisticRegression

    if len(np.unique(labels)) == 1:
        return float((features.labels["test"] == labels[0]).mean())
    scale = features.vectors["public"].std()
    student = LogisticRegression(C=1.0, max_iter=200).fit(features.vectors["public"] / scale, labels)
    return float((student.predict(features.vectors["test"] / scale) == features.labels["test"]).mean())


def row(
    name: str, setting: Setting, seeds: list[int], accuracy: list[float], test: list[float], full: float
) -> dict[str, Any]:
    return {
        "method": "recordwise",
        "data": name,
        "split": "clean",
        "setting": setting.name,
        "encoder": "self-supervised, pool only",
        "queries": "clusters" if setting.s == CLASSES else "k-means",
        "student": "linear on committed features",
        "protocol": setting.protocol.__name__,
        "s": setting.s,
        "k": setting.k,
        "epsilon": setting.epsilon,
        "delta": 0.0,
        "neighbours": "replace",
        "seeds": seeds,
        "test_accuracy": [round(value, 4) for value in test],
        "label_accuracy": [round(value, 4) for value in accuracy],
        "nonprivate_accuracy": round(full, 4),
        "versions": versions(),
        "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
        "command": "python -m experiments.labelling " + " ".join(sys.argv[1:]),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def versions() -> dict[str, str]:
    import scipy
    import sklearn

    import recordwise

    return {
        "python": platform.python_version(),
        "recordwise": recordwise.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def write_released(features: Features, settings: list[Setting], seed: int, path: Path) -> None:
    """The pool's labels under each setting and, to compare with, the true ones."""
    truth = features.labels["public"]
    kept = {"truth/labels": truth.astype(np.int8), "truth/prior": np.bincount(truth, minlength=CLASSES) / len(truth)}
    for setting in settings:
        labels, shares = label(features, setting, queries_seed=seed, draws=1)
        kept[f"{setting.name}/labels"], kept[f"{setting.name}/prior"] = labels[0].astype(np.int8), shares[0]
        print(f"{setting.name}: {float((labels[0] == truth).mean()):.4f} of the pool labelled right", flush=True)
    np.savez_compressed(path, **kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=("cifar10", "svhn", "mnist"))
    parser.add_argument("--seed", type=int, default=11, help="of the features")
    parser.add_argument("--draws", type=int, default=5, help="of the noise")
    parser.add_argument("--features", type=Path, help="instead of the committed file")
    parser.add_argument("--only", nargs="+", help="settings by name, such as CentralLaplace-s10-k1-eps0.01")
    parser.add_argument(
        "--released", type=Path, help="write the first draw's labels here, to teach networks on, and no results"
    )
    given = parser.parse_args()
    features = read_features(given.data, given.features or HERE / "features" / f"{given.data}-{given.seed}.npz")
    settings = [setting for setting in grid() if not given.only or setting.name in given.only]
    if given.released:
        write_released(features, settings, given.seed, given.released)
        return
    full = linear_student(features, features.labels["public"])
    rows = []
    for setting in settings:
        started = time.time()
        labels, _ = label(features, setting, queries_seed=given.seed, draws=given.draws)
        accuracy = [float((some == features.labels["public"]).mean()) for some in labels]
        test = [linear_student(features, labels[0])]
        rows.append(row(given.data, setting, list(range(given.draws)), accuracy, test, full))
        print(
            f"{setting.name:40s} labels {np.mean(accuracy):.4f} ± {np.std(accuracy):.4f} (least {min(accuracy):.4f})"
            f"  linear {test[0]:.4f}  [{time.time() - started:.1f}s]",
            flush=True,
        )
    out = HERE / "results" / f"{given.data}-{given.seed}.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
