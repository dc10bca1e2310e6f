"""The sets that the method was developed on, against epsilon: labels, counts, noisy SGD and true labels.

    python -m experiments.budgets                 (an hour on one core, images included)
    python -m experiments.budgets --data digits --only ours

What is compared, and how many queries are asked, is as in unseen.py; five draws of the noise. *letters* is generated
(planning.py), and so is *abstaining*: 94 : 6, where 23 % of the records do not vote (beds.py). Images are the committed
features.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from experiments import planning
from experiments.rows import Row
from experiments.unseen import EPSILONS, Bed, measure

RESULTS = Path(__file__).parent / "results" / "budgets.json"
COMMAND = "python -m experiments.budgets"
DATA = ("digits", "letters", "abstaining", "adult", "mnist", "svhn", "cifar10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=DATA)
    parser.add_argument("--epsilon", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--queries", type=int, help='as many, and not as "auto" takes')
    parser.add_argument("--only", choices=("ours",), help="keep noisy SGD's columns of rows that are measured again")
    given = parser.parse_args()
    for name in given.data:
        known = planning.bed(name, None)
        bed = Bed.of(known)
        for epsilon in given.epsilon:
            earlier = next((one for one in _rows() if _cell(one) == (name, epsilon)), None) if given.only else None
            row = measure(name, bed, epsilon, COMMAND, earlier, s=given.queries, abstaining=known.abstaining)
            rows = [one for one in _rows() if _cell(one) != (name, epsilon)] + [row]
            rows.sort(key=lambda one: (DATA.index(one["data"]), one["epsilon"]))
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
            shown = ("labels_accuracy", "test_accuracy", "noisy_sgd_accuracy", "counts_calibration_error")
            print(name, row["s"], epsilon, {key: np.mean(row[key]).round(3) for key in shown}, flush=True)


def _rows() -> list[Row]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def _cell(row: Row) -> tuple[str, float]:
    return row["data"], row["epsilon"]


if __name__ == "__main__":
    main()
