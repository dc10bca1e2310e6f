from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments.labelling import CLASSES, HERE, Features, Setting, grid, label, linear_student, read_features

FEATURES = HERE / "features"


@pytest.fixture(scope="module")
def mnist() -> Features:
    return read_features("mnist", [12], FEATURES)[0]


def committed(name: str, setting: Setting, seed: int) -> tuple[float, float]:
    """Label and test accuracy of the first draw, as they stand in the repository."""
    rows = json.loads((HERE / "results" / f"{name}.json").read_text())
    row = next(row for row in rows if row["setting"] == setting.name)
    at = row["seeds"].index(f"{seed}/0")
    return row["label_accuracy"][at], row["test_accuracy"][at]


@pytest.mark.parametrize(
    "setting",
    [Setting(s=10, epsilon=0.01), Setting(s=40, epsilon=0.1), Setting(s=10, epsilon=0.1, protocol="distributed")],
)
def test_committed_features_give_the_committed_accuracies(mnist: Features, setting: Setting):
    labels = label(mnist, setting, draw=0)
    found = float((labels == mnist.labels["public"]).mean()), linear_student(mnist, labels)
    assert found == pytest.approx(committed("mnist", setting, 12), abs=2e-3)  # rounding may move a few images


def test_cifar10_at_a_hundredth_is_as_committed():
    features = read_features("cifar10", [11], FEATURES)[0]
    setting = Setting(s=10, epsilon=0.01)
    accuracy = float((label(features, setting, draw=0) == features.labels["public"]).mean())
    assert accuracy == pytest.approx(committed("cifar10", setting, 11)[0], abs=2e-3)
    assert accuracy > 0.86


def test_ten_queries_are_the_clusters_of_the_network(mnist: Features):
    labels = label(mnist, Setting(s=10, epsilon=1000.0), draw=0)
    clusters = mnist.clusters["public"].argmax(1)
    assert all(len(np.unique(labels[clusters == cluster])) == 1 for cluster in range(CLASSES))


def test_committed_features_are_small_and_fit_their_labels():
    for name, seeds in (("mnist", (11, 12)), ("svhn", (11,)), ("cifar10", (11,))):
        files = [FEATURES / f"{name}-{seed}.npz" for seed in seeds]
        assert sum(path.stat().st_size for path in files) <= 10_000_000
        for features in read_features(name, list(seeds), FEATURES):
            for part, vectors in features.vectors.items():
                assert len(vectors) == len(features.labels[part])
                assert np.isfinite(vectors).all()


def test_settings_have_one_name_each():
    names = [setting.name for setting in grid(10)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "svhn"])
def test_rows_say_how_they_were_made(name: str):
    for row in json.loads(Path(HERE / "results" / f"{name}.json").read_text()):
        assert len(row["seeds"]) == len(row["test_accuracy"]) == len(row["label_accuracy"]) >= 5
        assert {"protocol", "s", "k", "epsilon", "delta", "neighbours", "versions", "hardware", "command"} <= row.keys()
