from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.images import Images
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from experiments import held
from recordwise.vision.augment import Augment
from recordwise.vision.held import HeldToCounts
from recordwise.vision.self_supervised import Byol
from recordwise.vision.steps import Compute
from recordwise.vision.supervised import Supervised

NAME = "central-s20-k1-eps1/0"
PLAN = held.Plan(
    held=HeldToCounts(epochs=3, batch=24, labelled_batch=4, first_epochs=1, ask_every=1),
    byol=Byol(epochs=1, prototype_epochs=1, batch=32, width=4, hidden=8, projection=4),
    truth=Supervised(epochs=1, batch=32, view=Augment()),
)


def some_images(generator: torch.Generator) -> Images:
    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.randint(0, 256, (count, 3, 16, 16), dtype=torch.uint8, generator=generator)
        return images, torch.arange(count) % 10

    (public, truth), (test, asked) = part(96), part(20)
    return Images(
        public=public, private=test[:0], test=test, public_labels=truth, private_labels=asked[:0], test_labels=asked
    )


def test_each_release_teaches_a_network_and_one_release_of_several_networks_makes_a_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rng = np.random.default_rng(0)
    images = some_images(torch.Generator().manual_seed(0))
    first = rng.dirichlet(np.ones(10), size=96)
    release = {
        "owner": np.arange(96) % 20,
        "estimate": rng.poisson(5, (20, 10)),
        "first": first,
        "labels": first.argmax(1),
    }
    release["linear"] = rng.dirichlet(np.ones(10), size=20)
    np.savez(tmp_path / "releases.npz", **{f"{NAME}/{key}": value for key, value in release.items()})
    for seed in (1, 2):
        held.teach(
            images, tmp_path / "releases.npz", [NAME, *(["truth"] if seed == 1 else [])], PLAN,
            seed=seed, weights=1, compute=Compute(), folder=tmp_path,
        )  # fmt: skip
    (tmp_path / "features").mkdir()
    np.savez(tmp_path / "features" / "labels.npz", cifar10_test=np.arange(20) % 10)
    monkeypatch.setattr(held, "HERE", tmp_path)
    one, with_linear, two, _, mean = held.rows_of(tmp_path, "cifar10")
    assert [row["seeds"] for row in (one, with_linear, two, mean)] == [["1/0"], ["1/0"], ["2/0"], ["all/0"]]
    assert with_linear["student"] == "mean of ResNet-18 held to the counts and the linear student"
    answers = np.load(tmp_path / "held-1-answers.npz")[NAME] + release["linear"]
    assert with_linear["test_accuracy"] == [(answers.argmax(1) == np.arange(20) % 10).mean()]
    assert one["nonprivate_accuracy"] is not None
    assert two["nonprivate_accuracy"] is None
    assert mean["student"] == "mean of 2 networks held to the counts"
    assert one["command"].endswith("--epochs 3 --pretraining 1 1")
    assert one["label_accuracy"] == [pytest.approx((first.argmax(1) == np.arange(96) % 10).mean(), abs=1e-4)]


def test_first_answers_are_no_surer_than_their_labels_bear_out():
    rng = np.random.default_rng(0)
    label = rng.integers(10, size=600)
    vectors = np.hstack([3 * np.eye(10)[label], np.zeros((600, 110))]) + rng.normal(size=(600, 120))
    answers, _ = held.first_answers(vectors.astype(np.float32), label)
    right = float((answers.argmax(1) == label).mean())
    assert 0.5 < right < 0.95
    assert answers.max(1).mean() == pytest.approx(right, abs=0.05)
    half = LinearDiscriminantAnalysis(solver="lsqr").fit(vectors[:300], label[:300])
    sure, said = half.predict_proba(vectors[300:]).max(1), half.predict(vectors[300:])
    assert sure.mean() > (said == label[300:]).mean() + 0.1  # it is too sure by itself
