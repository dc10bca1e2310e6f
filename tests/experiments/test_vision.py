from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.images import Images
from experiments.measuring import purity
from experiments.vision import Recipe, agree, represent, teach

from experiments import cifar10, compact, mnist, svhn, vision
from recordwise.hashing import digest_of_file
from recordwise.vision.steps import Compute

CPU = Compute(device="cpu")
POOL, BATCH = 130, 65


@pytest.fixture(autouse=True)
def _few_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.measuring.CLUSTERS", (10, 40))


def noise(channels: int, side: int) -> Images:
    rng = np.random.default_rng(0)

    def part(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        shape = (count, side, side) if channels == 1 else (count, side, side, channels)
        images = CPU.images(rng.integers(0, 256, shape, dtype=np.uint8))
        return images, torch.from_numpy(rng.integers(0, 10, count))

    (public, public_labels), (private, private_labels), (test, test_labels) = part(POOL), part(20), part(20)
    return Images(
        public=public, private=private, test=test,
        public_labels=public_labels, private_labels=private_labels, test_labels=test_labels,
    )  # fmt: skip


def shrunk(recipe: Recipe) -> Recipe:
    byol = replace(recipe.byol, epochs=1, width=2, hidden=8, projection=4, batch=BATCH)
    byol = replace(byol, prototype_epochs=min(1, byol.prototype_epochs))
    return replace(
        recipe,
        byol=byol,
        scan=recipe.scan and replace(recipe.scan, epochs=1, heads=2, batch=BATCH),
        self_label=replace(recipe.self_label, epochs=2, trusting_epochs=1, batch=BATCH),
        rounds=min(1, recipe.rounds),
        student=replace(recipe.student, epochs=2, trusting_epochs=1, batch=BATCH),
        ensemble=None,
        dims=4,
    )


@pytest.mark.parametrize(
    ("recipe", "channels"), [(cifar10.SMALL, 3), (svhn.SMALL, 3), (mnist.SMALL, 1)], ids=["cifar10", "svhn", "mnist"]
)
def test_a_recipe_runs_from_images_to_a_student(recipe: Recipe, channels: int, tmp_path: Path):
    images, small = noise(channels, 16), shrunk(recipe)
    represent(images, small, seed=1, compute=CPU, folder=tmp_path / "first")
    features = tmp_path / "first" / "features.npz"
    vectors, clusters = compact.read(features)
    assert vectors["public"].shape == (POOL, 4)
    assert bool(clusters) == (recipe.scan is not None)
    labels = np.zeros(POOL, dtype=np.int8)
    np.savez(tmp_path / "released.npz", **{"one/labels": labels, "one/prior": np.full(10, 0.1)})
    teach(
        images, small, tmp_path / "released.npz",
        seed=1, compute=CPU, folder=tmp_path / "first", features=features, out=tmp_path,
    )  # fmt: skip
    assert 0 <= json.loads((tmp_path / "released.json").read_text())["one_test"] <= 1


def test_a_killed_run_goes_on_and_seeds_can_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    images, small = noise(1, 16), shrunk(mnist.SMALL)
    for seed in (1, 2):
        represent(images, small, seed=seed, compute=CPU, folder=tmp_path / str(seed))
    whole = dict(np.load(tmp_path / "1" / "features.npz"))
    for name in ("features.npz", "round1.safetensors"):
        (tmp_path / "1" / name).unlink()
    with monkeypatch.context() as patch:
        patch.setattr("experiments.vision.Pretraining", None)  # what is kept must not be learnt again
        patch.setattr("experiments.vision.scan", None)
        represent(images, small, seed=1, compute=CPU, folder=tmp_path / "1")
    again = np.load(tmp_path / "1" / "features.npz")
    assert all(np.array_equal(whole[part], again[part]) for part in whole)

    agree(
        images, small, [tmp_path / "2" / "features.npz"],
        seed=1, compute=CPU, folder=tmp_path / "1", out=tmp_path / "agreed",
    )  # fmt: skip
    facts = json.loads((tmp_path / "agreed" / "represent.json").read_text())
    assert 0 < facts["unanimous"] < 1
    assert facts["agreed_sha256"] == digest_of_file(tmp_path / "agreed" / "agreed.safetensors")
    assert compact.read(tmp_path / "agreed" / "features.npz")[1]


def test_a_seed_without_clusters_learns_what_others_agree_on(tmp_path: Path):
    images, small = noise(1, 16), shrunk(mnist.SMALL)
    rng = np.random.default_rng(0)
    vectors = {part: rng.normal(size=(len(pixels), 4)).astype(np.float32) for part, pixels in images.parts.items()}
    clusters = {part: rng.integers(0, 10, len(pixels)) for part, pixels in images.parts.items()}
    for other in ("one", "two"):
        compact.write(tmp_path / f"{other}.npz", vectors, clusters, dims=4)
    agree(
        images, small, [tmp_path / "one.npz", tmp_path / "two.npz"],
        seed=3, compute=CPU, folder=tmp_path / "3", out=tmp_path / "agreed",
    )  # fmt: skip
    facts = json.loads((tmp_path / "agreed" / "represent.json").read_text())
    assert facts["unanimous"] == 1
    assert facts["backbone_sha256"] == digest_of_file(tmp_path / "3" / "backbone.safetensors")


def test_a_student_taught_later_joins_the_answers_of_those_before(tmp_path: Path):
    images, small = noise(3, 16), shrunk(svhn.SMALL)
    represent(images, small, seed=1, compute=CPU, folder=tmp_path)
    sets = {}
    for name in ("one", "two"):
        sets |= {f"{name}/labels": np.zeros(POOL, dtype=np.int8), f"{name}/prior": np.full(10, 0.1)}
        np.savez(tmp_path / "released.npz", **sets)
        teach(
            images, small, tmp_path / "released.npz",
            seed=1, compute=CPU, folder=tmp_path, features=tmp_path / "features.npz", out=tmp_path,
        )  # fmt: skip
    assert set(np.load(tmp_path / "released-answers.npz").files) == {"one", "two"}


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    """The command line of MNIST's script, with noise in place of 30,000 digits."""
    images = noise(1, 16)

    def few(*_: object) -> Images:
        return images

    monkeypatch.setattr(vision, "load_images", few)
    monkeypatch.setattr(vision, "FEW", len(images.public))
    monkeypatch.setattr(sys, "argv", ["mnist", *map(str, words), "--device", "cpu"])
    vision.main("mnist", mnist.RECIPE, shrunk(mnist.SMALL))


def test_a_small_run_goes_all_the_way_and_apart_from_full_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rng, runs = np.random.default_rng(0), tmp_path / "runs"
    small = ("--small", "--seed", 12, "--runs", runs)
    whole = {part: rng.normal(size=(700, 4)).astype(np.float32) for part in compact.PARTS}
    compact.write(tmp_path / "13.npz", whole, {part: rng.integers(0, 10, 700) for part in compact.PARTS}, dims=4)
    labels = {"one/labels": np.zeros(700, dtype=np.int8), "one/prior": np.full(10, 0.1)}  # of a pool of 700
    np.savez(tmp_path / "released.npz", **labels)
    run(monkeypatch, "represent", *small)
    run(monkeypatch, "teach", *small, "--released", tmp_path / "released.npz")
    run(monkeypatch, "agree", *small, "--others", tmp_path / "13.npz")
    run(monkeypatch, "teach", *small, "--released", tmp_path / "released.npz")
    assert {path.name for path in runs.iterdir()} == {"mnist-small-12", "mnist-small-agreed-12"}
    assert all("one_test" in json.loads((folder / "released.json").read_text()) for folder in runs.iterdir())


@pytest.mark.parametrize(
    ("there", "told"),
    [([], "there are no labels in "), (["released.npz"], "backbone.safetensors: represent comes first\n")],
)
def test_what_cannot_be_taught_leaves_no_log(
    there: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for name in there:
        np.savez(tmp_path / name, **{"one/labels": np.zeros(POOL)})
    runs = tmp_path / "runs"
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, "teach", "--released", tmp_path / "released.npz", "--runs", runs)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert not runs.exists()


def test_help_says_what_every_argument_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--help")
    told = " ".join(capsys.readouterr().out.split())
    for words in ("load: decode", "represent: learn", "agree: sharpen", "teach: students", "--seed SEED of weights",
                  "--device DEVICE such as", "--no-compile do not", "not for experiments/features"):  # fmt: skip
        assert words in told


def test_digits_are_never_mirrored():
    for recipe in (mnist.RECIPE, svhn.RECIPE):
        views = (recipe.byol.view, recipe.student.strong, recipe.student.weak, recipe.self_label.strong)
        assert all(view.flip == 0 for view in views)
        assert not recipe.mirror


def test_purity_is_label_accuracy_without_noise():
    clusters, labels = torch.tensor([0, 0, 0, 1, 1]), torch.tensor([3, 3, 4, 5, 5])
    assert purity(clusters, labels) == pytest.approx(0.8)
