"""What a run's verdict says, beside true labels, which no verdict sees.

    python -m experiments.verdicts               (ten minutes on one core; texts need recordwise[sentences])
    python -m experiments.verdicts --data digits random

One draw of the noise each. *Avoided*: of the errors that naming the commonest class makes. The cut-offs were set before
these rows, by what the words mean (a third, two thirds). That *nothing* needs several tests to fail was decided with
digits, CLINC150 domains and generated data in sight. Writes experiments/results/verdicts.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.provenance import hardware, versions
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from experiments.rivals import read
from experiments.text import bed_of
from recordwise.distiller import PrivateDistiller
from recordwise.fits import uncounted
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded
from recordwise.verdict import in_percent

RESULTS = Path(__file__).parent / "results" / "verdicts.json"
ASKED = {  # epsilon and number of queries
    "digits": ((1.0, 40), (0.2, 30), (0.1, 20), (0.05, 15)),
    "clinc10": ((0.3, 112), (0.1, 37), (0.05, 30), (0.01, 20)),
    "reviews": ((1.0, 300), (0.3, 137), (0.05, 22)),
    "adult": ((1.0, 300), (0.1, 100), (0.02, 25)),
    "random": ((1.0, 100), (0.1, 30)),
}
Part = tuple[NDArray[Any], NDArray[Any]]


def parts_of(data: str, vectors: Path | None) -> tuple[Part, Part]:
    """The pool and the records, each with their labels."""
    if data == "digits":
        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(x))
        pool, records = order[:900], order[900:]
        return (x[pool], y[pool]), (x[records], y[records])
    if data == "random":
        rng = seeded(0, "labels at random")
        x, y = rng.normal(size=(6_000, 10)), rng.integers(0, 6, 6_000)
        return (x[:3_000], y[:3_000]), (x[3_000:], y[3_000:])
    if data == "adult":
        _, (found, labels) = read(data, 0)
        return (found["public"], labels["public"]), (found["private"], labels["private"])
    bed = bed_of(data, "sentences", vectors)
    return (bed.vectors[0], bed.labels[0]), (bed.vectors[1], bed.labels[1])


def measure(data: str, epsilon: float, num_queries: int, parts: tuple[Part, Part]) -> dict[str, Any]:
    (pool, truth), (records, labels) = parts
    model = PrivateDistiller(epsilon, encoder="scaler", classes=np.unique(truth), num_queries=num_queries)
    with uncounted():
        model.fit(records, labels, X_public=pool, noise=SeededNoise(0))
    verdict = model.verdict_
    right = float((model.pool_labels_ == truth).mean())
    commonest = float(np.unique(truth, return_counts=True)[1].max() / len(truth))
    return {
        "data": data,
        "records": len(records),
        "epsilon": epsilon,
        "s": num_queries,
        "verdict": str(verdict.level),
        "headline": verdict.headline,
        "expected": "" if verdict.expected is None else in_percent(*verdict.expected),
        "label_accuracy": [round(right, 4)],
        "avoided": round((right - commonest) / (1 - commonest), 2),
        "neighbours": "replace",
        "delta": 0.0,
        "seeds": ["0"],
        "versions": versions("numpy", "scipy", "scikit-learn"),
        "hardware": hardware(),
        "command": f"python -m experiments.verdicts --data {data}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=ASKED, default=list(ASKED))
    parser.add_argument("--vectors", type=Path, help="a folder in which the texts' vectors are kept")
    given = parser.parse_args()
    for data in given.data:
        parts = parts_of(data, given.vectors)
        rows = [row for row in json.loads(RESULTS.read_text()) if row["data"] != data] if RESULTS.exists() else []
        for epsilon, num_queries in ASKED[data]:
            rows.append(measure(data, epsilon, num_queries, parts))
            print(
                {key: rows[-1][key] for key in ("data", "epsilon", "headline", "expected", "label_accuracy")},
                flush=True,
            )
        order = list(ASKED)
        rows.sort(key=lambda row: order.index(row["data"]))
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
