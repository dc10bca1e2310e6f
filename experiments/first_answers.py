"""First answers: how much of the pool the student from counts gets right, in features as they are and sharpened.

    python -m experiments.first_answers cifar10

Networks that are held to the counts begin with these answers and keep most of their errors (`experiments.held`), so
this is where to look before a GPU is asked. The pool's true labels measure; ε = 1000 stands for counts without noise.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

from benchmarks.provenance import hardware, versions

from experiments.collect import merge
from experiments.held import EXACT, HERE, Run, released, right, sharper
from experiments.rows import Row, Setting, result_row
from experiments.sources import ALL, Features, Source, read_features
from recordwise.data import Rule

ASKED = {
    "cifar10": {1.0: (500,), 0.29: (100, 200, 500), 0.1: (100, 200), 0.01: (20, 30, 40), EXACT: (40, 100, 200, 500)},
    "svhn": {0.1: (500,), 0.04: (200,), EXACT: (200, 500)},
}
DRAWS = (0, 1, 2)


def row_of(features: Features, first: Run, draws: tuple[int, ...]) -> Row:
    """All draws of one question.

    Args:
      features: In which the queries are asked.
    """
    label_accuracy, test_accuracy = [], []
    for draw in draws:
        kept = released(features, replace(first, draw=draw), corrected=False)
        label_accuracy.append(right(kept["first"], features.labels["public"]))
        test_accuracy.append(right(kept["linear"], features.labels["test"]))
    return result_row(
        first.setting,
        data=features.source.data,
        split="clean",
        encoder=first.encoder,
        queries="k-means",
        student="from counts",
        way=first.way,
        seeds=[f"{ALL}/{draw}" for draw in draws],
        test_accuracy=test_accuracy,
        label_accuracy=label_accuracy,
        nonprivate_accuracy=None,
        versions=versions("numpy", "scipy", "scikit-learn"),
        hardware=hardware(),
        command=f"python -m experiments.first_answers {features.source.data}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="How much of the pool the student from counts gets right")
    parser.add_argument("data", choices=tuple(ASKED))
    data = parser.parse_args().data
    features = read_features(Source(data=data, way="together", rule=Rule.CLEAN), ALL, HERE / "features")
    replaced = partial(merge, "first_answers", keys=("data", "way", "setting"), joined=lambda row, earlier: row)
    for epsilon, queries in ASKED[data].items():
        for s in queries:
            plain = Run(setting=Setting(s=s, epsilon=epsilon), epochs=0)
            draws = DRAWS[:1] if epsilon == EXACT else DRAWS
            for run, vectors in ((plain, features), (replace(plain, sharpened=True), sharper(features))):
                row = row_of(vectors, run, draws)
                print(
                    f"{run.asked}: {row['label_accuracy']} of the pool, {row['test_accuracy']} of the test", flush=True
                )
                replaced([row])


if __name__ == "__main__":
    main()
