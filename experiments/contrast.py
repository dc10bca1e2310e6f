"""k-NN against reverse k-NN: the noise on a query's counts, by the number of queries asked.

    python -m experiments.contrast

No data is needed: the noise follows from the sensitivity alone. In k-NN one record may vote on all s queries, in
reverse k-NN on k = 1 of them, so the one noise grows with s (pure) or its root (delta 1e-5), and the other stays.
Private k-NN samples half the records for each query: its noise is divided by one half here, since its counts are half
as large. At epsilon 1, add-remove neighbours. Writes experiments/results/contrast.json and docs/figures/contrast.svg.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from benchmarks.provenance import hardware, versions

from recordwise.baselines import KNN, IndKNN, PrivateKNN
from recordwise.privacy.noise import DiscreteLaplace

ROOT = Path(__file__).parent
RESULTS, FIGURE = ROOT / "results" / "contrast.json", ROOT.parent / "docs" / "figures" / "contrast.svg"
QUERIES = (1, 3, 10, 30, 100, 300, 1000)
EPSILON, DELTA, RECORDS = 1.0, 1e-5, 100_000


def gaussian(kind: type[Any], s: int, **settings: Any) -> float:
    model = kind(
        EPSILON, delta=DELTA, neighbours="add-remove", num_queries=s, records={"expected": RECORDS}, **settings
    )
    model.check(RECORDS, 2, 10)
    return math.sqrt(model.sigma2_)


METHODS: dict[str, tuple[float, Callable[[int], float]]] = {
    "knn, pure": (0.0, lambda s: DiscreteLaplace(Fraction(2 * s)).std),
    "knn": (DELTA, lambda s: gaussian(KNN, s)),
    "private-knn": (DELTA, lambda s: gaussian(PrivateKNN, s, threshold=None) / 0.5),
    "ind-knn, 3 votes": (DELTA, lambda s: gaussian(IndKNN, s, reach=min(1.0, 0.9 * s))),
    "recordwise": (0.0, lambda s: DiscreteLaplace(Fraction(1)).std),
}


def main() -> None:
    rows = [
        {
            "method": method,
            "s": s,
            "epsilon": EPSILON,
            "delta": delta,
            "neighbours": "add-remove",
            "noise_std": round(noise(s), 3),
            "versions": versions("numpy", "dp-accounting"),
            "hardware": hardware(),
            "command": "python -m experiments.contrast",
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }
        for method, (delta, noise) in METHODS.items()
        for s in QUERIES
    ]
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    draw(rows)


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "recordwise"  # the same picture is the same file
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for method in METHODS:
        mine = [row for row in rows if row["method"] == method]
        panel.plot([row["s"] for row in mine], [row["noise_std"] for row in mine], "o-", markersize=4, label=method)
    panel.set(xscale="log", yscale="log", xlabel="queries asked (s)", ylabel="noise on a count, standard deviation")
    panel.grid(alpha=0.25)
    panel.legend(fontsize=8, frameon=False)
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
