from __future__ import annotations

import numpy as np
import pytest
from experiments.held import Run, sharper
from experiments.rows import Setting
from experiments.sources import Features, Source

from experiments import first_answers
from recordwise.data import Rule


@pytest.fixture(scope="module")
def features() -> Features:
    rng = np.random.default_rng(0)
    labels = {part: np.arange(n) % 10 for part, n in (("public", 400), ("private", 800), ("test", 100))}
    vectors = {
        part: (4 * np.eye(10)[truth] + rng.normal(size=(len(truth), 10))).astype(np.float32)
        for part, truth in labels.items()
    }
    source = Source(data="cifar10", way="together", rule=Rule.CLEAN)
    return Features(source=source, seed="all", vectors=vectors, clusters={}, labels=labels)


def test_a_row_has_all_draws_of_one_question(features: Features):
    asked = Run(setting=Setting(s=20, epsilon=0.3), epochs=0)
    row = first_answers.row_of(features, asked, (0, 1))
    assert row["seeds"] == ["all/0", "all/1"]
    assert row["label_accuracy"][0] != row["label_accuracy"][1]  # of the noise
    again = first_answers.row_of(features, asked, (1,))
    assert again["label_accuracy"] == row["label_accuracy"][1:]
    assert again["test_accuracy"] == row["test_accuracy"][1:]


def test_sharpened_vectors_are_another_way(features: Features):
    asked = Run(setting=Setting(s=20, epsilon=1.0), epochs=0, sharpened=True)
    row = first_answers.row_of(sharper(features), asked, (0,))
    assert (row["way"], row["encoder"]) == ("sharpened", "self-supervised on the pool and sharpened")
    assert row["label_accuracy"][0] > 0.9
    assert row["test_accuracy"][0] > 0.9
