"""Reverse k-NN beside faiss, scikit-learn, PyTorch, a loop over records, and the machine's own SGEMM.

    python -m benchmarks.votes              everything, a few minutes
    python -m benchmarks.votes --quick      a twentieth of the records, nothing written

Everybody gets the same float32 arrays and all cores. Rates are the best of interleaved rounds; peak memory is that of a
fresh process above what it held once the data and the library were loaded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from benchmarks.provenance import Row, row, write
from numpy.typing import NDArray

from recordwise.nearest import Metric, TorchBackend, nearest_queries
from recordwise.nearest.poll import Poll
from recordwise.randomness import seeded

DIM, NUM_QUERIES = 128, 500
ROUNDS = 4
LOOP_RECORDS = 3_000  # the loop is so slow that a few records tell its rate
PACKAGES = ("faiss-cpu", "scikit-learn", "torch")

Floats = NDArray[np.float32]
Contender = Callable[[Floats, Floats, int], object]


def data(num_records: int, dim: int = DIM, num_queries: int = NUM_QUERIES) -> tuple[Floats, Floats]:
    rng = seeded(0, "benchmarks", "votes")
    queries = rng.standard_normal((num_queries, dim), dtype=np.float32)
    return rng.standard_normal((num_records, dim), dtype=np.float32), queries


def ours(records: Floats, queries: Floats, k: int) -> object:
    return nearest_queries(records, queries, k)


def ours_on_torch(records: Floats, queries: Floats, k: int) -> object:
    return nearest_queries(records, queries, k, backend=TorchBackend())


def with_faiss(records: Floats, queries: Floats, k: int) -> object:
    import faiss

    index = faiss.IndexFlatL2(queries.shape[1])
    index.add(queries)
    return index.search(records, k)[1]


def with_scikit_learn(records: Floats, queries: Floats, k: int) -> object:
    from sklearn.neighbors import NearestNeighbors

    return NearestNeighbors(n_neighbors=k, algorithm="brute").fit(queries).kneighbors(records, return_distance=False)


def with_torch(records: Floats, queries: Floats, k: int) -> object:
    import torch

    asked = torch.from_numpy(queries)
    half = (asked**2).sum(1) / 2
    parts = torch.from_numpy(records).split(8192)
    return torch.cat([torch.topk(half - some @ asked.T, k, dim=1, largest=False).indices for some in parts])


def loop(records: Floats, queries: Floats, k: int) -> object:
    """One record after the other, as in scripts written for the paper."""
    few = records[:LOOP_RECORDS]
    return np.array([np.argsort(np.linalg.norm(queries - record, axis=1))[:k] for record in few])


def product(records: Floats, queries: Floats, k: int) -> object:
    """2·n·s·dim operations of SGEMM and nothing else, in pieces that suit it."""
    room = np.empty((8192, len(queries)), dtype=np.float32)
    for start in range(0, len(records), len(room)):
        some = records[start : start + len(room)]
        np.matmul(some, queries.T, out=room[: len(some)])
    return room


CONTENDERS: dict[str, Contender] = {
    "ours": ours,
    "faiss IndexFlatL2": with_faiss,
    "scikit-learn NearestNeighbors": with_scikit_learn,
    "torch matmul + topk": with_torch,
    "ours on torch": ours_on_torch,
    "python loop": loop,
    "SGEMM of the same size": product,
}


def rates(records: Floats, queries: Floats, k: int, names: list[str]) -> dict[str, float]:
    """Records per second of each, rounds interleaved so that a busy minute hits everybody."""
    best: dict[str, float] = dict.fromkeys(names, 0.0)
    for _ in range(ROUNDS):
        for name in names:
            start = time.perf_counter()
            CONTENDERS[name](records, queries, k)
            done = LOOP_RECORDS if name == "python loop" else len(records)
            best[name] = max(best[name], done / (time.perf_counter() - start))
    return best


def square_sgemm(side: int = 4096) -> float:
    """Operations per second of one large square product: the most this machine does."""
    matrix = seeded(0, "square").standard_normal((side, side), dtype=np.float32)
    room, best = np.empty_like(matrix), 0.0
    for _ in range(ROUNDS):
        start = time.perf_counter()
        np.matmul(matrix, matrix, out=room)
        best = max(best, 2 * side**3 / (time.perf_counter() - start))
    return best


def peak_mib(name: str, num_records: int, k: int) -> float:
    """Growth of a fresh process's resident memory while one contender answers."""
    command = [sys.executable, "-m", "benchmarks.votes", "--peak", name, str(num_records), str(k)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_peak(name: str, num_records: int, k: int) -> None:
    records, queries = data(num_records)
    CONTENDERS[name](records[:2000], queries, k)  # load the library
    before = status_mib("VmHWM")
    CONTENDERS[name](records, queries, k)
    print(status_mib("VmHWM") - before)


def against_peers(num_records: int) -> list[Row]:
    records, queries = data(num_records)
    rows = []
    for k in (1, 4):
        rate = rates(records, queries, k, list(CONTENDERS))
        sgemm = rate.pop("SGEMM of the same size")
        square = square_sgemm() / (2 * DIM * NUM_QUERIES)
        memory = {name: peak_mib(name, num_records, k) for name in CONTENDERS}
        mine = rate.pop("ours")
        rows.append(
            row(
                "nearest queries",
                size={"n": num_records, "dim": DIM, "s": NUM_QUERIES, "k": k},
                ours=mine,
                peers=rate,
                unit="records/s",
                packages=PACKAGES,
                of_sgemm_same_size=mine / sgemm,
                of_sgemm_square=mine / square,
                peak_mib=memory,
            )
        )
    return rows


def curves(num_records: int) -> list[Row]:
    """Cost against n, s and k, each beside SGEMM of the same size."""
    rows = []
    sizes = [(num_records // many, NUM_QUERIES, 1) for many in (100, 10, 1)]
    sizes += [(num_records, s, 1) for s in (10, 50, 200, 1000, 2000)]
    sizes += [(num_records, NUM_QUERIES, k) for k in (2, 4, 8, 16)]
    for n, s, k in sizes:
        records, queries = data(n, num_queries=s)
        rate = rates(records, queries, k, ["ours", "SGEMM of the same size"])
        mine = rate.pop("ours")
        rows.append(
            row("cost curve", size={"n": n, "dim": DIM, "s": s, "k": k}, ours=mine, peers=rate, unit="records/s")
        )
    return rows


def real_embeddings() -> list[Row]:
    """MNIST, HOG and PCA: 60,000 real records repeated, 500 centres of the test set as queries."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import PCA

    from recordwise.data.mnist import read_mnist
    from recordwise.encoders.hog import Hog

    train, pool = read_mnist(Path(os.environ["RECORDWISE_DATA"]) / "mnist")
    hog = Hog().fit(pool.samples)
    pca = PCA(DIM, random_state=0).fit(hog.transform(pool.samples))
    records, public = (pca.transform(hog.transform(part.samples)).astype(np.float32) for part in (train, pool))
    queries = MiniBatchKMeans(NUM_QUERIES, n_init=1, random_state=0).fit(public).cluster_centers_.astype(np.float32)
    rows = []
    for k in (1, 4):
        names = ["ours", "faiss IndexFlatL2", "torch matmul + topk", "SGEMM of the same size"]
        rate = rates(np.tile(records, (4, 1)), queries, k, names)
        rows.append(
            row(
                "nearest queries, MNIST HOG + PCA",
                size={"n": 4 * len(records), "dim": DIM, "s": NUM_QUERIES, "k": k},
                ours=rate.pop("ours"),
                peers=rate,
                unit="records/s",
                packages=PACKAGES,
                decided_by_the_rule={str(metric): undecided(records, queries, k, metric) for metric in Metric},
            )
        )
    return rows


def undecided(records: Floats, queries: Floats, k: int, metric: Metric) -> float:
    """The share of records whose scores were too close, and which the exact rule decided."""
    seen, pick = [], Poll.pick

    def counting(self: Any, vectors: Floats, *pairs: Any) -> Any:
        seen.append(len(vectors))
        return pick(self, vectors, *pairs)

    with mock.patch.object(Poll, "pick", counting):
        nearest_queries(records, queries, k, metric=metric)
    return sum(seen) / len(records)


def status_mib(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, num_records, k = arguments.peak
        return print_peak(name, int(num_records), int(k))
    quick = arguments.quick
    rows = against_peers(50_000 if quick else 1_000_000)
    rows += curves(20_000 if quick else 200_000)
    if "RECORDWISE_DATA" in os.environ:
        rows += real_embeddings()
    for one in rows:
        more = {key: one[key] for key in one if key.startswith(("of_sgemm", "peak", "decided"))}
        print(one["name"], one["size"], f"{one['ours']:,.0f} {one['unit']}", one["ratio"], more)
    if not quick:
        print(write("votes", rows))
    return None


if __name__ == "__main__":
    main()
