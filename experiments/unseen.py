"""Data sets that the method was not developed on: labels, counts, noisy SGD and true labels, against epsilon.

    python -m experiments.unseen FOLDER     (twenty minutes on one core)
    python -m experiments.unseen FOLDER --data phoneme --only noisy_sgd

FOLDER holds the files, all public. Four sets were chosen, and first read, when the method was finished. What they
showed then led to one change: the default student tries a small network on top, for which phoneme and diamonds were
looked at. So three more were chosen by name, and first read, after that. All seven were then looked at for one more
change: how far a student is believed within queries. So three more again were chosen by name, and first read, after
that. All ten were looked at for the last changes: the labels' part, a network's share, and how far released shares are
followed; which of these to keep was decided with their test labels in sight, phoneme's, abalone's, segment's,
mammography's, hypothyroid's, supermarket's and diamonds' above all. So another three were chosen by name, and first
read, after that. All but ag_news and diamonds were looked at once more, with digits and letters, when the weights of
the student's parts got a prior and a base: which form to keep was decided with their test labels in sight. So another
three were chosen by name, and first read, after that. All sixteen were looked at when regions became soft, when a
student's odds and theirs were pooled, and when a plan began to take what is usual. So the last three were chosen by
name, and first read, after that.

- mammography.csv and phoneme.csv (from the repository jbrownlee/Datasets), ag_news_test.csv (data/ag_news_csv/test.csv
  of mhjabreel/CharCnn_Keras; of 7,600 news items the title and the text) and diamonds.csv (ggplot2's, in the package
  pydataset 0.2.0; the class is the cut);
- later: winequality-white.csv (the class: quality of at least 7), abalone.csv (the class: the sex), and
  segment-challenge.arff with segment-test.arff (pieces of pictures in seven classes; in weka-datasets.zip), all from
  jbrownlee/Datasets;
- then: banknote_authentication.csv, and hypothyroid.arff and supermarket.arff of weka-datasets.zip, from there, too;
- after those: german.csv (people who ask for credit; the class: a good risk or not) from there, ReutersGrain-train.arff
  with ReutersGrain-test.arff of weka-datasets.zip (news; the class: whether it is about grain), and computers.csv
  (Ecdat's Computers, in pydataset; the class: whether it has a CD drive);
- then pima-indians-diabetes.csv, winequality-red.csv (the class: quality of at least 7) and oil-spill.csv (pieces of
  radar pictures, 4 % of them oil) from jbrownlee/Datasets;
- last: hi.csv and cracker.csv (Ecdat's HI and Cracker, in pydataset; the classes: whether the wife is insured by her
  own work, and the brand that was bought) and breast-cancer-wisconsin.csv from jbrownlee/Datasets.

Rows are shuffled once: 30 % are the pool, 50 % the records, 20 % the test, at most 10,000, 30,000 and 8,000. The
default encoder of each kind. As many queries as "auto" takes when nothing is known of the task but the number of
classes and of records.

*labels* is a linear student of the decoded labels, *counts* the default student, both under pure epsilon, replace-one.
*networks* is the number of draws in which the network joined.
*noisy SGD* is a softmax regression on the same vectors, scaled and of unit length, under (epsilon, 1e-5), add-remove.
*true* is the linear student of the pool's true labels. Five draws of the noise. Two twins tell what limits a row:
*best label accuracy* is how many pool samples have the commonest true label of their query, *noiseless* the student of
counts without noise.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from benchmarks.provenance import hardware, versions

from experiments import beds
from experiments.beds import Same
from experiments.rows import Row, Setting, result_row
from experiments.scores import columns, measured
from experiments.steps import cast_votes
from recordwise.arrays import Floats, Ints
from recordwise.baselines import NoisySGD1
from recordwise.encoders import Scaler, encode, encoder_from
from recordwise.labels import decode, query_graph, voters_at
from recordwise.pipeline import release
from recordwise.planner import look
from recordwise.planner.searching import quickly_found
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.release import Release
from recordwise.protocols.terms import Terms
from recordwise.queries import KMeansQueries, Queries
from recordwise.randomness import seeded
from recordwise.students import Asked, Learnt, class_probabilities, learn_from_counts, student_from, teach
from recordwise.students.from_counts import HIDDEN
from recordwise.votes import NOBODY, Ballot, Votes

RESULTS = Path(__file__).parent / "results" / "unseen.json"
DATA = (
    "mammography", "phoneme", "ag_news", "diamonds", "winequality", "abalone", "segment",
    "banknote_authentication", "hypothyroid", "supermarket", "german", "reuters_grain", "computers",
    "pima-indians-diabetes", "winequality-red", "oil-spill", "hi", "cracker", "breast-cancer-wisconsin",
)  # fmt: skip
ECDAT = {"computers": "cd", "hi": "whi", "cracker": "choice"}  # the column that is the class
EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.0)
DRAWS = 5
WITHOUT_NOISE = Fraction(1000)  # an epsilon under which no cell moves
SHARES, MOST = (0.3, 0.5, 0.2), (10_000, 30_000, 8_000)


@dataclass(frozen=True, eq=False)
class Bed:
    """Vectors and labels of pool, records and test; the pool's labels are for *true*, and for measuring."""

    vectors: tuple[Floats, Floats, Floats]
    labels: tuple[Ints, Ints, Ints]
    encoder: str

    @classmethod
    def of(cls, known: beds.Bed) -> Bed:
        """One of the sets that the method was developed on."""
        return cls(
            (known.pool, known.records, known.test),
            (known.pool_labels, known.record_labels, known.test_labels),
            known.encoder,
        )

    @property
    def num_classes(self) -> int:
        return int(self.labels[0].max()) + 1


def read(name: str, folder: Path) -> tuple[Any, Ints, str]:
    """Samples, labels and the encoder's name."""
    if name == "ag_news":
        with (folder / "ag_news_test.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        texts = np.array([f"{title}. {text}" for _, title, text in rows], dtype=object)
        return texts, np.array([int(label) - 1 for label, _, _ in rows]), "text"
    if name == "diamonds":
        frame = pd.read_csv(folder / "diamonds.csv", index_col=0)
        return frame.drop(columns="cut"), np.unique(frame["cut"], return_inverse=True)[1], "table"
    if name in ("hypothyroid", "supermarket"):
        rows = _arff(folder / f"{name}.arff")
        frame = pd.DataFrame([row[:-1] for row in rows]).replace("?", None)
        frame = frame.apply(lambda column: pd.to_numeric(column) if _numbers(column) else column)
        return frame, np.unique([row[-1] for row in rows], return_inverse=True)[1], "table"
    if name in ("german", "breast-cancer-wisconsin"):
        frame = pd.read_csv(folder / f"{name}.csv", header=None, na_values="?")
        return frame.iloc[:, :-1], np.unique(frame.iloc[:, -1], return_inverse=True)[1], "table"
    if name in ECDAT:
        frame = pd.read_csv(folder / f"{name}.csv", index_col=0).drop(columns="id", errors="ignore")
        return frame.drop(columns=ECDAT[name]), np.unique(frame[ECDAT[name]], return_inverse=True)[1], "table"
    if name == "reuters_grain":
        rows = [row for part in ("train", "test") for row in _arff(folder / f"ReutersGrain-{part}.arff", quote="'")]
        return np.array([text for text, _ in rows], dtype=object), np.array([int(label) for _, label in rows]), "text"
    if name == "segment":
        rows = [row for part in ("challenge", "test") for row in _arff(folder / f"segment-{part}.arff")]
        classes = np.unique([row[-1] for row in rows], return_inverse=True)[1]
        return np.array([row[:-1] for row in rows], dtype=np.float32), classes, "scaler"
    if name in ("winequality", "winequality-red"):
        frame = pd.read_csv(folder / f"{'winequality-white' if name == 'winequality' else name}.csv", header=None)
        return (
            frame.iloc[:, :-1].to_numpy(dtype=np.float32),
            (frame.iloc[:, -1] >= 7).to_numpy(dtype=np.int64),
            "scaler",
        )
    if name == "abalone":
        frame = pd.read_csv(folder / "abalone.csv", header=None)
        return frame.iloc[:, 1:].to_numpy(dtype=np.float32), np.unique(frame[0], return_inverse=True)[1], "scaler"
    frame = pd.read_csv(folder / f"{name}.csv", header=None)
    labels = np.unique(frame.iloc[:, -1].astype(str), return_inverse=True)[1]
    return frame.iloc[:, :-1].to_numpy(dtype=np.float32), labels, "scaler"


def _arff(path: Path, quote: str = '"') -> list[list[str]]:
    """The cells of each row."""
    data = re.split("@data", path.read_text(), maxsplit=1, flags=re.IGNORECASE)[1]
    lines = data.replace("\\n", " ").split("\n")  # the ends of a text's lines are written out
    cells = csv.reader((line for line in lines if line.strip(" %")), quotechar=quote, escapechar="\\")
    return [[cell.strip() for cell in row] for row in cells]


def _numbers(column: Any) -> bool:
    present = column.dropna()
    return len(present) > 0 and bool(pd.to_numeric(present, errors="coerce").notna().all())


def bed_of(name: str, folder: Path) -> Bed:
    samples, labels, encoder_name = read(name, folder)
    order = seeded(0, "unseen", name).permutation(len(labels))
    ends = np.cumsum([round(share * len(order)) for share in SHARES])
    cuts = [order[start:end][:most] for start, end, most in zip((0, *ends), ends, MOST, strict=False)]
    parts = [samples.iloc[cut] if isinstance(samples, pd.DataFrame) else samples[cut] for cut in cuts]
    encoder = encoder_from(encoder_name, parts[0], seed=0).fit(parts[0])
    pool, records, test = (encode(encoder, part) for part in parts)
    return Bed((pool, records, test), (labels[cuts[0]], labels[cuts[1]], labels[cuts[2]]), encoder_name)


def queries_for(epsilon: float, bed: Bed) -> int:
    """As many as "auto" takes."""
    pool, records, _ = bed.vectors
    outlook = look(pool, encoder=Same(), num_classes=bed.num_classes, num_records=len(records))
    return quickly_found(outlook, Terms(epsilon=Fraction(str(epsilon))))


def purity(owner: Ints, labels: Ints) -> float:
    """How many samples have the commonest label of their query."""
    table = np.zeros((owner.max() + 1, labels.max() + 1))
    np.add.at(table, (owner, labels), 1)
    return float(table.max(axis=1).sum() / len(labels))


def unit_length(bed: Bed, *, scale: bool = True) -> tuple[Floats, Floats]:
    """Records and test for noisy SGD: scaled by the pool, then of length one, so that clipping treats all alike.

    Args:
      scale: Not where directions are weighted already.
    """
    scaler = Scaler().fit(bed.vectors[0])
    scaled = [scaler.transform(vectors) if scale else vectors for vectors in bed.vectors[1:]]
    records, test = (vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9) for vectors in scaled)
    return records, test


def noisy_sgd(bed: Bed, epsilon: float, *, scale: bool = True) -> list[dict[str, float]]:
    """What a softmax regression by noisy SGD gives, for each draw."""
    (_, labels, truth), (records, test) = bed.labels, unit_length(bed, scale=scale)
    found = []
    for draw in range(DRAWS):
        rival = NoisySGD1(
            epsilon,
            neighbours="add-remove",
            records={"expected": len(labels)},
            classes=np.arange(bed.num_classes),
            random_state=draw,
        ).fit(records, labels, noise=SeededNoise(draw))
        found.append(measured(class_probabilities(rival, test, bed.num_classes), truth))
    return found


def votes_of(bed: Bed, queries: Queries, ballot: Ballot, abstaining: Ints | None) -> Votes:
    """Of the records, but for those that abstain."""
    votes = cast_votes(bed.vectors[1], bed.labels[1], queries, ballot)
    if abstaining is None:
        return votes
    chosen = votes.queries.copy()
    chosen[abstaining] = NOBODY
    return Votes(ballot, chosen, votes.labels)


def student_of_labels(released: Release, pool: Floats, queries: Queries, graph: Floats, num_votes: int) -> Any:
    """The linear student of one decoded label per query."""
    sizes, num_records = voters_at(released, queries.sizes, num_votes)
    labels = decode(released, sizes=sizes, graph=graph, num_records=num_records)
    weights = labels.leads[queries.owner]
    return teach(student_from("linear", seed=0), pool, labels.probabilities[queries.owner], weights=weights)


def measure(
    name: str,
    bed: Bed,
    epsilon: float,
    command: str,
    earlier: Row | None = None,
    s: int | None = None,
    abstaining: Ints | None = None,
) -> Row:
    """One row; noisy SGD's columns are those of an earlier one, where there is one.

    Args:
      s: Queries; as many as the rule says when None.
      abstaining: Records that do not vote.
    """
    (pool, records, test), (pool_labels, _, truth) = bed.vectors, bed.labels
    true = teach(student_from("linear", seed=0), pool, np.eye(bed.num_classes)[pool_labels])
    best = measured(class_probabilities(true, test, bed.num_classes), truth)
    s = s or queries_for(epsilon, bed)
    queries = KMeansQueries(num_queries=s, seed=0).ask(pool)
    graph = query_graph(pool, queries.vectors)
    ballot = Ballot(num_queries=s, num_classes=bed.num_classes)
    votes = votes_of(bed, queries, ballot, abstaining)
    protocol = CentralLaplace(ballot=ballot, epsilon=Fraction(str(epsilon)))

    def learnt_from(released: Release) -> Learnt:
        asked = Asked(release=released, owner=queries.owner, graph=graph, num_records=len(votes))
        return learn_from_counts(pool, [asked], hidden=HIDDEN)

    exact = learnt_from(release(votes, CentralLaplace(ballot=ballot, epsilon=WITHOUT_NOISE), SeededNoise(0)))
    found: dict[str, list[dict[str, float]]] = {"labels": [], "counts": []}
    label_accuracy, slopes, networks = [], [], 0
    for draw in range(DRAWS):
        released = release(votes, protocol, SeededNoise(draw))
        linear = student_of_labels(released, pool, queries, graph, len(votes))
        learnt = learnt_from(released)
        networks += learnt.student.network is not None
        slopes.append(round(learnt.slope, 2))
        label_accuracy.append(round(float((learnt.probabilities.argmax(axis=1) == pool_labels).mean()), 4))
        found["labels"].append(measured(class_probabilities(linear, test, bed.num_classes), truth))
        found["counts"].append(measured(learnt.student.predict_proba(test), truth))
    others = {key: value for way, every in found.items() for key, value in columns(way, every).items()}
    del others["counts_accuracy"]  # test_accuracy
    if earlier is None:
        others |= columns("noisy_sgd", noisy_sgd(bed, epsilon))
    else:
        others |= {key: value for key, value in earlier.items() if key.startswith("noisy_sgd")}
    return result_row(
        Setting(s=s, epsilon=epsilon),
        data=name,
        split=f"shuffled, {len(pool):,} pool samples, {len(records):,} records, {len(test):,} tests",
        encoder=bed.encoder,
        queries="k-means",
        student=f"from counts, linear or with a network of {HIDDEN} units",
        networks=networks,
        slope=slopes,
        seeds=[f"0/{draw}" for draw in range(DRAWS)],
        test_accuracy=[one["accuracy"] for one in found["counts"]],
        label_accuracy=label_accuracy,
        nonprivate_accuracy=best["accuracy"],
        best_label_accuracy=round(purity(queries.owner, pool_labels), 4),
        noiseless_accuracy=measured(exact.student.predict_proba(test), truth)["accuracy"],
        **others,
        **{f"nonprivate_{key}": value for key, value in best.items() if key != "accuracy"},
        versions=versions("numpy", "scipy", "scikit-learn"),
        hardware=hardware(),
        command=command,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--only", choices=("noisy_sgd", "ours"), help="measure these columns of the rows again")
    given = parser.parse_args()
    for name in given.data:
        bed = bed_of(name, given.folder)
        if given.only == "noisy_sgd":
            rows = _earlier()
            for row in rows:
                if row["data"] == name:
                    row |= columns(given.only, noisy_sgd(bed, row["epsilon"])) | {"date": date.today().isoformat()}
                    print(name, row["epsilon"], row["noisy_sgd_accuracy"], flush=True)
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
            continue
        rows, before = _earlier(), {}
        if given.only == "ours":
            before = {row["epsilon"]: row for row in rows if row["data"] == name}
        rows = [row for row in rows if row["data"] != name]
        for epsilon in EPSILONS:
            rows.append(measure(name, bed, epsilon, "python -m experiments.unseen FOLDER", before.get(epsilon)))
            rows.sort(key=lambda row: DATA.index(row["data"]))
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
            new = next(row for row in rows if (row["data"], row["epsilon"]) == (name, epsilon))
            means = {key: round(float(np.mean(value)), 3) for key, value in new.items() if _is_measure(key)}
            print(name, new["s"], epsilon, new["networks"], means, flush=True)


def _earlier() -> list[Row]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def _is_measure(key: str) -> bool:
    return key.endswith(("accuracy", "calibration_error", "auc"))


if __name__ == "__main__":
    main()
