"""From committed features to labels, label accuracies and linear students: the private half, on a CPU.

    python -m experiments.labelling mnist

reads experiments/features/mnist-11.npz and so on (what `represent` and `agree` left, made on a GPU from the pool alone)
and, beside them, the labels of the split's images; no image is needed. It asks queries, lets the private records vote,
releases the tally under each protocol, decodes it, teaches a linear student on the pool's features and writes one JSON
row per setting into experiments/results/. The noise is seeded so that figures can be reproduced: such releases are
marked not private, which is right for published data.

The student is linear discriminant analysis on the committed features. It was chosen with test accuracy in hand: after
logistic regression had been seen on one draw of some settings of each data set, and only then. Read small differences
between students with that in mind. Where ten clusters are asked about, the clustering itself is a second student: it
answers with the class that an image's cluster was given.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions
from numpy.typing import NDArray

from experiments.rows import CLASSES, DELTA, Row, Setting, result_row
from experiments.sources import ALL, Features, read_features, sources
from experiments.steps import cast_votes, design_of, run_round
from recordwise.arrays import Ints
from recordwise.data import Rule
from recordwise.labels import query_graph
from recordwise.pipeline import Round
from recordwise.protocols.central import CentralLaplace, CentralMatching
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import Collision, Questions, RandomizedResponse
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleSingle
from recordwise.queries import KMeansQueries, Queries
from recordwise.settings import AUTO
from recordwise.votes import Ballot, Votes

HERE = Path(__file__).parent
ENCODERS = {
    "pretrained": "EfficientNet-Lite2 (ImageNet)",
    "with-pretrained": "self-supervised on the pool and EfficientNet-Lite2 (ImageNet)",
}
CLUSTERS, K_MEANS = "clusters", "k-means"  # what queries are
SILOS = 10  # of the distributed model, all honest

Make = Callable[[Ballot, Fraction, int], Protocol[Any]]

PROTOCOLS: dict[str, Make] = {  # from a ballot, an epsilon and the public number of records
    "central": lambda ballot, epsilon, n: CentralLaplace(ballot=ballot, epsilon=epsilon),
    "central-matching": lambda ballot, epsilon, n: CentralMatching(ballot=ballot, epsilon=epsilon),
    "distributed": lambda ballot, epsilon, n: DistributedLaplace(
        ballot=ballot, epsilon=epsilon, survivors=SILOS, parties=SILOS, colluding=0, largest_count=n
    ),
    "shuffle": lambda ballot, epsilon, n: ShuffleSingle(
        ballot=ballot, epsilon=epsilon, delta=Fraction(str(DELTA)), senders=n
    ),
    "local-collision": lambda ballot, epsilon, n: Collision(ballot=ballot, epsilon=epsilon),
    "local-questions": lambda ballot, epsilon, n: Questions(ballot=ballot, epsilon=epsilon),
    "local-rr": lambda ballot, epsilon, n: RandomizedResponse(ballot=ballot, epsilon=epsilon),
}


def headline(features: Features) -> list[Setting]:
    """The settings of the paper's table and, at low epsilon, of those that neighbours must help."""
    few = CLASSES if features.clusters else 100
    return [
        *(Setting(s=500, epsilon=e) for e in (1.0, 0.29, 0.1, 0.04)),
        *(Setting(s=200, epsilon=e) for e in (1.0, 0.29)),
        *(Setting(s=100, epsilon=e) for e in (0.1, 0.01)),
        *(Setting(s=40, epsilon=e) for e in (0.1, 0.04, 0.01)),
        *(Setting(s=few, epsilon=e) for e in (0.01, 0.005, 0.004)),
        *(Setting(s=few, epsilon=0.4, protocol=protocol) for protocol in local_protocols(few)),
        *(Setting(s=few, epsilon=e, protocol="central-matching") for e in (0.01, 0.005, 0.004) if few == CLASSES),
    ]


def local_protocols(s: int) -> tuple[str, ...]:
    """The local protocols; questions in waves only where clusters are asked about."""
    return ("local-rr", "local-collision", *(["local-questions"] if s == CLASSES else []))


def grid(features: Features) -> list[Setting]:
    """Every setting that is measured, chosen beforehand.

    All of it for seeds side by side on the clean split; the headline settings for the rest. Trusts are compared at ten
    clusters; a pool without a clustering has no ten clusters worth asking about.
    """
    if features.source.way != "together" or features.source.rule is Rule.PAPER:
        return list(dict.fromkeys(headline(features)))
    few = CLASSES if features.clusters else 100
    epsilons = (1.0, 0.29, 0.1, 0.04, 0.01, 0.005, 0.004, 0.0025)
    central = [Setting(s=s, epsilon=e) for e in epsilons for s in (10, 40, 100, 200, 500)]
    central += [Setting(s=20, epsilon=e) for e in (1.0, 0.1, 0.01)]
    votes = [Setting(s=s, epsilon=0.1, k=k) for s in (40, 100, 500) for k in (2, 4, 10)]
    matched = [Setting(s=few, epsilon=e, protocol="central-matching") for e in epsilons[3:] if few == CLASSES]
    local = [
        Setting(s=few, epsilon=e, protocol=protocol)
        for protocol in local_protocols(few)
        for e in (0.01, 0.04, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    between = [
        Setting(s=few, epsilon=e, protocol=protocol)
        for protocol in ("distributed", "shuffle")
        for e in (0.01, 0.04, 0.1, 0.29, 1.0)
    ]
    return list(dict.fromkeys(headline(features) + central + votes + matched + local + between))


def queries_of(features: Features, setting: Setting) -> str:
    """As many queries as classes are the clustering's own clusters, where there is one."""
    return CLUSTERS if setting.s == CLASSES and features.clusters else K_MEANS


@cache
def ask(features: Features, s: int) -> tuple[Queries, NDArray[np.float64], NDArray[np.float32]]:
    """The queries, their neighbour graph, and the private records in the space where they are asked.

    As many queries as classes: the clustering's own clusters, as corners of a simplex, so that a record votes for its
    cluster. Otherwise k-means on the features.
    """
    if s == CLASSES and features.clusters:
        corners = np.eye(CLASSES, dtype=np.float32)
        pool, private = corners[features.clusters["public"]], corners[features.clusters["private"]]
        queries = Queries(vectors=corners, owner=features.clusters["public"])
    else:
        pool, private = features.vectors["public"], features.vectors["private"]
        queries = KMeansQueries(num_queries=s, seed=int(features.seed) if features.seed.isdigit() else 0).ask(pool)
    return queries, query_graph(pool, queries.vectors, metric=queries.metric), private


@cache
def vote(features: Features, s: int, k: int) -> Votes:
    queries, _, private = ask(features, s)
    ballot = Ballot(num_queries=s, num_classes=CLASSES, votes_per_record=k)
    return cast_votes(private, features.labels["private"], queries, ballot)


def released(
    queries: Queries, graph: NDArray[np.float64], votes: Votes, setting: Setting, draw: int, decoder: str = AUTO
) -> Ints:
    """The class of each query under one draw of the noise."""
    asked = round_of(queries, graph, votes, setting, draw, decoder)
    return np.asarray(asked.labels.hard).astype(np.int64)


def round_of(
    queries: Queries, graph: NDArray[np.float64], votes: Votes, setting: Setting, draw: int, decoder: str = AUTO
) -> Round:
    """A release and its labels under one draw of the noise."""
    protocol = PROTOCOLS[setting.protocol](votes.ballot, Fraction(str(setting.epsilon)), len(votes))
    design = design_of(protocol, decoder=decoder, num_records=len(votes))
    parties = SILOS if setting.protocol == "distributed" else 1
    return run_round(queries, votes, design, draw, graph=graph, parties=parties)


def answers(features: Features, setting: Setting, draw: int, decoder: str = AUTO) -> Ints:
    """The same for queries that are asked in these features."""
    queries, graph, _ = ask(features, setting.s)
    return released(queries, graph, vote(features, setting.s, setting.k), setting, draw, decoder)


def draws(features: Features, setting: Setting) -> int:
    """Draws of the noise: with few queries a rare draw loses whole classes, and many are needed to see how rare."""
    if setting.s > 2 * CLASSES:
        return 5
    shown = features.source.way == "together" and features.source.rule is Rule.CLEAN
    rare = (0.4,) if setting.protocol.startswith("local") else (0.005, 0.004)
    return 100 if shown and setting.epsilon in rare else 20


def label(features: Features, setting: Setting, draw: int, decoder: str = AUTO) -> Ints:
    """The pool's labels under one draw of the noise."""
    return answers(features, setting, draw, decoder)[ask(features, setting.s)[0].owner]


def linear_student(features: Features, labels: Ints, asked: str = "test") -> Ints:
    """What a linear classifier on the features, taught the labels of the pool, says of a part."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    if len(np.unique(labels)) == 1:
        return np.full(len(features.vectors[asked]), labels[0])
    student = LinearDiscriminantAnalysis(solver="lsqr").fit(features.vectors["public"].astype(np.float64), labels)
    return np.asarray(student.predict(features.vectors[asked]))


def right(found: Ints, wanted: Ints) -> float:
    return round(float((found == wanted).mean()), 4)


def measure(every: list[Features], setting: Setting) -> Iterator[Row]:
    """One row per student: every seed of the features with every draw of the noise."""
    clusters = queries_of(every[0], setting) == CLUSTERS
    seeds, label_accuracy = [], []
    known: dict[tuple[str, bytes], float] = {}
    test_accuracy: dict[str, list[float]] = {"linear": [], **({"clusters": []} if clusters else {})}
    for features in every:
        test = features.labels["test"]
        for draw in range(draws(features, setting)):
            classes = answers(features, setting, draw)
            labels = classes[ask(features, setting.s)[0].owner]
            key = (features.seed, classes.tobytes())  # draws that end in the same labels teach the same student
            known[key] = known[key] if key in known else right(linear_student(features, labels), test)
            seeds.append(f"{features.seed}/{draw}")
            label_accuracy.append(right(labels, features.labels["public"]))
            test_accuracy["linear"].append(known[key])
            if clusters:
                test_accuracy["clusters"].append(right(classes[features.clusters["test"]], test))
    source = every[0].source
    for student, found in test_accuracy.items():
        yield result_row(
            setting,
            data=source.data,
            split=str(source.rule),
            encoder=ENCODERS.get(source.way, "self-supervised on the pool"),
            queries=queries_of(every[0], setting),
            student=student,
            way=source.way or "alone",
            seeds=seeds,
            test_accuracy=found,
            label_accuracy=label_accuracy,
            nonprivate_accuracy=round(float(np.mean([taught_the_truth(f, student) for f in every])), 4),
            versions=versions("numpy", "scipy", "scikit-learn"),
            hardware=hardware(),
            command=f"python -m experiments.labelling {source.data}",
        )


@cache
def taught_the_truth(features: Features, student: str) -> float:
    """Test accuracy without privacy: the pool's true labels, or each cluster's commonest one."""
    public, test = features.labels["public"], features.labels["test"]
    if student == "linear":
        return right(linear_student(features, public), test)
    shared = np.zeros((CLASSES, CLASSES))
    np.add.at(shared, (features.clusters["public"], public), 1)
    return right(shared.argmax(1)[features.clusters["test"]], test)


def write_released(features: Features, settings: list[Setting], path: Path, draw: int) -> None:
    """What the linear student says of the pool under each setting and, to compare with, the true labels, for `teach`.

    The student's own answers are better labels than those it was taught: it has seen all of the pool.
    """
    truth = features.labels["public"]
    kept = {}
    for setting in settings:
        taught = label(features, setting, draw)
        kept[setting.name] = linear_student(features, taught, "public")
        print(f"{setting.name}: {right(taught, truth):.4f} of the pool labelled right, "
              f"{right(kept[setting.name], truth):.4f} after the linear student", flush=True)  # fmt: skip
    parts: dict[str, NDArray[Any]] = {"draw": np.array(draw)}
    for name, labels in (kept | {"truth": truth}).items():
        counts = np.bincount(labels, minlength=CLASSES) + 1.0
        parts[f"{name}/labels"], parts[f"{name}/prior"] = labels.astype(np.int8), counts / counts.sum()
    np.savez_compressed(path, **parts)  # type: ignore[arg-type]


def stems_of(data: str, folder: Path) -> list[str]:
    """What `--stem` may be: the features of all seeds of one way, or of one seed."""
    return [
        stem
        for source in sources(data, folder)
        for stem in (source.stem, *(f"{source.stem}-{seed}" for seed in source.seeds(folder) if seed != ALL))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Labels and linear students from committed features")
    parser.add_argument("data", choices=("cifar10", "svhn", "mnist"))
    parser.add_argument("--features", type=Path, default=HERE / "features", help="the folder they lie in")
    parser.add_argument("--only", nargs="+", help="settings by name, such as central-s10-k1-eps0.01; other rows stay")
    parser.add_argument("--queries", choices=(CLUSTERS, K_MEANS), help="settings that ask these alone; other rows stay")
    parser.add_argument("--released", type=Path, help="write labels for `teach` here, and no results")
    parser.add_argument("--draw", type=int, default=0, help="of the noise, for the labels that --released writes")
    parser.add_argument(
        "--stem",
        help="of the features to go by, such as cifar10-together; all if not given. One of several, such as svhn-12, "
        "is measured, but writes no results: a row has all seeds",
    )
    given = parser.parse_args()
    stems = stems_of(given.data, given.features)
    if not stems:
        parser.error(f"no features of {given.data} in {given.features}")
    if given.stem not in (None, *stems):
        parser.error(f"no features are called {given.stem}; there are {', '.join(stems)}")
    asked = []
    for source in sources(given.data, given.features):
        every = [
            read_features(source, seed, given.features)
            for seed in source.seeds(given.features)
            if given.stem in (None, source.stem, f"{source.stem}-{seed}")
        ]
        if every:
            settings = [setting for setting in grid(every[0]) if given.queries in (None, queries_of(every[0], setting))]
            asked.append((source, every, settings))
        if every and given.released:  # labels are those of the first
            break
    by = ("split", "way", *(["queries"] if given.queries else []), *(["setting"] if given.only else []))
    measured = {setting.name for _, _, settings in asked for setting in settings}
    if unknown := [name for name in given.only or [] if name not in measured]:
        parser.error(f"no such setting is measured: {', '.join(unknown)}")
    for source, every, settings in asked:
        settings = [setting for setting in settings if not given.only or setting.name in given.only]
        if given.released:
            write_released(every[0], settings, given.released, given.draw)
            return
        rows = []
        for setting in settings:
            for row in measure(every, setting):
                rows.append(row)
                found = {key: np.array(row[key]) for key in ("label_accuracy", "test_accuracy")}
                shown = "  ".join(
                    f"{key} {v.mean():.4f} ± {v.std():.4f} (least {v.min():.4f})" for key, v in found.items()
                )
                print(f"{source.rule} {source.stem:23s} {row['student']:8s} {setting.name:32s} {shown}", flush=True)
        if len(every) < len(source.seeds(given.features)):
            continue
        write(HERE / "results" / f"{given.data}.json", rows, by=by)


def write(path: Path, rows: list[Row], *, by: tuple[str, ...]) -> None:
    """In place of earlier rows that are the same by these keys: a killed run has kept what it finished."""

    def identity(row: Row) -> tuple[str, ...]:
        return tuple(row[key] for key in by)

    mine = {identity(row) for row in rows}
    others = [row for row in json.loads(path.read_text()) if identity(row) not in mine]
    keys = ("split", "way", "protocol", "k")
    every = sorted(
        others + rows, key=lambda row: (*(row[key] for key in keys), -row["epsilon"], row["s"], row["student"])
    )
    path.write_text(json.dumps(every, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
