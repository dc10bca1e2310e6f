"""Which decoder reads the most out of a noisy tally? The evidence behind `decoder="auto"`.

    RECORDWISE_DATA=... python -m experiments.decoding

MNIST (HOG + PCA, pool 5,000, 20,000 private records), Adult (pool 5,000, the rest of the training set private) and
scikit-learn's digits (pool 600, 1,197 private), k = 1, replace-one neighbours. Per seed: a fresh split, k-means queries
and exact votes; per draw: fresh noise. Label accuracy is the share of pool samples whose query got their true class.
`confidence` is how likely auto says a label is to be the commonest class of its query's records, on average, and
`right` how often it is.
The noise is seeded so that the rows can be reproduced: these releases are not private, the data are published anyway.
Writes experiments/results/decoding.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import provenance
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from experiments.smoothing import decode_smoothing
from experiments.steps import cast_votes
from recordwise.arrays import Ints
from recordwise.data import load
from recordwise.encoders import Hog, Pca, Table
from recordwise.labels import Labels, decode, query_graph
from recordwise.labels.facts import Facts
from recordwise.pipeline import release
from recordwise.privacy.noise import Normal, SeededNoise
from recordwise.protocols.central import CentralLaplace, CentralPermuteAndFlip
from recordwise.protocols.release import Release
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.votes import Ballot, Votes

RESULTS = Path(__file__).parent / "results" / "decoding.json"
NO_NOISE = 1000.0  # an epsilon at which the noise is almost surely zero
GRID = {
    "mnist": ((10, 20, 40, 100, 200, 500), (0.004, 0.01, 0.02, 0.04, 0.1, 0.4, NO_NOISE)),
    "adult": ((20, 100, 300, 1000), (0.01, 0.04, 0.1, 0.5, NO_NOISE)),
    "digits": ((10, 20, 40, 100), (0.1, 0.2, 0.5, 2.0, NO_NOISE)),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Bed:
    """One split with its queries: exact counts, public facts, and the pool's true classes to measure with."""

    ballot: Ballot
    votes: Votes
    sizes: Ints
    graph: NDArray[np.float64]
    plain_graph: NDArray[np.float64]
    owner: Ints
    truth: Ints

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        return self.votes.counts()

    def accuracy(self, labels: Ints) -> float:
        return float((labels[self.owner] == self.truth).mean())


Samples = tuple[
    NDArray[np.float32], Ints, NDArray[np.float32], Ints
]  # pool, its classes, private records, their classes


def mnist(seed: int) -> Samples:
    train = load("mnist").train
    labels = np.asarray(train.labels)
    order = seeded(seed, "split").permutation(len(train))
    public, private = order[:5_000], order[5_000:25_000]
    hog = Hog(cell=7).fit(train.samples[public])
    pca = Pca(40).fit(hog.transform(train.samples[public]))
    vectors = [pca.transform(hog.transform(train.samples[part])) for part in (public, private)]
    return vectors[0], labels[public], vectors[1], labels[private]


def adult(seed: int) -> Samples:
    train = load("adult").train
    labels = np.asarray(train.labels)
    order = seeded(seed, "split").permutation(len(train))
    public, private = order[:5_000], order[5_000:]
    table = Table().fit(train.samples[public])
    vectors = [table.transform(train.samples[part]) for part in (public, private)]
    return vectors[0], labels[public], vectors[1], labels[private]


def digits(seed: int) -> Samples:
    images, classes = load_digits(return_X_y=True)
    order = seeded(seed, "split").permutation(len(images))
    public, private = order[:600], order[600:]
    pca = Pca(20).fit(images[public].astype(np.float32))
    vectors = [pca.transform(images[part].astype(np.float32)) for part in (public, private)]
    return vectors[0], classes[public].astype(np.int64), vectors[1], classes[private].astype(np.int64)


DATA: dict[str, Callable[[int], Samples]] = {"mnist": mnist, "adult": adult, "digits": digits}


def beds(name: str, seed: int) -> Iterator[Bed]:
    pool, truth, records, classes = DATA[name](seed)
    for num_queries in GRID[name][0]:
        queries = KMeansQueries(num_queries=num_queries, seed=seed).ask(pool)
        ballot = Ballot(num_queries=num_queries, num_classes=int(truth.max()) + 1)
        yield Bed(
            ballot=ballot,
            votes=cast_votes(records, classes, queries, ballot),
            sizes=queries.sizes,
            graph=query_graph(pool, queries.vectors),
            plain_graph=query_graph(pool, queries.vectors, discount=1.0),
            owner=queries.owner,
            truth=truth,
        )


def releases(bed: Bed, epsilon: float, seed: int) -> dict[str, Release]:
    """The same counts, released as a tally and as choices at the same cost."""
    cost: dict[str, Any] = {"ballot": bed.ballot, "epsilon": Fraction(repr(epsilon))}
    return {
        kind.name: release(bed.votes, kind(**cost), SeededNoise(seed))
        for kind in (CentralLaplace, CentralPermuteAndFlip)
    }


def as_if_normal(released: Release) -> Release:
    """The same tally, its noise mistaken for a normal of equal variance."""
    assert released.tally is not None
    return replace(released.tally, law=Normal(released.tally.law.std + 1e-9))


def methods(bed: Bed) -> dict[str, tuple[str, Callable[[Release], Labels]]]:
    """Name, release and decoder of everything that is compared. "known" facts are public under replace-one."""
    num_records, shares = int(bed.counts.sum()), bed.counts.sum(axis=0) / bed.counts.sum()

    def with_(decoder: str, **facts: object) -> Callable[[Release], Labels]:
        public = {"sizes": bed.sizes, "graph": bed.graph, "num_records": num_records, **facts}
        return lambda released: decode(released, decoder=decoder, **public)  # type: ignore[arg-type]

    def smoothed(graph: NDArray[np.float64]) -> Callable[[Release], Labels]:
        return lambda released: decode_smoothing(released, Facts(sizes=bed.sizes, graph=graph, num_records=num_records))  # type: ignore[arg-type]

    compared = {
        "argmax": ("laplace", with_("argmax")),
        "smoothing": ("laplace", smoothed(bed.graph)),
        "smoothing-plain-graph": ("laplace", smoothed(bed.plain_graph)),
        "field": ("laplace", with_("field")),
        "field-plain-graph": ("laplace", with_("field", graph=bed.plain_graph)),
        "field-as-if-normal": ("laplace", lambda released: with_("field")(as_if_normal(released))),
        "field-n-estimated": ("laplace", with_("field", num_records=None)),
        "field-shares-public": ("laplace", with_("field", class_shares=shares)),
        "auto": ("laplace", with_("auto")),
        "permute-and-flip": ("permute-and-flip", with_("argmax")),
        "permute-and-flip-field": ("permute-and-flip", with_("field")),
    }
    if bed.ballot.num_queries == bed.ballot.num_classes:
        compared["assignment"] = ("laplace", with_("assignment"))
    return compared


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    arguments = parser.parse_args()
    rows = []
    for name in arguments.data:
        measured: dict[tuple[int, float, str], list[float]] = {}
        sure: dict[tuple[int, float], list[tuple[float, float]]] = {}
        for seed in range(arguments.seeds):
            for bed in beds(name, seed):
                for epsilon in GRID[name][1]:
                    for draw in range(arguments.draws if epsilon != NO_NOISE else 1):
                        released = releases(bed, epsilon, 1_000 * seed + draw)
                        for method, (kind, decoder) in methods(bed).items():
                            labels = decoder(released[kind])
                            key = (bed.ballot.num_queries, epsilon, method)
                            measured.setdefault(key, []).append(bed.accuracy(labels.hard))
                            if method == "auto":
                                leading = bed.counts.max(axis=1) == bed.counts[np.arange(len(labels)), labels.hard]
                                sure.setdefault(key[:2], []).append((labels.leads.mean(), leading.mean()))
            print(f"{name}: seed {seed} done", flush=True)
        for (num_queries, epsilon), pairs in sure.items():
            confidence, right = np.mean(pairs, axis=0)
            accuracy = {
                method: {"mean": round(float(np.mean(found)), 4), "spread": round(float(np.std(found, ddof=1)), 4)}
                for (s, e, method), found in measured.items()
                if (s, e) == (num_queries, epsilon)
            }
            rows.append(
                {
                    "data": name,
                    "s": num_queries,
                    "epsilon": None if epsilon == NO_NOISE else epsilon,
                    **accuracy,
                    "confidence": round(float(confidence), 4),
                    "right": round(float(right), 4),
                    "seeds": arguments.seeds,
                    "draws": arguments.draws if epsilon != NO_NOISE else 1,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    made = provenance.row("decoding", size={}, ours=0, peers={}, unit="", packages=("scipy", "scikit-learn"))
    head = {key: made[key] for key in ("versions", "hardware", "command", "date")}
    RESULTS.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
