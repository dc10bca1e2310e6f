"""What the planner predicts, beside what was measured; and how good its number of queries is beside all others.

    python -m experiments.planning FOLDER                (three quarters of an hour on one core)
    python -m experiments.planning FOLDER --data letters

FOLDER holds the files of `experiments.unseen`, of which four sets are used; those that are not asked for need no
folder. Central trust, replace-one, one vote per record, k-means queries, the default student. The planner sees the
pool, the number of classes and of records and, for two classes, their shares; and, of the task, the classes of some
samples of the pool, drawn by chance: 200, or ten for each class where that is more. Each prediction is made with
*several* such draws, because what is off is mostly what one of them does not show.

"letters" is generated here: 26 classes of three bell curves each in 16 columns. Every set is measured at two budgets,
with several numbers of queries, and with those that "auto" recommends. A small set's test samples may be several points
harder or easier than its pool by the chance of one split, so digits and the tables of FOLDER are split anew for each
draw (their vectors stay as the first split's pool encoded them), and letters are drawn anew; elsewhere pool and test
are large, and a draw is one of clusters and noise. Digits and segment, of a thousand records, have larger budgets than
the others: below, their runs differ so much that no sweep of this length would tell numbers of queries apart.

"partitions" asks one clustering of the pool at the whole budget, and two at half of it each. "example" is README's own:
there nothing is known of the task, and "auto" guesses.

What was chosen with these measurements in sight: the shapes of tasks (classes that are several clumps each were added
for letters), the third way in which labelled samples are compared, that of numbers of queries about as good the usual
one is taken (with all sets of unseen.py in sight), how near is about as good, how numbers of queries are smoothed, how
low noise must be for two tasks to be enough (for segment), and the width of intervals. No number of the planner is
fitted to them otherwise.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions
from sklearn.datasets import load_digits

from experiments import clinc150, unseen
from experiments.beds import Bed, Same, bed_from, bed_of
from recordwise import PrivateDistiller, pipeline
from recordwise.arrays import Doubles, Ints
from recordwise.labels import query_graph
from recordwise.planner import Outlook, look, predict
from recordwise.planner.planning import in_two
from recordwise.planner.searching import quickly_found
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.terms import Terms
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.students.counts import Asked, learn_from_counts
from recordwise.students.from_counts import HIDDEN
from recordwise.votes import NOBODY, Ballot, Votes, cast_votes

RESULTS = Path(__file__).parent / "results" / "planning.json"
LABELLED, PER_CLASS = 200, 10
PLANS = 2  # for each setting, from other labelled samples
RUNS, MORE_RUNS = 3, dict.fromkeys(("digits", "phoneme", "abalone", "segment", "winequality"), 12)
Sizes = dict[float, tuple[int, ...]]  # numbers of queries, by epsilon
IMAGES: Sizes = {0.01: (40, 100), 0.5: (100, 300)}
TWO_CLASSES: Sizes = {0.1: (8, 20, 50, 100), 1.0: (20, 50, 100, 250)}
SWEEPS: dict[str, Sizes] = {
    "digits": {0.5: (10, 20, 40, 70), 2.0: (20, 40, 70, 130)},
    "abstaining": {0.1: (8, 20, 60), 1.0: (20, 60, 200)},
    "letters": {0.1: (26, 52, 104, 180), 1.0: (52, 104, 200, 400)},
    "clinc150": {0.1: (20, 40, 70, 130), 1.0: (40, 100, 200, 400)},
    "cifar10": IMAGES,
    "svhn": IMAGES,
    "mnist": IMAGES,
    "adult": {0.1: (20, 50, 135, 300), 1.0: (50, 135, 300)},
    "phoneme": TWO_CLASSES,
    "abalone": {0.1: (6, 12, 30, 60), 1.0: (12, 30, 60, 120)},
    "segment": {0.5: (7, 14, 28, 50), 2.0: (14, 28, 50, 90)},
    "winequality": TWO_CLASSES,
}
EXAMPLES = 10
PARTITIONS = {"digits": ((60, 1.0),), "letters": ((104, 1.0),)}


def bed(data: str, folder: Path | None, draw: int = 0) -> Bed:
    if data == "letters":
        return _letters(draw)
    if data == "clinc150":
        vectors, labels = clinc150.read()
        return bed_from([vectors[part] for part in PARTS], [labels[part] for part in PARTS], "text")
    if data not in unseen.DATA:
        return _split_anew(bed_of(data), draw) if data == "digits" else bed_of(data)
    if folder is None:
        raise SystemExit(f"{data} lies in a folder of files: python -m experiments.planning FOLDER")
    found = unseen.bed_of(data, folder)
    return _split_anew(bed_from(found.vectors, found.labels, found.encoder), draw)


PARTS = ("public", "private", "test")


def _split_anew(some: Bed, draw: int) -> Bed:
    """The same samples, dealt out once more."""
    vectors = np.concatenate([some.pool, some.records, some.test])
    labels = np.concatenate([some.pool_labels, some.record_labels, some.test_labels])
    order = np.arange(len(labels)) if draw == 0 else seeded(draw, "planning", "split").permutation(len(labels))
    parts = np.split(order, np.cumsum([len(some.pool), len(some.records)]))
    return bed_from([vectors[part] for part in parts], [labels[part] for part in parts], some.encoder)


def _letters(draw: int) -> Bed:
    """26 classes, each three bell curves around a centre of its own: a hard set for a linear student."""
    rng = seeded(0, "letters")
    centres = 0.45 * rng.normal(size=(26, 1, 16)) + 0.6 * rng.normal(size=(26, 3, 16))
    rng = seeded(draw, "letters", "samples")
    vectors, labels = [], []
    for size in (5_000, 9_500, 4_000):
        classes = rng.integers(26, size=size)
        samples = centres[classes, rng.integers(3, size=size)] + 0.7 * rng.normal(size=(size, 16))
        vectors.append(samples.astype(np.float32))
        labels.append(classes.astype(np.int64))
    return bed_from(vectors, labels, "none")


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


def release(some: Bed, s: int, epsilon: Fraction, draw: int) -> Asked:
    """What is released about one clustering of the pool."""
    ballot = Ballot(num_queries=s, num_classes=some.num_classes)
    queries = KMeansQueries(num_queries=s, seed=draw).ask(some.pool)
    votes = cast_votes(some.records, some.record_labels, queries.vectors, ballot)
    chosen = votes.queries.copy()
    chosen[some.abstaining] = NOBODY
    votes = Votes(ballot, chosen, votes.labels)
    [protocol] = Terms(epsilon=epsilon).protocols(ballot, len(votes))
    told = pipeline.release(votes, protocol, SeededNoise(1_000 + draw))
    graph = query_graph(some.pool, queries.vectors)
    return Asked(release=told, owner=queries.owner, graph=graph, num_records=len(votes))


def run(some: Bed, s: int, epsilon: float, draw: int, partitions: int = 1) -> dict[str, float]:
    """Student and label accuracy of a real run, and whether the student's network joined.

    Args:
      partitions: So many clusterings of the pool, each at a share of the budget.
    """
    share = Fraction(str(epsilon)) / partitions
    asked = [release(some, s, share, draw + 100 * number) for number in range(partitions)]
    learnt = learn_from_counts(some.pool, asked, hidden=HIDDEN)
    return {
        "student": round(float((learnt.student.predict(some.test) == some.test_labels).mean()), 4),
        "labels": round(float((learnt.probabilities.argmax(axis=1) == some.pool_labels).mean()), 4),
        "networks": float(learnt.student.network is not None),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Planned:
    """An outlook, and the number of queries that "auto" takes, by budget; with the CPU seconds of finding it."""

    outlook: Outlook
    recommended: dict[float, int]
    seconds: dict[float, float]

    @classmethod
    def of(cls, data: str, some: Bed, draw: int) -> Planned:
        started = time.process_time()
        outlook = look(some.pool, **setup(some, draw), seed=draw)
        looked = time.process_time() - started
        recommended, seconds = {}, {}
        for epsilon in SWEEPS[data]:
            started = time.process_time()
            recommended[epsilon] = quickly_found(outlook, terms(epsilon))
            seconds[epsilon] = looked + time.process_time() - started
        return cls(outlook=outlook, recommended=recommended, seconds=seconds)


def terms(epsilon: float) -> Terms:
    return Terms(epsilon=Fraction(str(epsilon)))


def sweeps(data: str, folder: Path | None) -> Iterator[dict[str, Any]]:
    """Predicted beside measured at each setting; and the recommended number of queries beside the best."""
    beds = [bed(data, folder, draw) for draw in range(MORE_RUNS.get(data, RUNS))]
    plans = [Planned.of(data, beds[draw], draw) for draw in range(PLANS)]
    for epsilon, sizes in SWEEPS[data].items():
        right = {}
        for s in sorted({*sizes, *(one.recommended[epsilon] for one in plans)}):
            told = [predict(one.outlook, terms(epsilon), num_queries=s) for one in plans]
            runs = [run(some, s, epsilon, draw) for draw, some in enumerate(beds)]
            right[s] = np.array([one["student"] for one in runs])
            yield {
                "kind": "prediction",
                "s": s,
                "epsilon": epsilon,
                "networks": f"{sum(one['networks'] for one in runs):g} of {len(runs)}",
                **_beside("", [one.student_accuracy for one in told], [one["student"] for one in runs]),
                **_beside("label_", [one.label_accuracy for one in told], [one["labels"] for one in runs]),
            }
        yield _beside_the_best(epsilon, right, plans)


def _beside_the_best(epsilon: float, right: dict[int, Doubles], plans: Sequence[Planned]) -> dict[str, Any]:
    """What the recommended numbers of queries lack, and the standard error of that; by draws, which sizes share."""
    chosen = [one.recommended[epsilon] for one in plans]
    best = max(right, key=lambda s: float(right[s].mean()))
    below = right[best] - np.mean([right[s] for s in chosen], axis=0)
    return {
        "kind": "sweep",
        "epsilon": epsilon,
        "recommended": " and ".join(map(str, sorted(set(chosen)))),
        "best": best,
        "best_accuracy": round(float(right[best].mean()), 4),
        "below_best_accuracy": round(float(below.mean()), 4),
        "error_accuracy": round(float(below.std(ddof=1) / np.sqrt(len(below))), 4),
        "tried": " ".join(f"{s}: {100 * each.mean():.1f}" for s, each in right.items()),
        "cpu_seconds": round(float(np.mean([one.seconds[epsilon] for one in plans])), 1),
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


def partitions(data: str, folder: Path | None) -> Iterator[dict[str, Any]]:
    """One partition of the pool at the whole budget, and two at half of it each: as a plan has it, and measured."""
    for s, epsilon in PARTITIONS.get(data, ()):
        some = bed(data, folder)
        outlook = look(some.pool, **setup(some, 0))
        one = predict(outlook, terms(epsilon), num_queries=s)
        for told in (one, in_two(outlook, terms(epsilon), one)):
            runs = [run(some, s, epsilon, draw, told.partitions) for draw in range(2 * RUNS)]
            yield {
                "kind": "partitions",
                "epsilon": epsilon,
                "s": s,
                "partitions": told.partitions,
                "predicted_accuracy": told.student_accuracy.mean,
                "test_accuracy": [one["student"] for one in runs],
                "seeds": [str(draw) for draw in range(len(runs))],
            }


MEASURES = tuple(f"{one}_{of}{what}" for of in ("", "label_") for one, what in (
    ("off", "accuracy"), ("above", "accuracy"), ("inside", "interval"),
))  # fmt: skip


def summaries(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """How far predictions are off, for each set and for the mean over sets."""
    means = []
    for data in SWEEPS:
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


def example(data: str, folder: Path | None) -> Iterator[dict[str, Any]]:
    """README's example, with the number of queries that "auto" takes and with others."""
    if data != "digits":
        return
    images, classes = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    pool, records, test = np.split(order, [600, 1500])
    for asked in ("auto", 45, 60):
        right = []
        for draw in range(EXAMPLES):
            model = PrivateDistiller(epsilon=1.0, encoder="pca", classes=range(10), num_queries=asked)
            model.fit(images[records], classes[records], X_public=images[pool], noise=SeededNoise(draw))
            right.append(round(float(model.score(images[test], classes[test])), 4))
        yield {
            "kind": "example",
            "asked": str(asked),
            "s": len(model.rounds_[0].queries.vectors),
            "epsilon": 1.0,
            "test_accuracy": right,
            "seeds": [str(draw) for draw in range(EXAMPLES)],
        }


KINDS = {"sweep": sweeps, "partitions": partitions, "example": example}
ORDER = ("prediction", "sweep", "partitions", "example")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--data", nargs="+", choices=list(SWEEPS), default=list(SWEEPS))
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS))
    asked = parser.parse_args()
    for data in asked.data:
        for kind in asked.kind:
            found = [{"data": data, **row} for row in KINDS[kind](data, asked.folder)]
            kinds = {row["kind"] for row in found}
            earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
            write([row for row in earlier if row["data"] != data or row["kind"] not in kinds] + found)
            print(*found, sep="\n", flush=True)


def write(rows: Sequence[dict[str, Any]]) -> None:
    """The results file: what was measured, in one order, and a summary of it."""
    order = list(SWEEPS)
    measured = sorted(
        (row for row in rows if row["kind"] != "summary"),
        key=lambda row: (ORDER.index(row["kind"]), order.index(row["data"])),
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
