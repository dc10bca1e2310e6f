"""Where k-means starts decides what it finds: samples that were merged, beside starting points that are drawn.

    python -m experiments.starts --vectors cache     (two minutes; the vectors are those of experiments.text)

*merged* is ours; *drawn* is scikit-learn's k-means++, the best of one or of ten starts. *inertia* is the mean squared
distance from the own centre, which needs no label, over that of one drawn start. *best label accuracy*: how many of the
samples have the commonest true label of their cluster. Three seeds.
"""

from __future__ import annotations

import argparse
import json
from datetime import date
from pathlib import Path

import numpy as np
from benchmarks.provenance import hardware, versions
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from experiments.rows import Row
from experiments.text import bed_of
from experiments.unseen import purity
from recordwise.arrays import Ints, Singles
from recordwise.queries import KMeansQueries

RESULTS = Path(__file__).parent / "results" / "starts.json"
SIZES = {"digits": (20, 40, 100), "clinc10": (40, 100), "banking77": (80, 200), "reviews": (40, 100)}
SEEDS, POOL = 3, 600  # of digits


def pool_of(data: str, vectors: Path | None) -> tuple[Singles, Ints]:
    if data == "digits":
        digits = load_digits()
        return digits.data[:POOL].astype(np.float32), digits.target[:POOL]
    bed = bed_of(data, "sentences", vectors)
    return np.asarray(bed.vectors[0], dtype=np.float32), bed.labels[0]


def inertia(pool: Singles, owner: Ints) -> float:
    """The sum of squared distances from the mean of the own cluster."""
    clusters = [pool[owner == one] for one in np.unique(owner)]
    return sum(float(((own - own.mean(axis=0)) ** 2).sum()) for own in clusters)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--vectors", type=Path, help="a folder in which vectors are kept")
    given = parser.parse_args()
    rows: list[Row] = []
    for data, sizes in SIZES.items():
        pool, labels = pool_of(data, given.vectors)
        for s in sizes:
            ways = {
                "drawn": [KMeans(s, n_init=1, random_state=seed).fit_predict(pool) for seed in range(SEEDS)],
                "drawn, the best of ten": [
                    KMeans(s, n_init=10, random_state=seed).fit_predict(pool) for seed in range(SEEDS)
                ],
                "merged": [KMeansQueries(num_queries=s, seed=seed).ask(pool).owner for seed in range(SEEDS)],
            }
            one = float(np.mean([inertia(pool, owner) for owner in ways["drawn"]]))
            for way, owners in ways.items():
                row = {
                    "data": data,
                    "s": s,
                    "starts": way,
                    "inertia": round(float(np.mean([inertia(pool, owner) for owner in owners])) / one, 3),
                    "best_label_accuracy": [round(purity(owner, labels), 4) for owner in owners],
                    "versions": versions("numpy", "scipy", "scikit-learn"),
                    "hardware": hardware(),
                    "command": "python -m experiments.starts",
                    "date": date.today().isoformat(),
                }
                rows.append(row)
                print(data, s, way, row["inertia"], row["best_label_accuracy"], flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
