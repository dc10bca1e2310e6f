from __future__ import annotations

import functools
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.images import Images
from experiments.measuring import Log
from experiments.paper import compare_simclr, teach

from experiments import compact, paper
from recordwise.vision.densenet import DenseNet
from recordwise.vision.mixmatch import MixMatch
from recordwise.vision.simclr import SimClr
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun
from recordwise.vision.wide_resnet import WideResNet

CPU = Compute(device="cpu")


@pytest.fixture
def images() -> Images:
    rng = np.random.default_rng(0)
    count = 540  # of 600 that have labels, as with --limit
    numbers = torch.arange(count) % 10
    pixels = {part: CPU.images(rng.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)) for part in compact.PARTS}
    return Images(**pixels, **{f"{part}_labels": numbers for part in compact.PARTS})


@pytest.mark.parametrize("stage", ["densenet", "mixmatch"])
def test_the_papers_students_learn_released_labels(
    stage: str, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(paper, "DenseNet", functools.partial(DenseNet, growth=2, layers=(1, 1)))
    monkeypatch.setattr(paper, "WideResNet", functools.partial(WideResNet, depth=10, factor=1))
    monkeypatch.setattr(paper, "MixMatch", lambda **given: MixMatch(**{**given, "batch": 32}))
    labels = np.arange(600) % 10
    labels[::3] = 0  # a third of the labels are wrong, and their neighbours say so
    vectors = {part: np.eye(10, dtype=np.float32)[np.arange(600) % 10] for part in compact.PARTS}
    compact.write(tmp_path / "some.npz", vectors, {}, dims=9)
    np.savez(tmp_path / "released.npz", **{"one/labels": labels, "two/labels": labels})
    log = Log(tmp_path / "paper.json")
    teach(
        stage,
        images,
        tmp_path / "released.npz",
        tmp_path / "some.npz",
        1,
        TrainingRun(seed=12, compute=CPU),
        log,
        ["one"],
    )
    facts = json.loads((tmp_path / "paper.json").read_text())
    assert 0 <= facts["one_test"] <= 1
    assert facts["one_labels"] == pytest.approx(0.7, abs=0.01)
    assert 0 < facts["one_trusted"] < 1
    assert "two_test" not in facts


def test_simclr_is_measured_as_our_features_are(images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(paper, "SimClr", functools.partial(SimClr, width=2, hidden=8, projection=4, batch=64))
    compare_simclr(images, 1, TrainingRun(compute=CPU), Log(tmp_path / "paper.json"))
    assert {"simclr_knn_test", "simclr_purity10", "simclr_purity500"} <= json.loads(
        (tmp_path / "paper.json").read_text()
    ).keys()


@pytest.mark.parametrize(
    ("there", "given", "told"),
    [
        ([], [], "there are no labels in "),
        (["released.npz"], [], "features.npz; name others by --features\n"),
        (["released.npz", "features.npz"], ["--only", "one", "nonsense"], "has no nonsense; it has one, two\n"),
    ],
)
def test_what_cannot_be_taught_leaves_no_log(
    there: list[str], given: list[str], told: str, images: Images, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    for name in there:
        np.savez(tmp_path / name, **{"one/labels": np.zeros(540), "two/labels": np.zeros(540)})
    released, runs = tmp_path / "released.npz", tmp_path / "runs"
    monkeypatch.setattr(paper, "load_images", lambda *_: images)
    monkeypatch.setattr(
        sys, "argv", ["paper", "mixmatch", "--released", str(released), "--runs", str(runs), "--device", "cpu", *given]
    )
    with pytest.raises(SystemExit) as ended:
        paper.main()
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert not runs.exists()
