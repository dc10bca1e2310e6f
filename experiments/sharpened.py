"""Sharpened vectors against vectors as they are: the default student, and noisy SGD in the same vectors.

    python -m experiments.sharpened --data digits letters
    python -m experiments.sharpened --data svhn --ways sharpened --epsilon 0.01 --only others

Queries are as many as "auto" takes (unseen.py), five draws of the noise; the student is the default one, and
*networks* the number of draws in which a network joined. Noisy SGD reads vectors of unit length: scaled before, as in
unseen.py, and *weighted*, where a direction counts by the share of its scatter that lies between clusters.

Nothing was chosen by these rows. The weights were found while queries were asked in weighted vectors, with CIFAR-10's
and SVHN's pool labels and up to five draws of test accuracy in sight.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from benchmarks.provenance import hardware, versions

from experiments import planning
from experiments.collect import merge
from experiments.rows import Row, Setting, result_row
from experiments.scores import measured
from experiments.unseen import DRAWS, Bed, noisy_sgd, purity, queries_for, votes_of
from recordwise.encoders.sharpened import Sharpened
from recordwise.labels import query_graph
from recordwise.pipeline import release
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import KMeansQueries
from recordwise.students import Asked, learn_from_counts
from recordwise.students.from_counts import HIDDEN
from recordwise.votes import Ballot

DATA = ("digits", "letters", "adult", "mnist", "svhn", "cifar10")
PLAIN, SHARPENED = "plain", "sharpened"
OURS, NOISY_SGD, WEIGHTED = "from counts", "noisy SGD", "noisy SGD, weighted"
STUDENTS: dict[str, dict[str, tuple[str, ...]]] = {
    "ours": {PLAIN: (OURS,), SHARPENED: (OURS,)},
    "others": {PLAIN: (NOISY_SGD,), SHARPENED: (NOISY_SGD, WEIGHTED)},
}
LEAST = 0.05  # weight of a direction


def seen(bed: Bed, way: str) -> Bed:
    """The bed's vectors in one of the ways."""
    if way == PLAIN:
        return bed
    encoder = Sharpened().fit(bed.vectors[0])
    pool, records, test = (encoder.transform(vectors) for vectors in bed.vectors)
    return replace(bed, vectors=(pool, records, test), encoder=f"{bed.encoder}, sharpened")


def weighted(bed: Bed) -> Bed:
    """Sharpened vectors whose directions count by how far clusters lie apart along them."""
    scatter = np.var(bed.vectors[0], axis=0, dtype=np.float64)  # of which one lies within clusters
    weight = np.maximum(1 - 1 / np.maximum(scatter, 1.0), LEAST)
    pool, records, test = (np.asarray(vectors * weight, dtype=np.float32) for vectors in bed.vectors)
    return replace(bed, vectors=(pool, records, test))


def ours(bed: Bed, epsilon: float, s: int) -> Row:
    """What the default student makes of each draw, and how pure the queries are."""
    (pool, _, test), (pool_labels, _, truth) = bed.vectors, bed.labels
    queries = KMeansQueries(num_queries=s, seed=0).ask(pool)
    graph = query_graph(pool, queries.vectors)
    ballot = Ballot(num_queries=s, num_classes=bed.num_classes)
    votes = votes_of(bed, queries, ballot, None)
    protocol = CentralLaplace(ballot=ballot, epsilon=Fraction(str(epsilon)))
    tests, labels, networks = [], [], 0
    for draw in range(DRAWS):
        asked = Asked(
            release=release(votes, protocol, SeededNoise(draw)),
            owner=queries.owner,
            graph=graph,
            num_records=len(votes),
        )
        learnt = learn_from_counts(pool, [asked], hidden=HIDDEN)
        networks += learnt.student.network is not None
        tests.append(round(measured(learnt.student.predict_proba(test), truth)["accuracy"], 4))
        labels.append(round(float((learnt.probabilities.argmax(axis=1) == pool_labels).mean()), 4))
    return {
        "test_accuracy": tests,
        "label_accuracy": labels,
        "best_label_accuracy": round(purity(queries.owner, pool_labels), 4),
        "networks": networks,
    }


def theirs(bed: Bed, epsilon: float, student: str) -> Row:
    """Noisy SGD under (epsilon, 1e-5), add-remove."""
    given = noisy_sgd(bed, epsilon) if student == NOISY_SGD else noisy_sgd(weighted(bed), epsilon, scale=False)
    found = [round(one["accuracy"], 4) for one in given]
    other = {"method": "noisy-sgd-1", "neighbours": "add-remove", "delta": 1e-5}
    return {"test_accuracy": found, "label_accuracy": [], **other}


def row_of(name: str, bed: Bed, way: str, student: str, epsilon: float, s: int) -> Row:
    found = ours(bed, epsilon, s) if student == OURS else theirs(bed, epsilon, student)
    return result_row(
        Setting(s=s, epsilon=epsilon),
        data=name,
        split=f"{len(bed.labels[0]):,} pool samples, {len(bed.labels[1]):,} records",
        encoder=bed.encoder,
        queries="k-means",
        student=student,
        way=way,
        seeds=[f"0/{draw}" for draw in range(DRAWS)],
        nonprivate_accuracy=None,
        versions=versions("numpy", "scipy", "scikit-learn"),
        hardware=hardware(),
        command="python -m experiments.sharpened",
        **found,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--ways", nargs="+", choices=(PLAIN, SHARPENED), default=(PLAIN, SHARPENED))
    parser.add_argument("--epsilon", nargs="+", type=float, default=(0.01, 0.1, 1.0))
    parser.add_argument("--queries", type=int, help='as many, and not as "auto" takes')
    parser.add_argument("--only", choices=tuple(STUDENTS), help="our student, or noisy SGD; other rows stay")
    given = parser.parse_args()
    asked = [STUDENTS[given.only]] if given.only else list(STUDENTS.values())
    replaced = partial(merge, "sharpened", keys=("data", "way", "setting", "student"), joined=lambda row, earlier: row)
    for name in given.data:
        plain = Bed.of(planning.bed(name, None))
        for way in given.ways:
            bed = seen(plain, way)
            for epsilon in given.epsilon:
                found = queries_for(epsilon, bed)
                for student in [one for students in asked for one in students[way]]:
                    started = time.process_time()
                    row = row_of(name, bed, way, student, epsilon, given.queries or found if student == OURS else found)
                    replaced([row])
                    spent = time.process_time() - started
                    print(
                        f"{row['setting']}: {name} {way}, {student}: {row['test_accuracy']}, {spent:.0f} s", flush=True
                    )


if __name__ == "__main__":
    main()
