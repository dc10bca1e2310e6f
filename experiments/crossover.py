"""Where the best linear probe overtakes Recordwise, from the rows of experiments.rivals.

    python -m experiments.crossover

A probe is a linear or small model trained on the records themselves: dp-linear, objective-perturbation, noisy-sgd-1 or
noisy-sgd-2. Between the last epsilon at which Recordwise is ahead and the first at which it is not, the lead is taken
as linear in log epsilon. `seeds` is the smallest number behind any of the means. Writes
experiments/results/crossover.json.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
PROBES = ("dp-linear", "objective-perturbation", "noisy-sgd-1", "noisy-sgd-2")


def crossover(rows: list[dict[str, Any]], data: str) -> dict[str, Any]:
    """One data set's row; `epsilon` is None where Recordwise stays ahead, or never is."""
    mean = {(r["method"], r["epsilon"]): float(np.mean(r["test_accuracy"])) for r in rows if r["data"] == data}
    epsilons = sorted({epsilon for method, epsilon in mean if method == "recordwise"})
    leads = []
    for epsilon in epsilons:
        best = max((probe for probe in PROBES if (probe, epsilon) in mean), key=lambda probe: mean[probe, epsilon])
        leads.append((epsilon, mean["recordwise", epsilon] - mean[best, epsilon], best))
    found: dict[str, Any] = {
        "data": data,
        "epsilon": None,
        "best_probe": leads[-1][2],
        "lead_at_smallest": round(100 * leads[0][1], 1),
        "lead_at_largest": round(100 * leads[-1][1], 1),
    }
    for (low, ahead, _), (high, behind, best) in itertools.pairwise(leads):
        if ahead > 0 >= behind:
            share = ahead / (ahead - behind)
            at = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
            found |= {"epsilon": float(f"{at:.2g}"), "best_probe": best}
            break
    return found


def main() -> None:
    rows = json.loads((RESULTS / "rivals.json").read_text())
    names = list(dict.fromkeys(row["data"] for row in rows))
    every = [
        crossover(rows, data)
        | {
            "seeds": min(
                len(row["seeds"]) for row in rows if row["data"] == data and row["method"] in ("recordwise", *PROBES)
            ),
            "command": "python -m experiments.crossover",
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        }
        for data in names
    ]
    (RESULTS / "crossover.json").write_text(json.dumps(every, indent=1) + "\n")


if __name__ == "__main__":
    main()
