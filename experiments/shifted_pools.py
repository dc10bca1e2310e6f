"""Pools that differ from the records: do priced connections help?

    python -m experiments.shifted_pools     (five minutes on one core)

*imbalanced*: MNIST, a pool in which every class has 0.6 times the samples of the one before it, asked of records with
equal classes. *foreign*: SVHN's digits, in grey and cut to 28 x 28, asked with a pool of MNIST. HOG and PCA of the
pool. *nearest* is reverse k-NN, *priced* adds prices that balance the pool's votes. Two references are not private,
since one record would move many others' votes: all records are connected together such that the least of the queries'
scores (*max-min*), or their harmonic mean, is large. A query's score is the sum of its records' similarities. A
student from counts in every case. The noise is seeded.
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions

from experiments.later_rounds import Problem
from experiments.rows import Row, Setting, result_row
from experiments.steps import cast_votes
from recordwise.arrays import Floats, Ints
from recordwise.data import Rule, load, parts_of
from recordwise.encoders import encode, encoder_from
from recordwise.labels import query_graph
from recordwise.pipeline import release
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import Queries, first_queries
from recordwise.randomness import seeded
from recordwise.students import Asked, learn_from_counts
from recordwise.votes import Ballot, Votes

RESULTS = Path(__file__).parent / "results" / "shifted_pools.json"
SETTINGS = [(60, 0.1), (200, 1.0)]
SEEDS = [0, 1, 2]
WAYS = ("nearest", "priced", "max-min (not private)", "harmonic mean (not private)")
POOL, RECORDS, TEST = 4_000, 15_000, 5_000
PASSES = 3


def read(shift: str) -> Problem:
    """A data set with an "imbalanced" or a "foreign" pool, or MNIST as it is ("none")."""
    mnist = parts_of(load("mnist"), Rule.CLEAN)
    labels = np.asarray(mnist.public.labels)
    if shift != "foreign":
        chance = (0.6 if shift == "imbalanced" else 1.0) ** labels
        kept = seeded(0, "imbalanced pool").choice(len(labels), POOL, replace=False, p=chance / chance.sum())
        private, test = mnist.private, mnist.test
    else:
        kept = np.arange(POOL)
        svhn = parts_of(load("svhn"), Rule.CLEAN)
        private, test = svhn.private, svhn.test
    pool = np.asarray(mnist.public.samples)[kept]
    encoder = encoder_from("auto", pool, seed=0).fit(pool)
    return Problem(
        encode(encoder, pool),
        encode(encoder, _grey(private.samples[:RECORDS])),
        encode(encoder, _grey(test.samples[:TEST])),
        labels[kept],
        np.asarray(private.labels)[:RECORDS],
        np.asarray(test.labels)[:TEST],
    )


def _grey(images: Any) -> Any:
    """28 x 28 from the middle of coloured images, light on dark like MNIST's; MNIST's own as they are."""
    if np.ndim(images) == 3:
        return np.asarray(images)
    grey = np.asarray(images, dtype=np.float32).mean(axis=3)[:, 2:-2, 2:-2]
    border = np.concatenate([grey[:, 0], grey[:, -1], grey[:, :, 0], grey[:, :, -1]], axis=1).mean(axis=1)
    middle = grey[:, 8:-8, 10:-10].mean(axis=(1, 2))
    return np.where((border > middle)[:, None, None], 255 - grey, grey).astype(np.uint8)


def together(problem: Problem, queries: Queries, ballot: Ballot, power: float) -> Votes:
    """All records connected at once: in turn, each takes the query of largest similarity x score^-power.

    A record adds its similarity to a score; the harmonic mean's slope in a score is its -2nd power, and a high power
    approaches the least score. After the first pass everybody may choose again.
    """
    lengths = (problem.private**2).sum(axis=1)[:, None] + (queries.vectors**2).sum(axis=1)
    squares = np.maximum(lengths - 2 * problem.private @ queries.vectors.T, 0)
    logs = -squares / np.median(squares) / 2
    chosen = np.full(len(logs), -1)
    score = np.full(len(queries), 1e-3)
    for _ in range(PASSES):
        for record in seeded(0, "order").permutation(len(logs)):
            if chosen[record] >= 0:
                score[chosen[record]] -= np.exp(logs[record, chosen[record]])
            chosen[record] = (logs[record] - power * np.log(score)).argmax()
            score[chosen[record]] += np.exp(logs[record, chosen[record]])
    return Votes(ballot, chosen.astype(np.int32)[:, None], problem.private_labels.astype(np.int32)[:, None])


def connected(problem: Problem, way: str, s: int) -> tuple[Queries, Votes]:
    spec = {"name": "kmeans", "balanced": way == "priced"}
    queries = first_queries(spec, problem.pool, num_queries=s, votes_per_record=1, seed=0)
    ballot = Ballot(num_queries=s, num_classes=problem.num_classes)
    if way.startswith(("max-min", "harmonic")):
        return queries, together(problem, queries, ballot, 8.0 if way.startswith("max-min") else 2.0)
    return queries, cast_votes(problem.private, problem.private_labels, queries, ballot)


def measure(shift: str, problem: Problem, s: int, epsilon: float, way: str) -> Row:
    queries, votes = connected(problem, way, s)
    loads: Floats = votes.counts().sum(axis=1)
    graph = query_graph(problem.pool, queries.vectors)
    test: list[float] = []
    label: list[float] = []
    for seed in SEEDS:
        noise = SeededNoise(seed)
        protocol = CentralLaplace(ballot=votes.ballot, epsilon=Fraction(str(epsilon)))
        released = release(votes, protocol, noise)
        asked = Asked(release=released, owner=queries.owner, graph=graph, num_records=len(votes))
        learnt = learn_from_counts(problem.pool, [asked])
        test.append(_right(learnt.student.predict(problem.test), problem.test_labels))
        label.append(_right(learnt.probabilities.argmax(axis=1), problem.pool_labels))
    return result_row(
        Setting(s=s, epsilon=epsilon),
        data=f"{shift} pool",
        split=f"clean, {POOL:,} pool samples and {RECORDS:,} records",
        encoder="hog+pca",
        queries="k-means",
        student="linear, from counts",
        way=way,
        least_load=int(loads.min()),
        seeds=[f"0/{seed}" for seed in SEEDS],
        test_accuracy=test,
        label_accuracy=label,
        nonprivate_accuracy=None,
        versions=versions("numpy", "scipy", "scikit-learn"),
        hardware=hardware(),
        command="python -m experiments.shifted_pools",
    )


def _right(answers: Ints, truth: Ints) -> float:
    return round(float((answers == truth).mean()), 4)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    rows = []
    for shift in ("imbalanced", "foreign"):
        problem = read(shift)
        for s, epsilon in SETTINGS:
            for way in WAYS:
                rows.append(measure(shift, problem, s, epsilon, way))
                print(shift, s, epsilon, way, rows[-1]["least_load"], rows[-1]["test_accuracy"], flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
