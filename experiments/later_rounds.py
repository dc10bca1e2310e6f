"""Where should a second round ask? Six answers, at one total epsilon.

    python -m experiments.later_rounds     (five minutes on one core)

Clean splits; 10,000 pool samples and up to 20,000 private records of each data set; HOG and PCA for images, the table
encoder for Adult; linear student; two rounds at half the budget each, except "one round", which spends all of it at
once. Each round's soft labels are averaged with their confidences as weights, as `PrivateDistiller` does. The noise is
seeded so that the figures can be reproduced.
"""

from __future__ import annotations

import json
import os
import platform
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import versions
from numpy.typing import NDArray

from recordwise.arrays import Ints
from recordwise.data import Rule, load, parts_of
from recordwise.encoders import encode, encoder_from
from recordwise.labels import Labels, decode, neighbour_graph
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import KMeansQueries, Queries, UncertainQueries, Uncertainty
from recordwise.students import class_probabilities, student_from, teach
from recordwise.votes import Ballot, cast_votes
from recordwise.votes.ballot import NOBODY

SEEDS = [0, 1, 2, 3, 4]
SETTINGS = [("mnist", 100, 0.1), ("mnist", 300, 0.3), ("svhn", 200, 0.4), ("adult", 200, 0.2)]
SECOND = (
    "the same clusters",
    "other clusters",
    "the unsure quarter only",
    "smaller where unsure (entropy)",
    "smaller where unsure (margin)",
)
RESULTS = Path(__file__).parent / "results" / "later_rounds.json"


@dataclass(frozen=True, eq=False)
class Problem:
    pool: NDArray[np.float32]
    private: NDArray[np.float32]
    test: NDArray[np.float32]
    truth: Ints
    private_labels: Ints
    test_labels: Ints
    num_classes: int


def read(name: str) -> Problem:
    parts = parts_of(load(name), Rule.CLEAN)
    pool, private = parts.public.samples[:10_000], parts.private.samples[:20_000]
    encoder = encoder_from("auto", pool, seed=0).fit(pool)
    return Problem(
        encode(encoder, pool),
        encode(encoder, private),
        encode(encoder, parts.test.samples),
        np.asarray(parts.public.labels)[:10_000],
        np.asarray(parts.private.labels)[:20_000],
        np.asarray(parts.test.labels),
        len(parts.classes),
    )


def vote(problem: Problem, queries: Queries, epsilon: float, seed: int) -> Labels:
    ballot = Ballot(num_queries=len(queries), num_classes=problem.num_classes)
    protocol = CentralLaplace(ballot=ballot, epsilon=Fraction(str(epsilon)))
    votes = cast_votes(problem.private, problem.private_labels, queries.vectors, ballot, metric=queries.metric)
    noise = SeededNoise(seed)
    release = protocol.server([protocol.client(votes, noise)], noise)
    graph = neighbour_graph(problem.pool, queries.vectors, metric=queries.metric)
    return decode(release, sizes=np.maximum(queries.sizes, 1), graph=graph)


def learn(problem: Problem, rounds: list[tuple[Queries, Labels]]) -> tuple[Any, float, float]:
    """The student, its test accuracy and the pool's label accuracy."""
    probabilities, weights = np.zeros((len(problem.pool), problem.num_classes)), np.zeros(len(problem.pool))
    for queries, labels in rounds:
        weight = np.where(queries.owner == NOBODY, 0.0, labels.confidence[queries.owner])
        probabilities += weight[:, None] * labels.probabilities[queries.owner]
        weights += weight
    probabilities /= weights[:, None]
    student = teach(student_from("linear", seed=0), problem.pool, probabilities, weights=weights)
    accuracy = float((probabilities.argmax(axis=1) == problem.truth).mean())
    return student, float(student.score(problem.test, problem.test_labels)), accuracy


def only_the_unsure(problem: Problem, s: int, seed: int, probabilities: NDArray[np.float64]) -> Queries:
    """Clusters of the quarter of the pool that the student is least sure of: nobody else is asked about."""
    unsure = np.argsort(-Uncertainty.ENTROPY.of(probabilities), kind="stable")[: len(probabilities) // 4]
    queries = KMeansQueries(num_queries=s, seed=seed).ask(problem.pool[unsure])
    owner = np.full(len(probabilities), NOBODY, dtype=np.int64)
    owner[unsure] = queries.owner
    return Queries(vectors=queries.vectors, owner=owner)


def second(problem: Problem, wish: str, first: Queries, seed: int, probabilities: NDArray[np.float64]) -> Queries:
    """The queries of the second round."""
    s = len(first)
    match wish:
        case "the same clusters":
            return first
        case "other clusters":
            return KMeansQueries(num_queries=s, seed=seed).ask(problem.pool)
        case "the unsure quarter only":
            return only_the_unsure(problem, s, seed, probabilities)
        case "smaller where unsure (entropy)":
            return UncertainQueries(num_queries=s, seed=seed).ask(problem.pool, probabilities)
    margin = UncertainQueries(num_queries=s, seed=seed, uncertainty=Uncertainty.MARGIN)
    return margin.ask(problem.pool, probabilities)


def main() -> None:
    rows = []
    for name, s, epsilon in SETTINGS:
        problem = read(name)
        found: dict[str, list[tuple[float, float]]] = {wish: [] for wish in ("one round", *SECOND)}
        for seed in SEEDS:
            first = KMeansQueries(num_queries=s, seed=seed).ask(problem.pool)
            begun = [(first, vote(problem, first, epsilon / 2, seed))]
            probabilities = class_probabilities(learn(problem, begun)[0], problem.pool, problem.num_classes)
            again = 1_000 + seed
            found["one round"].append(learn(problem, [(first, vote(problem, first, epsilon, again))])[1:])
            for wish in SECOND:
                queries = second(problem, wish, first, again, probabilities)
                labels = vote(problem, queries, epsilon / 2, again)
                found[wish].append(learn(problem, [*begun, (queries, labels)])[1:])
        for wish, accuracies in found.items():
            test, label = np.transpose(accuracies)
            print(
                f"{name} s={s} epsilon={epsilon} {wish}: test {test.mean():.4f} labels {label.mean():.4f}", flush=True
            )
            rows.append(
                {
                    "method": "recordwise",
                    "data": name,
                    "split": "clean, 10,000 pool samples and at most 20,000 records",
                    "setting": wish,
                    "encoder": "table" if name == "adult" else "hog+pca",
                    "queries": "k-means",
                    "student": "linear",
                    "protocol": "CentralLaplace",
                    "s": s,
                    "k": 1,
                    "epsilon": epsilon,
                    "delta": 0.0,
                    "neighbours": "replace",
                    "seeds": SEEDS,
                    "test_accuracy": [round(float(value), 4) for value in test],
                    "label_accuracy": [round(float(value), 4) for value in label],
                    "versions": versions(),
                    "hardware": f"{platform.machine()}, {os.cpu_count()} cores",
                    "command": "python -m experiments.later_rounds",
                    "date": time.strftime("%Y-%m-%d", time.gmtime()),
                }
            )
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
