from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.images import Images
from experiments.rows import Setting
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from experiments import held
from recordwise.students.held_network import HeldToCounts
from recordwise.vision.augment import Augment
from recordwise.vision.imitate import Imitate
from recordwise.vision.steps import Compute
from recordwise.vision.supervised import Supervised

ASKED = Setting(s=20, epsilon=1.0)
ONE = held.Run(setting=ASKED, epochs=4, seed=1)
PLAN = held.Schedule(
    runs=(ONE, replace(ONE, seed=2, taught=True)),
    imitate=Imitate(epochs=1, batch=32, view=Augment()),
    held=HeldToCounts(batch=24, labelled_batch=4, first_epochs=1, ask_every=1),
    truth=Supervised(epochs=1, batch=32, view=Augment()),
    width=4,
)


def some_images(generator: torch.Generator) -> Images:
    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.randint(0, 256, (count, 3, 16, 16), dtype=torch.uint8, generator=generator)
        return images, torch.arange(count) % 10

    (public, truth), (test, asked) = part(96), part(20)
    return Images(
        public=public, private=test[:0], test=test, public_labels=truth, private_labels=asked[:0], test_labels=asked
    )


def test_each_release_teaches_a_network_that_may_teach_another_and_both_make_a_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rng = np.random.default_rng(0)
    images = some_images(torch.Generator().manual_seed(0))
    first, linear = rng.dirichlet(np.ones(10), size=96), rng.dirichlet(np.ones(10), size=20)
    release = {
        "owner": np.arange(96) % 20,
        "estimate": rng.poisson(5, (20, 10)),
        "first": np.log(first),
        "linear": linear,
    }
    np.savez(tmp_path / "releases.npz", **{f"{ONE.name}/{key}": value for key, value in release.items()})
    vectors = rng.normal(size=(96, 5)).astype(np.float32)
    held.teach(
        images, vectors, tmp_path / "releases.npz", PLAN, data="cifar10", compute=Compute(), folder=tmp_path
    )  # fmt: skip
    (tmp_path / "features").mkdir()
    np.savez(tmp_path / "features" / "labels.npz", cifar10_test=np.arange(20) % 10)
    monkeypatch.setattr(held, "HERE", tmp_path)
    one, with_linear, taught, mean = held.rows_of(tmp_path, "cifar10", PLAN)
    assert [row["seeds"] for row in (one, with_linear, taught, mean)] == [["1/0"], ["1/0"], ["2/0"], ["all/0"]]
    answers = [np.load(tmp_path / f"{run.name}.npz")["test"].astype(float) for run in PLAN.runs]
    wanted = np.arange(20) % 10
    assert with_linear["test_accuracy"] == [(np.argmax(answers[0] + linear, axis=1) == wanted).mean()]
    assert mean["test_accuracy"] == [(np.argmax(answers[0] + answers[1] + linear, axis=1) == wanted).mean()]
    assert one["nonprivate_accuracy"] is not None
    assert mean["nonprivate_accuracy"] is None
    assert one["label_accuracy"] == [pytest.approx((first.argmax(1) == np.arange(96) % 10).mean(), abs=1e-4)]
    assert taught["label_accuracy"] != one["label_accuracy"]  # the first network's answers joined
    assert one["epochs"] == 4


def test_answers_of_the_other_half_are_of_images_that_were_not_taught():
    rng = np.random.default_rng(0)
    label = rng.integers(10, size=600)
    vectors = np.hstack([3 * np.eye(10)[label], np.zeros((600, 110))]) + rng.normal(size=(600, 120))
    right = float((held.other_half(vectors.astype(np.float32), label).argmax(1) == label).mean())
    seen = LinearDiscriminantAnalysis(solver="lsqr").fit(vectors, label).score(vectors, label)
    assert 0.5 < right < seen - 0.05


def test_the_plans_say_what_was_run():
    for plan in held.PLANS.values():
        small = held.small(plan)
        assert [run.name for run in small.runs] == [run.name for run in plan.runs]
        assert len({run.name for run in plan.runs}) == len(plan.runs)
