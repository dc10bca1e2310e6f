"""What neighbours are worth: every query by itself, and all of them together over the public graph.

    python -m experiments.neighbours

The same releases of the votes, read in two ways: each query's largest count (argmax), and the joint decoding that
Recordwise does unasked. Features are those of all seeds side by side. Label and test accuracy go into
experiments/results/neighbours.json.
"""

from __future__ import annotations

import json

import numpy as np
from benchmarks.provenance import hardware, versions

from experiments.labelling import HERE, label, linear_student, right, taught_the_truth
from experiments.rows import Setting, result_row
from experiments.sources import ALL, Source, read_features
from recordwise.data import Rule
from recordwise.settings import AUTO

DRAWS = 10
SETTINGS = [Setting(s=s, epsilon=epsilon) for s in (40, 100, 200, 500) for epsilon in (0.1, 0.04, 0.01)]
DECODERS = {"argmax": "argmax", "joint": AUTO}


def main() -> None:
    rows = []
    for data in ("cifar10", "mnist", "svhn"):
        features = read_features(Source(data=data, way="together", rule=Rule.CLEAN), ALL, HERE / "features")
        test, public = features.labels["test"], features.labels["public"]
        for setting in SETTINGS:
            for name, decoder in DECODERS.items():
                taught = [label(features, setting, draw, decoder) for draw in range(DRAWS)]
                row = result_row(
                    setting,
                    data=data,
                    split=str(Rule.CLEAN),
                    encoder="self-supervised on the pool",
                    queries="k-means",
                    student="linear",
                    decoder=name,
                    seeds=[f"{features.seed}/{draw}" for draw in range(DRAWS)],
                    test_accuracy=[right(linear_student(features, labels), test) for labels in taught],
                    label_accuracy=[right(labels, public) for labels in taught],
                    nonprivate_accuracy=taught_the_truth(features, "linear"),
                    versions=versions("numpy", "scipy", "scikit-learn"),
                    hardware=hardware(),
                    command="python -m experiments.neighbours",
                )
                rows.append(row)
                found = {key: np.array(row[key]) for key in ("label_accuracy", "test_accuracy")}
                shown = "  ".join(f"{key} {v.mean():.4f} ± {v.std():.4f}" for key, v in found.items())
                print(f"{data:8s} {name:7s} {setting.name:24s} {shown}", flush=True)
    (HERE / "results" / "neighbours.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
