"""What the planner predicts, beside what was measured; and how good its number of queries is beside all others.

    python -m experiments.planning                  (half an hour on one core)
    python -m experiments.planning --data adult

Central trust, replace-one, one vote per record, k-means queries, the student from counts. The planner sees the pool,
the number of classes and of records and, for two classes, their shares; and, of the task, one of:

- *labelled*: the classes of 200 samples of the pool, drawn by chance;
- *attainable*: how often today's student is right when it is taught the pool's true labels;
- *nothing*: a wide guess.

Measured accuracies are those of teaching.py for the sets it has (`results/teaching.json`); "letters" is generated here:
26 classes of three bell curves each in 16 columns. A sweep measures other numbers of queries than the recommended one,
*clusterings* two of them with other clusters each time.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions

from experiments.teaching import RESULTS as TEACHING
from experiments.teaching import Bed, bed_of
from recordwise import pipeline
from recordwise.arrays import Ints
from recordwise.labels import query_graph
from recordwise.planner import Outlook, look, predict, recommend_queries
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.terms import Terms
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.students.counts import Asked, learn_from_counts
from recordwise.votes import Ballot, cast_votes

RESULTS = Path(__file__).parent / "results" / "planning.json"
LABELLED = 200
DRAWS = 3
KNOWN = ("labelled", "attainable", "nothing")
IMAGES = ((40, 0.01), (100, 0.05), (200, 0.1), (500, 0.5), (500, 1.0))  # (s, epsilon)
PREDICTED: dict[str, tuple[tuple[int, float], ...]] = {
    "digits": ((30, 0.05), (30, 0.1), (60, 0.1), (30, 0.5), (60, 1.0), (60, 2.0)),
    "adult": ((50, 0.01), (50, 0.05), (100, 0.1), (400, 0.1), (100, 1.0), (400, 1.0)),
    "abstaining": ((50, 0.01), (50, 0.1), (200, 1.0)),
    "letters": ((52, 0.1), (104, 0.5), (260, 1.0), (520, 2.0)),
    "cifar10": IMAGES,
    "svhn": IMAGES,
    "mnist": IMAGES,
}
SWEEPS: dict[str, dict[float, tuple[int, ...]]] = {
    "digits": {0.5: (10, 20, 40, 100, 200), 2.0: (10, 20, 40, 100, 200)},
    "letters": {1.0: (52, 104, 260, 520)},
    "adult": {0.1: (50, 100, 400), 1.0: (100, 400, 1000)},
    "svhn": {0.1: (100, 200, 500)},
}
CLUSTERINGS = {"digits": {0.5: (20, 40)}}  # where a sweep found the recommended number a point short


def bed(data: str) -> Bed:
    return _letters() if data == "letters" else bed_of(data)


def _letters() -> Bed:
    """26 classes, each three bell curves around a centre of its own: a hard set for a linear student."""
    rng = seeded(0, "letters")
    centres = 0.45 * rng.normal(size=(26, 1, 16)) + 0.6 * rng.normal(size=(26, 3, 16))
    vectors, labels = [], []
    for size in (5_000, 9_500, 4_000):
        classes = rng.integers(26, size=size)
        samples = centres[classes, rng.integers(3, size=size)] + 0.7 * rng.normal(size=(size, 16))
        vectors.append(samples.astype(np.float32))
        labels.append(classes.astype(np.int64))
    return Bed(
        pool=vectors[0], records=vectors[1], test=vectors[2],
        pool_labels=labels[0], record_labels=labels[1], test_labels=labels[2],
        abstaining=np.zeros(0, dtype=np.int64), encoder="none", student="linear",
    )  # fmt: skip


def attainable(some: Bed) -> float:
    """Test accuracy of a logistic regression on the pool's true labels."""
    from recordwise.students import student_from, teach

    truth = np.eye(some.num_classes)[some.pool_labels]
    taught = teach(student_from("linear", seed=0), some.pool, truth)
    return float((taught.predict(some.test) == some.test_labels).mean())


def setup(some: Bed, known: str) -> dict[str, Any]:
    """What the planner is given."""
    given: dict[str, Any] = {"encoder": Same(), "num_classes": some.num_classes, "num_records": len(some.records)}
    if some.num_classes == 2:
        given["class_shares"] = np.bincount(some.pool_labels) / len(some.pool_labels)
    if known == "labelled":
        labels: Ints = np.full(len(some.pool), -1)
        drawn = seeded(0, "planning", "labelled").choice(len(some.pool), LABELLED, replace=False)
        labels[drawn] = some.pool_labels[drawn]
        given["labels"] = labels
    if known == "attainable":
        given["attainable"] = attainable(some)
    return given


class Same:
    """An encoder that changes nothing: the vectors of a bed are encoded already."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def fit(self, pool: Any, y: object = None) -> Same:
        return self

    def transform(self, samples: Any) -> Any:
        return samples


def measured(some: Bed, s: int, epsilon: float, draws: int = DRAWS, clustering: int = 0) -> dict[str, list[float]]:
    """Student and label accuracy of real runs, all with the same clusters."""
    queries = KMeansQueries(num_queries=s, seed=clustering).ask(some.pool)
    graph = query_graph(some.pool, queries.vectors)
    ballot = Ballot(num_queries=s, num_classes=some.num_classes)
    votes = cast_votes(some.records, some.record_labels, queries.vectors, ballot)
    [protocol] = Terms(epsilon=Fraction(str(epsilon))).protocols(ballot, len(votes))
    found: dict[str, list[float]] = {"student": [], "labels": []}
    for draw in range(draws):
        noise = SeededNoise(draw)
        release = pipeline.release(votes, protocol, noise)
        asked = Asked(release=release, owner=queries.owner, graph=graph, num_records=len(votes))
        learnt = learn_from_counts(some.pool, [asked])
        found["student"].append(round(float((learnt.student.predict(some.test) == some.test_labels).mean()), 4))
        right = learnt.probabilities.argmax(axis=1) == some.pool_labels
        found["labels"].append(round(float(right.mean()), 4))
    return found


def known_measured(data: str, some: Bed, s: int, epsilon: float) -> dict[str, list[float]]:
    """As teaching.py measured it, or measured now."""
    for row in json.loads(TEACHING.read_text()):
        if (row["data"], row["s"], row["epsilon"]) == (data, s, epsilon):
            return {"student": row["test_accuracy"], "labels": row["label_accuracy"]}
    return measured(some, s, epsilon)


def predictions(data: str, some: Bed, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    for known in wanted:
        started = time.process_time()
        outlook: Outlook = look(some.pool, **setup(some, known))
        looked = time.process_time() - started
        for s, epsilon in PREDICTED[data]:
            started = time.process_time()
            predicted = predict(outlook, Terms(epsilon=Fraction(str(epsilon))), num_queries=s)
            seconds = looked + time.process_time() - started
            truth = known_measured(data, some, s, epsilon)
            student, labels = predicted.student_accuracy, predicted.label_accuracy
            yield {
                "kind": "prediction",
                "known": known,
                "s": s,
                "epsilon": epsilon,
                "predicted_accuracy": student.mean,
                "low_accuracy": student.low,
                "high_accuracy": student.high,
                "measured_accuracy": truth["student"],
                "off_accuracy": round(abs(student.mean - float(np.mean(truth["student"]))), 4),
                "predicted_label_accuracy": labels.mean,
                "measured_label_accuracy": truth["labels"],
                "off_label_accuracy": round(abs(labels.mean - float(np.mean(truth["labels"]))), 4),
                "cpu_seconds": round(seconds, 1),
            }


def sweeps(data: str, some: Bed, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    for epsilon, sizes in SWEEPS.get(data, {}).items():
        for known in wanted:
            given = setup(some, known)
            started = time.process_time()
            chosen = recommend_queries(Terms(epsilon=Fraction(str(epsilon))), some.pool, **given)
            seconds = time.process_time() - started
            right = {
                s: round(float(np.mean(known_measured(data, some, s, epsilon)["student"])), 4)
                for s in sorted({*sizes, chosen})
            }
            best = max(right, key=lambda s: right[s])
            yield {
                "kind": "sweep",
                "known": known,
                "epsilon": epsilon,
                "recommended": chosen,
                "recommended_accuracy": right[chosen],
                "best": best,
                "best_accuracy": right[best],
                "below_best_accuracy": round(right[best] - right[chosen], 4),
                "tried": " ".join(f"{s}: {100 * accuracy:.1f}" for s, accuracy in right.items()),
                "cpu_seconds": round(seconds, 1),
            }


def clusterings(data: str, some: Bed, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Two numbers of queries that a sweep sets apart, each with other clusters of the same pool: is it the number?"""
    for epsilon, sizes in CLUSTERINGS.get(data, {}).items():
        for s in sizes:
            found = [float(np.mean(measured(some, s, epsilon, 2, seed)["student"])) for seed in range(5)]
            yield {
                "kind": "clusterings",
                "known": "nothing",
                "epsilon": epsilon,
                "s": s,
                "test_accuracy": [round(one, 4) for one in found],
                "seeds": [str(seed) for seed in range(5)],
            }


def summaries(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """How far predictions are off, for each set and for the mean over sets."""
    for known in KNOWN:
        means = []
        for data in PREDICTED:
            some = [row for row in rows if (row["kind"], row["known"], row["data"]) == ("prediction", known, data)]
            if some:
                off = [row["off_accuracy"] for row in some]
                inside = [
                    row["low_accuracy"] <= np.mean(row["measured_accuracy"]) <= row["high_accuracy"] for row in some
                ]
                means.append((float(np.mean(off)), float(np.mean([row["off_label_accuracy"] for row in some]))))
                yield _summary(data, known, len(some), *means[-1], float(np.mean(inside)))
        if means:
            off_mean, labels_mean = (float(one) for one in np.mean(means, axis=0))
            yield _summary("mean over sets", known, len(means), off_mean, labels_mean, None)


def _summary(data: str, known: str, count: int, off: float, labels: float, inside: float | None) -> dict[str, Any]:
    found = {"data": data, "kind": "summary", "known": known, "settings": count}
    measured = {"off_accuracy": round(off, 4), "off_label_accuracy": round(labels, 4)}
    return {**found, **measured, **({} if inside is None else {"inside_interval": round(inside, 2)})}


KINDS = {"prediction": predictions, "sweep": sweeps, "clusterings": clusterings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(PREDICTED), default=list(PREDICTED))
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--known", nargs="+", choices=KNOWN, default=KNOWN)
    asked = parser.parse_args()
    for data in asked.data:
        some = bed(data)
        for kind, measure in KINDS.items():
            if kind not in asked.kind:
                continue
            earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
            again = {(data, kind, known) for known in asked.known}
            rows = [row for row in earlier if (row["data"], row["kind"], row["known"]) not in again]
            for row in measure(data, some, asked.known):
                rows.append({"data": data, **row})
                print(rows[-1], flush=True)
                write(rows)


def write(rows: Sequence[dict[str, Any]]) -> None:
    """The results file: what was measured, and a summary of it."""
    measured = [row for row in rows if row["kind"] != "summary"]
    about = {
        "command": "python -m experiments.planning",
        "date": date.today().isoformat(),
        "hardware": hardware(),
        "versions": versions("numpy", "scipy", "scikit-learn"),
    }
    kept = [row if "date" in row else {**row, **about} for row in measured]
    kept += [{**row, **about} for row in summaries(measured)]
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
