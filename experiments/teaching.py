"""Teaching from counts: the student that explains the whole release, beside today's and the one taught true labels.

    python -m experiments.teaching                  (an hour on one core)
    python -m experiments.teaching --data adult

Central discrete Laplace, replace-one, one vote per record, k-means queries. *today* is the decoder's labels, taught: on
committed features to linear discriminant analysis (hard labels, as in labelling.py), elsewhere to the default
pipeline's logistic regression (soft labels, weighted by confidence). *new* is `learn_from_counts`. *true* is today's
student taught the pool's true labels. "abstaining" is a generated table, 94 : 6, in which 23 % of the records abstain
because they coincide with a pool row, more of them where the common class lies dense. The method was developed on these
sets, with these accuracies in sight. "sharpened" is the same data with `Sharpened` vectors, and *taught* a logistic
regression that is taught the pool's class probabilities as learnt from counts. budgets.py has digits, and noisy SGD.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from experiments.rows import Row, Setting, result_row
from experiments.scores import measured
from experiments.sources import read_features, sources
from experiments.steps import cast_votes, design_of, run_round
from recordwise import pipeline
from recordwise.arrays import Floats, Ints
from recordwise.data import Rule, load, parts_of
from recordwise.encoders import Sharpened, encode, encoder_from
from recordwise.labels import query_graph
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.students import student_from, teach
from recordwise.votes import NOBODY, Ballot, Votes

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "teaching.json"
FEATURES = ("cifar10", "svhn", "mnist")
EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0)
DRAWS = 3
QUERIES: dict[str, dict[float, tuple[int, ...]]] = {  # by epsilon
    "images": {
        0.01: (40, 100), 0.05: (100,), 0.1: (100, 200, 500), 0.29: (500,), 0.5: (500,),
        1.0: (200, 500, 1000), 2.0: (500,),
    },
    "adult": {e: (50, 100, 400) if e <= 0.1 else (100, 400, 1000) for e in EPSILONS},
    "abstaining": dict.fromkeys(EPSILONS, (50, 200)),
    "sharpened": {0.05: (100,), 0.1: (100, 200), 0.29: (200,), 0.5: (500,), 1.0: (500,), 2.0: (500,)},
}  # fmt: skip
SHARPENED = " sharpened"  # behind a data set's name
TAUGHT = {"name": "linear", "strength": 0.01}  # of a student that is taught what the counts say


@dataclass(frozen=True, kw_only=True, eq=False)
class Bed:
    """Vectors and labels of the three parts; which records abstain. Pool labels are for measuring, and for *true*."""

    pool: NDArray[np.float32]
    records: Floats
    test: Floats
    pool_labels: Ints
    record_labels: Ints
    test_labels: Ints
    abstaining: Ints
    encoder: str
    student: str

    @property
    def num_classes(self) -> int:
        return int(self.pool_labels.max()) + 1


def bed_of(data: str) -> Bed:
    nobody = np.zeros(0, dtype=np.int64)
    if data.endswith(SHARPENED):
        plain = bed_of(data.removesuffix(SHARPENED))
        sharp = Sharpened().fit(plain.pool).transform
        return replace(
            plain,
            pool=sharp(plain.pool),
            records=sharp(plain.records),
            test=sharp(plain.test),
            encoder=f"{plain.encoder} and sharpened",
        )
    if data in FEATURES:
        folder = HERE / "features"
        [source] = [s for s in sources(data, folder) if s.way == "together" and s.rule is Rule.CLEAN]
        features = read_features(source, "all", folder)
        vectors = [features.vectors[part] for part in ("public", "private", "test")]
        labels = [features.labels[part] for part in ("public", "private", "test")]
        return _bed(vectors, labels, nobody, "self-supervised on the pool", "discriminant")
    if data == "adult":
        parts = parts_of(load("adult"), Rule.CLEAN)
        encoder = encoder_from("table", parts.public.samples, seed=0).fit(parts.public.samples)
        three = (parts.public, parts.private, parts.test)
        return _bed(
            [encode(encoder, part.samples) for part in three], [p.labels for p in three], nobody, "table", "linear"
        )
    if data == "digits":
        images, classes = load_digits(return_X_y=True)
        order = seeded(0, "digits").permutation(len(images))
        cut = [order[:600], order[600:1300], order[1300:]]
        return _bed([images[i] / 16 for i in cut], [classes[i] for i in cut], nobody, "pixels", "linear")
    return _abstaining_bed()


def _bed(vectors: list[Any], labels: list[Any], abstaining: Ints, encoder: str, student: str) -> Bed:
    return Bed(
        pool=vectors[0].astype(np.float32), records=vectors[1].astype(np.float32), test=vectors[2].astype(np.float32),
        pool_labels=labels[0], record_labels=labels[1], test_labels=labels[2],
        abstaining=abstaining, encoder=encoder, student=student,
    )  # fmt: skip


def _abstaining_bed() -> Bed:
    """94 : 6 in ten rounded columns; the common class lies denser, so its records more often equal a pool row."""
    rng = seeded(0, "abstaining")
    vectors, labels = [], []
    for size in (30_000, 60_000, 20_000):
        rare = rng.random(size) < 0.06
        x = rng.normal(size=(size, 10)) * np.where(rare[:, None], 1.0, 0.45)
        x[:, :4] += 0.9 * rare[:, None]
        vectors.append(x.round(0) + 0.0)  # no negative zeros: rows are compared by their bytes
        labels.append(rare.astype(np.int64))
    known = {row.tobytes() for row in vectors[0]}
    dense = np.array([row.tobytes() in known for row in vectors[1]])
    some = dense & (rng.random(len(dense)) < 0.23 / dense.mean())
    jitter = [x + rng.normal(size=x.shape) * 0.1 for x in vectors]
    return _bed(jitter, labels, np.flatnonzero(some), "none", "linear")


def taught(bed: Bed, probabilities: Floats, weights: Floats | None = None) -> Any:
    """Today's student of (m, C) labels."""
    if bed.student == "discriminant":
        classes = probabilities.argmax(axis=1)
        return LinearDiscriminantAnalysis(solver="lsqr").fit(bed.pool.astype(np.float64), classes)
    return teach(student_from("linear", seed=0), bed.pool, probabilities, weights=weights)


def full_chances(student: Any, bed: Bed) -> Floats:
    probabilities = np.zeros((len(bed.test), bed.num_classes))
    probabilities[:, np.asarray(student.classes_, dtype=np.int64)] = student.predict_proba(bed.test)
    return probabilities


def measure(data: str, bed: Bed) -> Iterator[Row]:
    true = measured(full_chances(taught(bed, np.eye(bed.num_classes)[bed.pool_labels]), bed), bed.test_labels)
    grid = QUERIES["sharpened" if data.endswith(SHARPENED) else "images" if data in FEATURES else data]
    for s in sorted({s for every in grid.values() for s in every}):
        queries = KMeansQueries(num_queries=s, seed=0).ask(bed.pool)
        graph = query_graph(bed.pool, queries.vectors, metric=queries.metric)
        ballot = Ballot(num_queries=s, num_classes=bed.num_classes)
        votes = cast_votes(bed.records, bed.record_labels, queries, ballot)
        chosen = votes.queries.copy()
        chosen[bed.abstaining] = NOBODY
        votes = Votes(ballot, chosen, votes.labels)
        for epsilon in [e for e in grid if s in grid[e]]:
            today, new, other, label_accuracy, facts = [], [], [], [], []
            protocol = CentralLaplace(ballot=ballot, epsilon=Fraction(str(epsilon)))
            design = design_of(protocol, student="counts", num_records=len(votes))
            for draw in range(DRAWS):
                asked = run_round(queries, votes, design, draw, graph=graph)
                labels, owner = asked.labels, queries.owner
                student = taught(bed, labels.probabilities[owner], labels.confidence[owner])
                if bed.student == "discriminant":
                    student = taught(bed, np.eye(bed.num_classes)[labels.hard][owner])
                today.append(measured(full_chances(student, bed), bed.test_labels))
                learnt = pipeline.teach([asked], bed.pool, bed.pool, design).learnt
                assert learnt is not None
                new.append(measured(learnt.student.predict_proba(bed.test), bed.test_labels))
                if data.endswith(SHARPENED):
                    student = teach(student_from(TAUGHT, seed=0), bed.pool, learnt.probabilities)
                    other.append(measured(full_chances(student, bed), bed.test_labels))
                label_accuracy.append(round(float((learnt.probabilities.argmax(axis=1) == bed.pool_labels).mean()), 4))
                facts.append({"penalty": learnt.penalty, "voting": round(learnt.turnout[0].voting, 2)})
            yield result_row(
                Setting(s=s, epsilon=epsilon),
                data=data.removesuffix(SHARPENED),
                split="generated" if data == "abstaining" else "clean",
                encoder=bed.encoder,
                queries="k-means",
                student="linear, from counts",
                seeds=[f"0/{draw}" for draw in range(DRAWS)],
                test_accuracy=[one["accuracy"] for one in new],
                label_accuracy=label_accuracy,
                nonprivate_accuracy=true["accuracy"],
                versions=versions("numpy", "scipy", "scikit-learn"),
                hardware=hardware(),
                command=f"python -m experiments.teaching --data '{data}'",
                today_accuracy=[one["accuracy"] for one in today],
                calibration_error=[one["calibration_error"] for one in new],
                today_calibration_error=[one["calibration_error"] for one in today],
                **(
                    {
                        "auc": [one["auc"] for one in new],
                        "today_auc": [one["auc"] for one in today],
                        "nonprivate_auc": true["auc"],
                    }
                    if bed.num_classes == 2
                    else {}
                ),
                **({"taught_accuracy": [one["accuracy"] for one in other]} if other else {}),
                penalty=[one["penalty"] for one in facts],
                voting=[one["voting"] for one in facts],
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = ("abstaining", "adult", "svhn", "cifar10", "mnist", *(one + SHARPENED for one in FEATURES))
    parser.add_argument("--data", nargs="+", choices=known, default=known)
    for data in parser.parse_args().data:
        earlier = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        bed = bed_of(data)
        rows = [row for row in earlier if (row["data"], row["encoder"]) != (data.removesuffix(SHARPENED), bed.encoder)]
        for row in measure(data, bed):
            rows.append(row)
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
            shown = {
                key: np.mean(row[key]).round(4) for key in ("today_accuracy", "test_accuracy", "calibration_error")
            }
            print(data, row["setting"], shown, row["nonprivate_accuracy"], row["penalty"], row.get("auc"), flush=True)


if __name__ == "__main__":
    main()
