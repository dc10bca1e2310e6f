"""Silos that hold other classes than each other: what does it change, under every trust model?

    python -m experiments.silos     (four minutes on one core)

MNIST, HOG and PCA, 4,000 pool samples and 15,000 records over 20 silos: *one silo* holds all of them, *alike* deals
them out at random, *unlike* gives each class to silos in shares drawn from a Dirichlet law with all parameters 0.1,
so that most silos hold one or two classes. Every silo makes its own message (and its own share of the noise under
distributed trust), the server sees messages only, and a student learns from the counts. The noise is seeded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions

from experiments.rows import DELTA, Row, Setting, result_row
from experiments.shifted_pools import RECORDS, read
from experiments.steps import cast_votes
from recordwise.arrays import Ints
from recordwise.labels import query_graph
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import Collision
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleSingle
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.students import Asked, learn_from_counts
from recordwise.votes import Ballot, Votes

RESULTS = Path(__file__).parent / "results" / "silos.json"
SILOS, SEEDS = 20, [0, 1, 2, 3, 4]
SPLITS = ("one silo", "alike", "unlike")
PROTOCOLS: dict[str, tuple[int, float, Callable[[Ballot, Fraction, int], Protocol[Any]]]] = {
    "central": (60, 0.2, lambda ballot, epsilon, parties: CentralLaplace(ballot=ballot, epsilon=epsilon)),
    "distributed": (
        60,
        0.2,
        lambda ballot, epsilon, parties: DistributedLaplace(
            ballot=ballot, epsilon=epsilon, survivors=parties, parties=parties, colluding=0, largest_count=RECORDS
        ),
    ),
    "shuffle": (
        30,
        1.0,
        lambda ballot, epsilon, parties: ShuffleSingle(
            ballot=ballot, epsilon=epsilon, delta=Fraction(str(DELTA)), senders=RECORDS
        ),
    ),
    "local-collision": (30, 3.0, lambda ballot, epsilon, parties: Collision(ballot=ballot, epsilon=epsilon)),
}


def silo_of(split: str, labels: Ints, seed: int) -> Ints:
    """(n,) the silo that holds each record."""
    rng = seeded(seed, "silos", split)
    if split == "one silo":
        return np.zeros(len(labels), dtype=np.int64)
    if split == "alike":
        return rng.integers(0, SILOS, len(labels))
    shares = rng.dirichlet(np.full(SILOS, 0.1), size=int(labels.max()) + 1)
    passed = shares[labels].cumsum(axis=1) < rng.random((len(labels), 1))
    return np.asarray(np.minimum(passed.sum(axis=1), SILOS - 1))


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    problem, rows = read("none"), []
    for name, (s, epsilon, make) in PROTOCOLS.items():
        queries = KMeansQueries(num_queries=s, seed=0).ask(problem.pool)
        graph = query_graph(problem.pool, queries.vectors)
        ballot = Ballot(num_queries=s, num_classes=10)
        votes = cast_votes(problem.private, problem.private_labels, queries, ballot)
        for split in SPLITS:
            test, label = [], []
            for seed in SEEDS:
                silo = silo_of(split, problem.private_labels, seed)
                held = [Votes(ballot, votes.queries[silo == one], votes.labels[silo == one]) for one in range(SILOS)]
                parts = held[:1] if split == "one silo" else held
                noise = SeededNoise(seed)
                protocol = make(ballot, Fraction(str(epsilon)), len(parts))
                release = protocol.server([protocol.client(part, noise) for part in parts], noise)
                asked = Asked(release=release, owner=queries.owner, graph=graph, num_records=len(votes))
                learnt = learn_from_counts(problem.pool, [asked])
                test.append(round(float((learnt.student.predict(problem.test) == problem.test_labels).mean()), 4))
                found = learnt.probabilities.argmax(axis=1)
                label.append(round(float((found == problem.pool_labels).mean()), 4))
            rows.append(_row(Setting(s=s, epsilon=epsilon, protocol=name), split, test, label))
            print(name, s, epsilon, split, test, flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


def _row(setting: Setting, split: str, test: list[float], label: list[float]) -> Row:
    return result_row(
        setting,
        data="mnist",
        split=f"clean, {RECORDS:,} records",
        encoder="hog+pca",
        queries="k-means",
        student="linear, from counts",
        silos=split,
        seeds=[f"0/{seed}" for seed in SEEDS],
        test_accuracy=test,
        label_accuracy=label,
        nonprivate_accuracy=None,
        versions=versions("numpy", "scipy", "scikit-learn"),
        hardware=hardware(),
        command="python -m experiments.silos",
    )


if __name__ == "__main__":
    main()
