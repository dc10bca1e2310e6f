"""Do later rounds earn their price? One, two and three rounds at one total epsilon, with a student from counts.

    python -m experiments.later_rounds     (ten minutes on one core)

Clean splits; at most 5,000 pool samples and 20,000 private records of each data set; HOG and PCA for SVHN, the table
encoder for Adult, pixels for the 8 x 8 digits of scikit-learn. T rounds get a T-th of the budget each; the student
explains all their tables together. *stopping* asks again only where a rehearsal says that it pays
(`recordwise.students.again`); `spent` is the epsilon of the rounds that were asked. *k = 2* is one round in which every
record votes for its two nearest queries; two rounds of other clusters are what k = 2 would be with a partition of the
pool for each vote. The noise is seeded so that the figures can be reproduced.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from benchmarks.provenance import hardware, versions
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from experiments.rows import Row, Setting, result_row
from experiments.steps import cast_votes
from recordwise.arrays import Ints
from recordwise.data import Rule, load, parts_of
from recordwise.encoders import encode, encoder_from
from recordwise.labels import query_graph
from recordwise.pipeline import release
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import KMeansQueries, Queries, UncertainQueries
from recordwise.randomness import seeded
from recordwise.students import Asked, Learnt, learn_from_counts
from recordwise.students.again import WORTH, PossibleRound, expected_gain
from recordwise.votes import Ballot

SEEDS = [0, 1, 2]
SETTINGS = {
    "digits": [(60, 1.0), (60, 4.0)],
    "adult": [(100, 0.1), (100, 1.0)],
    "svhn": [(100, 0.3), (200, 2.0)],
}
WAYS = {
    "one round": (1, 1, "other clusters"),
    "one round, k = 2": (1, 2, "other clusters"),
    "2 rounds, the same clusters": (2, 1, "the same clusters"),
    "2 rounds, other clusters": (2, 1, "other clusters"),
    "2 rounds, smaller where unsure": (2, 1, "smaller where unsure"),
    "3 rounds, other clusters": (3, 1, "other clusters"),
    "3 rounds, smaller where unsure": (3, 1, "smaller where unsure"),
    "at most 3 rounds, stopping": (3, 1, "smaller where unsure"),
}
STOPPING = "at most 3 rounds, stopping"
RESULTS = Path(__file__).parent / "results" / "later_rounds.json"


@dataclass(frozen=True, eq=False)
class Problem:
    pool: NDArray[np.float32]
    private: NDArray[np.float32]
    test: NDArray[np.float32]
    pool_labels: Ints
    private_labels: Ints
    test_labels: Ints

    @property
    def num_classes(self) -> int:
        return int(self.pool_labels.max()) + 1


def read(name: str) -> Problem:
    if name == "digits":
        images, classes = load_digits(return_X_y=True)
        order = seeded(0, "digits").permutation(len(images))
        cuts = [order[:600], order[600:1300], order[1300:]]
        vectors = [(images[cut] / 16).astype(np.float32) for cut in cuts]
        labels = [classes[cut] for cut in cuts]
    else:
        parts = parts_of(load(name), Rule.CLEAN)
        three = (parts.public, parts.private, parts.test)
        sizes = (5_000, 20_000, 10_000)
        few = parts.public.samples[:5_000]
        encoder = encoder_from("auto", few, seed=0).fit(few)
        vectors = [encode(encoder, part.samples[:size]) for part, size in zip(three, sizes, strict=True)]
        labels = [np.asarray(part.labels)[:size] for part, size in zip(three, sizes, strict=True)]
    (pool, private, test), (pool_labels, private_labels, test_labels) = vectors, labels
    return Problem(pool, private, test, pool_labels, private_labels, test_labels)


def ask(problem: Problem, queries: Queries, epsilon: Fraction, votes_per_record: int, noise: SeededNoise) -> Asked:
    ballot = Ballot(num_queries=len(queries), num_classes=problem.num_classes, votes_per_record=votes_per_record)
    protocol = CentralLaplace(ballot=ballot, epsilon=epsilon)
    votes = cast_votes(problem.private, problem.private_labels, queries, ballot)
    return Asked(
        release=release(votes, protocol, noise),
        owner=queries.owner,
        graph=query_graph(problem.pool, queries.vectors, metric=queries.metric),
        num_records=len(votes),
    )


def distilled(problem: Problem, s: int, epsilon: float, way: str, seed: int) -> tuple[Learnt, int]:
    """The student, and how many rounds were asked for it."""
    rounds, votes_per_record, again = WAYS[way]
    share = Fraction(str(epsilon)) / rounds
    noise = SeededNoise(seed)
    queries = KMeansQueries(num_queries=s, seed=seed).ask(problem.pool)
    asked, plans = [ask(problem, queries, share, votes_per_record, noise)], [planned(problem, queries, share)]
    for number in range(1, rounds):
        following = 1_000 * number + seed
        if again == "other clusters":
            queries = KMeansQueries(num_queries=s, seed=following).ask(problem.pool)
        elif again == "smaller where unsure":
            probabilities = learn_from_counts(problem.pool, asked).student.predict_proba(problem.pool)
            queries = UncertainQueries(num_queries=s, seed=following).ask(problem.pool, probabilities)
        if way == STOPPING:
            plans.append(planned(problem, queries, share))
            if expected_gain(problem.pool, probabilities, plans, num_records=len(problem.private), seed=seed) < WORTH:
                break
        asked.append(ask(problem, queries, share, votes_per_record, noise))
    return learn_from_counts(problem.pool, asked), len(asked)


def planned(problem: Problem, queries: Queries, epsilon: Fraction) -> PossibleRound:
    ballot = Ballot(num_queries=len(queries), num_classes=problem.num_classes)
    graph = query_graph(problem.pool, queries.vectors, metric=queries.metric)
    return PossibleRound(queries=queries, graph=graph, protocol=CentralLaplace(ballot=ballot, epsilon=epsilon))


def measure(name: str, problem: Problem, s: int, epsilon: float, way: str) -> Row:
    test, label, spent = [], [], []
    for seed in SEEDS:
        learnt, asked = distilled(problem, s, epsilon, way, seed)
        spent.append(round(epsilon * asked / WAYS[way][0], 4))
        test.append(round(float((learnt.student.predict(problem.test) == problem.test_labels).mean()), 4))
        label.append(round(float((learnt.probabilities.argmax(axis=1) == problem.pool_labels).mean()), 4))
    return result_row(
        Setting(s=s, epsilon=epsilon, k=WAYS[way][1]),
        data=name,
        split="clean, at most 5,000 pool samples and 20,000 records",
        encoder={"adult": "table", "svhn": "hog+pca"}.get(name, "pixels"),
        queries="k-means",
        student="linear, from counts",
        way=way,
        spent=spent,
        seeds=[str(seed) for seed in SEEDS],
        test_accuracy=test,
        label_accuracy=label,
        nonprivate_accuracy=None,
        versions=versions("numpy", "scipy", "scikit-learn"),
        hardware=hardware(),
        command="python -m experiments.later_rounds",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    given = parser.parse_args()
    order = [(name, s, epsilon, way) for name in SETTINGS for s, epsilon in SETTINGS[name] for way in WAYS]
    for name in given.data:
        problem = read(name)
        earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        rows = [row for row in earlier if not (row["data"] == name and row["way"] in given.ways)]
        for s, epsilon in SETTINGS[name]:
            for way in given.ways:
                rows.append(measure(name, problem, s, epsilon, way))
                print(name, s, epsilon, way, rows[-1]["test_accuracy"], rows[-1]["spent"], flush=True)
        rows.sort(key=lambda row: order.index((row["data"], row["s"], row["epsilon"], row["way"])))
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
