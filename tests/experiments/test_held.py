from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.images import Images
from experiments.rows import Setting
from experiments.sources import Features, Source
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from experiments import held
from recordwise import pipeline
from recordwise.data import Rule
from recordwise.encoders.sharpened import Sharpened
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import KMeansQueries
from recordwise.students.counts import Asked, tables_of
from recordwise.students.held_network import HeldToCounts
from recordwise.vision.augment import Augment
from recordwise.vision.imitate import Imitate
from recordwise.vision.self_label import SelfLabel
from recordwise.vision.steps import Compute
from recordwise.vision.supervised import Supervised
from recordwise.votes import Ballot, Votes

ASKED = Setting(s=20, epsilon=1.0)
ONE = held.Run(setting=ASKED, epochs=4, seed=1)
SHARP = replace(ONE, sharpened=True)
PLAN = held.Schedule(
    runs=(ONE, replace(ONE, seed=2, taught=True), replace(ONE, seed=3, self_labelled=True)),
    imitate=Imitate(epochs=1, batch=32, view=Augment()),
    held=HeldToCounts(batch=24, labelled_batch=4, first_epochs=1, ask_every=1),
    self_label=SelfLabel(trusting_epochs=1, batch=32),
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
    (tmp_path / "releases").mkdir()
    np.savez(
        tmp_path / "releases" / f"{ONE.release}.npz",
        owner=np.arange(96) % 20,
        estimate=rng.poisson(5, (20, 10)),
        first=np.log(first),
        linear=linear,
    )
    vectors = (np.eye(10)[first.argmax(1)] + 0.01 * rng.normal(size=(96, 10))).astype(np.float32)
    monkeypatch.setattr(held, "NEIGHBOURS", 3)  # of an image's own label, so that it is trusted
    held.teach(images, vectors, PLAN, data="cifar10", compute=Compute(), folder=tmp_path)
    (tmp_path / "features").mkdir()
    np.savez(tmp_path / "features" / "labels.npz", cifar10_public=np.arange(96) % 10, cifar10_test=np.arange(20) % 10)
    monkeypatch.setattr(held, "HERE", tmp_path)
    one, with_linear, taught, alone, mean = held.rows_of(tmp_path, "cifar10", PLAN)
    seeds = [row["seeds"] for row in (one, with_linear, taught, alone, mean)]
    assert seeds == [["1/0"], ["1/0"], ["2/0"], ["3/0"], ["all/0"]]
    assert alone["student"] == "self-labelled ResNet-18 of width 4"
    assert alone["label_accuracy"] == one["label_accuracy"]
    assert mean["student"].startswith("mean of 2 networks")  # of those that are held to the counts
    answers = [np.load(tmp_path / f"{run.name}.npz")["test"].astype(float) for run in PLAN.runs]
    wanted = np.arange(20) % 10
    assert with_linear["test_accuracy"] == [(np.argmax(answers[0] + linear, axis=1) == wanted).mean()]
    assert mean["test_accuracy"] == [(np.argmax(answers[0] + answers[1] + linear, axis=1) == wanted).mean()]
    assert one["nonprivate_accuracy"] is not None
    assert mean["nonprivate_accuracy"] is None
    assert one["label_accuracy"] == [pytest.approx((first.argmax(1) == np.arange(96) % 10).mean(), abs=1e-4)]
    assert taught["label_accuracy"] != one["label_accuracy"]  # the first network's answers joined
    assert one["epochs"] == 4
    wrong = first.argmax(1) != np.arange(96) % 10
    believed = np.load(tmp_path / f"{ONE.name}.npz")["pool"].argmax(1)
    assert one["taught"][0]["errors_kept"] == round((believed != np.arange(96) % 10)[wrong].mean(), 4)


def test_what_counts_without_noise_bring_stands_beside_what_those_with_noise_do(tmp_path: Path):
    exact = held.Run(setting=replace(ASKED, epsilon=held.EXACT), epochs=4)
    first = np.eye(10)[np.arange(20) % 5]
    (tmp_path / "releases").mkdir()
    np.savez(tmp_path / "releases" / f"{exact.release}.npz", first=first)
    plan = replace(PLAN, runs=(ONE, exact))
    without_network = {f"first {exact.setting.name}": 0.5}
    assert held.twins_of(tmp_path, plan, np.arange(20) % 10) == without_network
    (tmp_path / f"{exact.name}.json").write_text('{"test": 0.75}')
    found = held.twins_of(tmp_path, plan, np.arange(20) % 10)
    assert found == without_network | {exact.setting.name: 0.75}
    facts = {"first": 0.4, "epochs": 4, "versions": {}, "hardware": {}}
    plain, sharp = (held._row(run, "cifar10", "a network", facts, 0.5, found) for run in (ONE, SHARP))
    assert (plain["exact_counts_accuracy"], plain["way"]) == (0.75, "together")
    assert (sharp["exact_counts_accuracy"], sharp["way"]) == (None, "sharpened")  # asked in other vectors
    (tmp_path / f"{SHARP.exact.name}.json").write_text('{"test": 0.5}')
    assert held.twins_of(tmp_path, replace(PLAN, runs=(SHARP.exact,)), np.arange(20)) == {SHARP.exact.asked: 0.5}


def test_errors_that_a_network_kept_are_told_from_those_it_made():
    truth, first = np.arange(10), np.array([9, 9, 9, 9, 4, 5, 6, 7, 8, 0])
    network = np.array([0, 1, 9, 8, 4, 5, 6, 7, 0, 9])
    assert held.errors(first, network, truth) == {"errors_kept": 0.4, "errors_added": 0.2}


def test_where_counts_contradict_the_student_the_decoder_is_believed():
    truth = np.repeat(np.arange(10), 30)
    owner = np.repeat(np.arange(30), 10)  # three queries for each class
    sure = np.full((300, 10), 1e-6) + np.eye(10)[truth]
    sure[owner == 6] = 1e-6 + np.eye(10)[7]  # twos that the student is sure are sevens
    sure /= sure.sum(axis=1, keepdims=True)
    ballot = Ballot(num_queries=30, num_classes=10)
    votes = Votes(ballot, np.repeat(owner, 20)[:, None], np.repeat(truth, 20)[:, None])
    tally = pipeline.release(votes, CentralLaplace(ballot=ballot, epsilon=Fraction(1, 10)), SeededNoise(0))
    (table,) = tables_of([Asked(release=tally, owner=owner, num_records=len(votes))])
    shares = np.full((30, 10), 0.01) + 0.9 * np.eye(10)[truth[::10]]
    found = held.corrected_by(table, owner, sure, shares)
    assert (found.argmax(1) == truth).all()
    assert np.array_equal(found[owner != 6], sure[owner != 6])  # a student whom the counts bear out is left alone
    assert np.array_equal(found[owner == 6], shares[owner[owner == 6]])


def test_each_encoder_has_a_release_of_its_own(tmp_path: Path):
    rng = np.random.default_rng(0)
    labels = {part: np.arange(n) % 10 for part, n in (("public", 200), ("private", 400), ("test", 50))}
    vectors = {
        part: (4 * np.eye(10)[truth] + rng.normal(size=(len(truth), 10))).astype(np.float32)
        for part, truth in labels.items()
    }
    source = Source(data="mnist", way="", rule=Rule.CLEAN)

    def read(seed: str) -> Features:
        return Features(source=source, seed=seed, vectors=vectors, clusters={}, labels=labels)

    runs = tuple(held.Run(setting=ASKED, epochs=1, features=seed) for seed in ("11", "12"))
    sharp = replace(runs[0], sharpened=True)
    held.release(read, held.Schedule(runs=(*runs, sharp), corrected=True), tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(run.release for run in (*runs, sharp))
    owners = [np.load(tmp_path / f"{run.release}.npz")["owner"] for run in (runs[0], sharp)]
    asked = KMeansQueries(num_queries=20, seed=11).ask(Sharpened().fit(vectors["public"]).transform(vectors["public"]))
    assert np.array_equal(owners[1], asked.owner)
    assert not np.array_equal(*owners)
    with np.load(tmp_path / f"{runs[0].release}.npz") as file:
        assert (file["first"].argmax(1) == labels["public"]).mean() > 0.9
        assert (file["linear"].argmax(1) == labels["test"]).mean() > 0.9
        assert file["estimate"].shape == (20, 10)


def test_a_network_may_begin_with_random_weights(tmp_path: Path):
    images = some_images(torch.Generator().manual_seed(0))
    teaching = held.Teaching(
        images, replace(PLAN, imitate=None), data="mnist", compute=Compute(), folder=tmp_path
    )  # fmt: skip
    assert teaching.imitated(np.zeros((96, 5), dtype=np.float32)) is None
    one, again, other = ([weight.clone() for weight in teaching.begun(None, seed).parameters()] for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    assert not torch.equal(one[0], other[0])


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
