"""What the planner predicts, beside what was measured; and how good its number of queries is beside all others.

    python -m experiments.planning FOLDER                (a quarter of an hour on one core)
    python -m experiments.planning FOLDER --data adult

FOLDER holds the files of `experiments.unseen`, of which four sets are used; those that are not asked for need no
folder. Central trust, replace-one, one vote per record, k-means queries, the default student. The planner sees the
pool, the number of classes and of records and, for two classes, their shares; and, of the task, the classes of some
samples of the pool, drawn by chance: 200, or ten for each class where that is more. Each prediction is made with
*several* such draws, because what is off is mostly what one of them does not show.

"letters" is generated here: 26 classes of three bell curves each in 16 columns. A sweep measures other numbers of
queries than the recommended one, with two clusterings of the pool each. "partitions" asks one clustering of the pool at
the whole budget, and two at half of it each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions

from experiments import clinc150, unseen
from experiments.beds import Bed, bed_of
from recordwise import pipeline
from recordwise.arrays import Floats, Ints
from recordwise.labels import query_graph
from recordwise.planner import Outlook, look, predict, recommend_queries
from recordwise.planner.planning import in_two
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.terms import Terms
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.students.counts import Asked, learn_from_counts
from recordwise.students.from_counts import HIDDEN
from recordwise.votes import NOBODY, Ballot, Votes, cast_votes

RESULTS = Path(__file__).parent / "results" / "planning.json"
LABELLED, PER_CLASS = 200, 10
LABELLINGS = 2
DRAWS = 2
NOBODY_ABSTAINS = np.zeros(0, dtype=np.int64)
IMAGES = ((40, 0.01), (100, 0.5))  # (s, epsilon)
PREDICTED: dict[str, tuple[tuple[int, float], ...]] = {
    "digits": ((30, 0.05), (30, 0.1), (30, 0.5), (60, 1.0)),
    "adult": ((50, 0.05), (100, 0.1), (100, 1.0)),
    "abstaining": ((50, 0.1), (100, 1.0)),
    "letters": ((52, 0.1), (104, 0.5), (260, 1.0)),
    "clinc150": ((40, 0.1), (100, 1.0)),
    "cifar10": IMAGES,
    "svhn": IMAGES,
    "mnist": IMAGES,
    "phoneme": ((22, 0.1), (112, 0.5), (162, 1.0)),
    "abalone": ((17, 0.1), (87, 0.5), (125, 1.0)),
    "segment": ((21, 0.1), (48, 0.5), (69, 1.0)),
    "winequality": ((20, 0.1), (102, 0.5), (146, 1.0)),
}
SWEEPS: dict[str, dict[float, tuple[int, ...]]] = {
    "digits": {0.5: (10, 20, 40, 100, 200)},
    "adult": {0.1: (20, 40, 100)},
    "clinc150": {1.0: (20, 40, 100, 200)},
    "abalone": {0.5: (12, 30, 60, 150)},
    "segment": {1.0: (14, 28, 70, 140)},
    "winequality": {1.0: (20, 40, 100, 200)},
}
PARTITIONS = {"digits": ((60, 1.0),), "letters": ((104, 1.0),)}


def bed(data: str, folder: Path | None) -> Bed:
    if data == "letters":
        return _letters()
    if data == "clinc150":
        vectors, labels = clinc150.read()
        return _bed([vectors[part] for part in PARTS], [labels[part] for part in PARTS], "text")
    if data not in unseen.DATA:
        return bed_of(data)
    if folder is None:
        raise SystemExit(f"{data} lies in a folder of files: python -m experiments.planning FOLDER")
    found = unseen.bed_of(data, folder)
    return _bed(found.vectors, found.labels, found.encoder)


PARTS = ("public", "private", "test")


def _bed(vectors: Sequence[Floats], labels: Sequence[Ints], encoder: str) -> Bed:
    pool, records, test = (np.asarray(part, dtype=np.float32) for part in vectors)
    return Bed(
        pool=pool, records=records, test=test,
        pool_labels=labels[0], record_labels=labels[1], test_labels=labels[2],
        abstaining=NOBODY_ABSTAINS, encoder=encoder,
    )  # fmt: skip


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
    return _bed(vectors, labels, "none")


def setup(some: Bed, labelling: int) -> dict[str, Any]:
    """What the planner is given."""
    given: dict[str, Any] = {"encoder": Same(), "num_classes": some.num_classes, "num_records": len(some.records)}
    if some.num_classes == 2:
        given["class_shares"] = np.bincount(some.pool_labels) / len(some.pool_labels)
    labels: Ints = np.full(len(some.pool), -1)
    known = max(LABELLED, PER_CLASS * some.num_classes)
    drawn = seeded(labelling, "planning", "labelled").choice(len(some.pool), known, replace=False)
    labels[drawn] = some.pool_labels[drawn]
    return {**given, "labels": labels}


class Same:
    """An encoder that changes nothing: the vectors of a bed are encoded already."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def fit(self, pool: Any, y: object = None) -> Same:
        return self

    def transform(self, samples: Any) -> Any:
        return samples


def release(some: Bed, s: int, epsilon: Fraction, clustering: int) -> Iterator[Asked]:
    """One release after another about the same clusters."""
    ballot = Ballot(num_queries=s, num_classes=some.num_classes)
    queries = KMeansQueries(num_queries=s, seed=clustering).ask(some.pool)
    graph = query_graph(some.pool, queries.vectors)
    votes = cast_votes(some.records, some.record_labels, queries.vectors, ballot)
    chosen = votes.queries.copy()
    chosen[some.abstaining] = NOBODY
    votes = Votes(ballot, chosen, votes.labels)
    [protocol] = Terms(epsilon=epsilon).protocols(ballot, len(votes))
    for draw in count():
        told = pipeline.release(votes, protocol, SeededNoise(1_000 * clustering + draw))
        yield Asked(release=told, owner=queries.owner, graph=graph, num_records=len(votes))


def measured(
    some: Bed, s: int, epsilon: float, *, clusterings: Sequence[int] = (0,), partitions: int = 1
) -> dict[str, list[float]]:
    """Student and label accuracy of real runs, and in how many the student's network joined.

    Args:
      partitions: So many clusterings of the pool, each at a share of the budget.
    """
    found: dict[str, list[float]] = {"student": [], "labels": [], "networks": []}
    for clustering in clusterings:
        share = Fraction(str(epsilon)) / partitions
        each = [release(some, s, share, clustering + 100 * part) for part in range(partitions)]
        for asked in islice(zip(*each, strict=True), DRAWS):
            learnt = learn_from_counts(some.pool, asked, hidden=HIDDEN)
            found["student"].append(round(float((learnt.student.predict(some.test) == some.test_labels).mean()), 4))
            right = learnt.probabilities.argmax(axis=1) == some.pool_labels
            found["labels"].append(round(float(right.mean()), 4))
            found["networks"].append(float(learnt.student.network is not None))
    return found


def predictions(data: str, some: Bed) -> Iterator[dict[str, Any]]:
    """What is predicted from each draw of labelled samples."""
    cells = PREDICTED[data]
    told: dict[tuple[int, float], list[Any]] = {cell: [] for cell in cells}
    seconds = dict.fromkeys(cells, 0.0)
    for labelling in range(LABELLINGS):
        started = time.process_time()
        outlook: Outlook = look(some.pool, **setup(some, labelling))
        looked = time.process_time() - started
        for s, epsilon in cells:
            started = time.process_time()
            told[s, epsilon].append(predict(outlook, Terms(epsilon=Fraction(str(epsilon))), num_queries=s))
            seconds[s, epsilon] += looked + time.process_time() - started
    for s, epsilon in cells:
        truth = measured(some, s, epsilon)
        student = [one.student_accuracy for one in told[s, epsilon]]
        labels = [one.label_accuracy for one in told[s, epsilon]]
        yield {
            "kind": "prediction",
            "s": s,
            "epsilon": epsilon,
            "labellings": [str(one) for one in range(LABELLINGS)],
            "networks": f"{sum(truth['networks']):g} of {len(truth['networks'])}",
            **_beside("", student, truth["student"]),
            **_beside("label_", labels, truth["labels"]),
            "cpu_seconds": round(seconds[s, epsilon] / LABELLINGS, 1),
        }


def _beside(of: str, told: Sequence[Any], truth: Sequence[float]) -> dict[str, Any]:
    """Predictions beside the mean of what was measured: how far off, and in how many it lay inside the interval."""
    mean = float(np.mean(truth))
    return {
        f"predicted_{of}accuracy": [one.mean for one in told],
        f"low_{of}accuracy": [one.low for one in told],
        f"high_{of}accuracy": [one.high for one in told],
        f"measured_{of}accuracy": list(truth),
        f"off_{of}accuracy": round(float(np.mean([abs(one.mean - mean) for one in told])), 4),
        f"above_{of}accuracy": round(float(np.mean([one.mean - mean for one in told])), 4),
        f"inside_{of}interval": round(float(np.mean([one.low <= mean <= one.high for one in told])), 2),
    }


def sweeps(data: str, some: Bed) -> Iterator[dict[str, Any]]:
    for epsilon, sizes in SWEEPS.get(data, {}).items():
        started = time.process_time()
        chosen = recommend_queries(Terms(epsilon=Fraction(str(epsilon))), some.pool, **setup(some, 0))
        seconds = time.process_time() - started
        right = {
            s: round(float(np.mean(measured(some, s, epsilon, clusterings=(0, 1))["student"])), 4)
            for s in sorted({*sizes, chosen})
        }
        best = max(right, key=lambda s: right[s])
        yield {
            "kind": "sweep",
            "epsilon": epsilon,
            "recommended": chosen,
            "recommended_accuracy": right[chosen],
            "best": best,
            "best_accuracy": right[best],
            "below_best_accuracy": round(right[best] - right[chosen], 4),
            "tried": " ".join(f"{s}: {100 * accuracy:.1f}" for s, accuracy in right.items()),
            "cpu_seconds": round(seconds, 1),
        }


def partitions(data: str, some: Bed) -> Iterator[dict[str, Any]]:
    """One partition of the pool at the whole budget, and two at half of it each: as a plan has it, and measured."""
    for s, epsilon in PARTITIONS.get(data, ()):
        terms = Terms(epsilon=Fraction(str(epsilon)))
        outlook = look(some.pool, **setup(some, 0))
        one = predict(outlook, terms, num_queries=s)
        for told in (one, in_two(outlook, terms, one)):
            found = measured(some, s, epsilon, clusterings=(0, 1, 2), partitions=told.partitions)
            yield {
                "kind": "partitions",
                "epsilon": epsilon,
                "s": s,
                "partitions": told.partitions,
                "predicted_accuracy": told.student_accuracy.mean,
                "test_accuracy": found["student"],
                "seeds": [f"{clustering}/{draw}" for clustering in range(3) for draw in range(DRAWS)],
            }


MEASURES = tuple(f"{one}_{of}{what}" for of in ("", "label_") for one, what in (
    ("off", "accuracy"), ("above", "accuracy"), ("inside", "interval"),
))  # fmt: skip


def summaries(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """How far predictions are off, for each set and for the mean over sets."""
    means = []
    for data in PREDICTED:
        some = [row for row in rows if (row["kind"], row["data"]) == ("prediction", data)]
        if some:
            means.append({name: float(np.mean([row[name] for row in some])) for name in MEASURES})
            yield _summary(data, len(some), means[-1])
    if means:
        together = {name: float(np.mean([one[name] for one in means])) for name in MEASURES}
        yield _summary("mean over sets", len(means), together)


def _summary(data: str, settings: int, found: dict[str, float]) -> dict[str, Any]:
    rounded = {name: round(value, 2 if "inside" in name else 4) for name, value in found.items()}
    return {"data": data, "kind": "summary", "settings": settings, **rounded}


KINDS = {"prediction": predictions, "sweep": sweeps, "partitions": partitions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--data", nargs="+", choices=list(PREDICTED), default=list(PREDICTED))
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    asked = parser.parse_args()
    for data in asked.data:
        some = bed(data, asked.folder)
        for kind, measure in KINDS.items():
            if kind not in asked.kind:
                continue
            earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
            rows = [row for row in earlier if (row["data"], row["kind"]) != (data, kind)]
            for row in measure(data, some):
                rows.append({"data": data, **row})
                print(rows[-1], flush=True)
                write(rows)


def write(rows: Sequence[dict[str, Any]]) -> None:
    """The results file: what was measured, in one order, and a summary of it."""
    order = list(PREDICTED)
    measured = sorted(
        (row for row in rows if row["kind"] != "summary"),
        key=lambda row: (list(KINDS).index(row["kind"]), order.index(row["data"])),
    )
    about = {
        "command": "python -m experiments.planning FOLDER",
        "date": date.today().isoformat(),
        "hardware": hardware(),
        "versions": versions("numpy", "scipy", "scikit-learn"),
    }
    kept = [row if "date" in row else {**row, **about} for row in measured]
    kept += [{**row, **about} for row in summaries(measured)]
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
