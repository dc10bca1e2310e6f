"""GNMAX as PATE's papers count it: the data-dependent epsilon, sanitised, beside the worst case.

    python -m experiments.pate mnist

A few committed features, 250 teachers, all neighbours add-remove. `epsilon` is the worst case, which a ledger would be
charged; `data_dependent_epsilon` is the published bound for these votes. Appends to experiments/results/pate.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
from benchmarks.provenance import hardware, versions

from experiments.rivals import DELTA, read
from recordwise.baselines import GNMax
from recordwise.fits import uncounted
from recordwise.privacy.noise import SeededNoise

RESULTS = Path(__file__).parent / "results" / "pate.json"
WORST = (1.5, 2.0, 4.0, 6.0)
SEEDS = (0, 1)


def main(data: str) -> None:
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    rows = [row for row in kept if row["data"] != data]
    for epsilon in WORST:
        accuracy, bounds = [], []
        for seed in SEEDS:
            encoder, (vectors, labels) = read(data, seed)
            model = GNMax(
                epsilon,
                delta=DELTA,
                neighbours="add-remove",
                records={"expected": len(labels["private"])},
                classes=np.unique(labels["private"]),
                encoder="scaler",
                num_queries=100,
                data_dependent=True,
                random_state=seed,
            )
            with uncounted():
                model.fit(vectors["private"], labels["private"], X_public=vectors["public"], noise=SeededNoise(seed))
            accuracy.append(round(float(model.score(vectors["test"], labels["test"])), 4))
            assert model.data_dependent_ is not None
            bounds.append(round(model.data_dependent_.epsilon, 3))
        rows.append(
            {
                "method": "gnmax",
                "data": data,
                "epsilon": epsilon,
                "delta": DELTA,
                "neighbours": "add-remove",
                "queries": 100,
                "teachers": 250,
                "sigma": round(model.sigma_, 2),
                "data_dependent_epsilon": float(np.mean(bounds)),
                "seeds": list(SEEDS),
                "test_accuracy": accuracy,
                "encoder": encoder,
                "versions": versions("numpy", "scipy", "scikit-learn", "dp-accounting"),
                "hardware": hardware(),
                "command": f"python -m experiments.pate {data}",
                "date": time.strftime("%Y-%m-%d", time.gmtime()),
            }
        )
        print(data, epsilon, accuracy, bounds, flush=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
