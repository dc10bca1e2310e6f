from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recordwise.errors import ChangedInput, InvalidInput
from recordwise.labels import decode
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.students.counts import Asked, learn_from_counts, tables_of
from recordwise.students.held_network import (
    Alignment,
    CountsNetwork,
    HeldToCounts,
    averaged,
    choose_labelled,
    classes_differ,
    hold_to_counts,
    pseudo_labels,
    surest,
    tempered,
)
from recordwise.vision.augment import Augment
from recordwise.vision.steps import Compute
from recordwise.vision.supervised import Supervised, train
from recordwise.vision.training import TrainingRun
from recordwise.votes import Ballot, Votes

CPU = Compute(device="cpu")
SETTINGS = HeldToCounts(
    epochs=12, batch=64, labelled_batch=16, first_epochs=3, ask_every=1, rate=0.1, keep=0.95,
    sure=0.6, mirror=False, weak=Augment(), strong=Augment(cutout=1),
)  # fmt: skip


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images bright on the left (class 0) or on the right (1), and their queries.

    Of class 0 more images belong to query 1, where class 1 leads, than to query 0.
    """
    rng = np.random.default_rng(seed)
    query = (rng.random(count) < 0.8).astype(np.int64)
    label = np.where(query == 1, (rng.random(count) < 0.6).astype(np.int64), 0)
    images = rng.integers(0, 120, (count, 6, 6)).astype(np.uint8)
    images[label == 0, :, :3] += 60
    images[label == 1, :, 3:] += 60
    return images, label, query


def task(epsilon: Fraction = Fraction(1)) -> tuple[np.ndarray, np.ndarray, Asked]:
    images, label, query = drawn(900, 0)
    _, theirs, asked = drawn(3000, 1)
    protocol = CentralLaplace(ballot=Ballot(num_queries=2, num_classes=2), epsilon=epsilon)
    votes = Votes(protocol.ballot, asked[:, None], theirs[:, None])
    noise = SeededNoise(0)
    released = protocol.server([protocol.client(votes, noise)], noise)
    return images, label, Asked(release=released, owner=query, num_records=3000)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 2))


def test_a_network_held_to_the_counts_beats_one_taught_the_labels():
    images, _, asked = task()
    sizes = np.bincount(asked.owner)
    hard = decode(asked.release, sizes=sizes, graph=None, num_records=3000, decoder="posterior").hard
    settings = Supervised(epochs=12, batch=64, view=Augment(), rate=0.1, keep=0.95)
    labels = torch.eye(2)[hard[asked.owner]]
    taught = train(network(), CPU.images(images), labels, torch.ones(900), settings, run=TrainingRun())
    held = CountsNetwork(network(), SETTINGS).fit(images, asked)
    test, wanted, _ = drawn(600, 2)
    assert (averaged([taught], test, compute=CPU, mirror=False).argmax(1) == wanted).mean() < 0.7
    assert (held.predict(test) == wanted).mean() > 0.95


def test_without_a_release_the_first_answers_teach():
    images, label, _ = task()
    first = np.where(label[:, None] == np.arange(2), 0.7, 0.3)
    held = CountsNetwork(network(), SETTINGS).fit(images, [], first=first)
    test, wanted, _ = drawn(600, 2)
    assert (held.predict(test) == wanted).mean() > 0.9


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path):
    images, _, asked = task()

    def stop(epoch: int, value: float) -> None:
        if epoch == 6:
            raise KeyboardInterrupt

    def fitted(**run: Any) -> CountsNetwork:
        return CountsNetwork(network(), replace(SETTINGS, ask_every=2), run=TrainingRun(**run)).fit(images, asked)

    whole = fitted()
    with pytest.raises(KeyboardInterrupt):
        fitted(checkpoint=tmp_path / "run.pt", checkpoint_every=3, progress=stop)
    resumed = fitted(checkpoint=tmp_path / "run.pt", checkpoint_every=3)
    assert torch.equal(whole.network_[1].weight, resumed.network_[1].weight)  # type: ignore[index]
    other = replace(asked, release=replace(asked.release, estimate=asked.release.estimate + 1))  # type: ignore[type-var, union-attr]
    first = learn_from_counts(images, [asked]).probabilities
    with pytest.raises(ChangedInput, match="SHA-256 of tally 0"):
        CountsNetwork(network(), replace(SETTINGS, ask_every=2), run=TrainingRun(checkpoint=tmp_path / "run.pt")).fit(
            images, other, first=first
        )


def test_several_releases_teach_one_network_and_several_networks_answer_together():
    images, _, asked = task()
    other = replace(asked, owner=np.zeros(900, dtype=np.int64))
    one, two = (
        CountsNetwork(network(), replace(SETTINGS, epochs=4), run=TrainingRun(seed=seed)).fit(images, [asked, other])
        for seed in (0, 1)
    )
    both = averaged([one.network_, two.network_], images, compute=CPU, mirror=False)
    np.testing.assert_allclose(both, (one.predict_proba(images) + two.predict_proba(images)) / 2)


def test_answers_move_to_the_first_ones_shares_as_far_as_the_release_tells_them():
    _, _, asked = task(Fraction(1000))
    _, _, loud = task(Fraction(1, 1000))
    first = np.where(asked.owner[:, None] == 0, [0.99, 0.01], [0.4, 0.6])
    answers = np.full((900, 2), 0.5)

    def shares(one: Asked) -> np.ndarray:
        [table] = tables_of([one])
        return np.asarray(table.mean @ Alignment(first, [table])(answers, 0.0))

    known, unknown = shares(asked), shares(loud)
    assert known[0, 0] > 0.8
    assert abs(known[1, 0] - 0.4) < 0.1
    np.testing.assert_allclose(unknown, unknown.mean(axis=0, keepdims=True).repeat(2, axis=0), atol=0.01)


def test_classes_are_equally_common_unless_a_table_shows_otherwise():
    _, label, asked = task()
    _, _, loud = task(Fraction(1, 1000))
    clear, hidden = tables_of([asked])[0], tables_of([loud])[0]
    assert abs(label.mean() - 0.48) < 0.03
    skewed = replace(clear, cells=np.array([[600.0, 0.0], [1400.0, 1000.0]]))
    assert classes_differ(skewed)
    assert not classes_differ(replace(skewed, law=hidden.law))
    assert not classes_differ(replace(skewed, cells=np.array([[600.0, 0.0], [900.0, 1500.0]])))
    first = np.tile([0.6, 0.4], (900, 1))
    even = Alignment(first, [replace(skewed, law=hidden.law)]).opinion.mean(axis=0)
    uneven = Alignment(first, [skewed]).opinion.mean(axis=0)
    np.testing.assert_allclose(even, 0.5, atol=1e-3)
    np.testing.assert_allclose(uneven, [0.6, 0.4], atol=1e-3)


def test_first_answers_that_are_too_sure_are_flattened_in_their_order():
    logits = np.linspace(2, 60, 50)
    sure = np.stack([1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(logits))], axis=1)
    flat = tempered(sure)
    assert flat.max(axis=1).mean() == pytest.approx(0.9, abs=1e-3)
    assert (np.diff(flat[:, 0]) > 0).all()  # though most round to one as they came
    unsure = np.array([[0.6, 0.4], [0.3, 0.7]])
    np.testing.assert_allclose(tempered(unsure), unsure)


def test_the_surest_half_of_each_class_begins():
    answers = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4], [0.4, 0.6], [0.45, 0.55]])
    assert surest(answers, 0.5).tolist() == [True, True, False, False, True, False]


def test_a_class_that_few_are_sure_of_needs_less():
    answers = np.array([[0.99, 0.01], [0.98, 0.02], [0.7, 0.3], [0.2, 0.8], [0.35, 0.65]])
    label, counts = pseudo_labels(answers, HeldToCounts(sure=0.95, leniency=0.25))
    assert label.tolist() == [0, 0, 0, 1, 1]
    assert counts.tolist() == [1, 1, 0, 1, 0]
    assert pseudo_labels(answers, HeldToCounts(sure=0.95, leniency=0.01))[1].tolist() == [1, 1, 0, 0, 0]


def test_first_labels_come_from_every_class_and_from_at_most_half_of_a_query():
    rng = np.random.default_rng(0)
    answers = rng.dirichlet((8, 1, 0.2), size=400)
    owner = np.arange(400) // 100
    answers[:100] = (0.98, 0.01, 0.01)  # one query is surer than all others
    chosen = choose_labelled(answers, owner, HeldToCounts(labelled=0.4), seed=0)
    taken = np.bincount(owner[chosen], minlength=4)
    assert taken[0] == 50
    assert taken[1:].min() > 10
    assert 1 in answers[chosen].argmax(1)
    assert chosen[answers[:, 2].argmax()]  # the likeliest of a class that leads nowhere
    assert not np.array_equal(chosen, choose_labelled(answers, owner, HeldToCounts(labelled=0.4), seed=1))


def test_what_cannot_teach_is_refused_in_one_line():
    images, _, asked = task()
    with pytest.raises(InvalidInput, match="neither"):
        CountsNetwork(network(), SETTINGS).fit(images, [])
    pixels, first = CPU.images(images), torch.full((900, 2), 0.5)
    wrong = {
        "one row for each of the 900 images": (first[:5], []),
        "probabilities": (first + 1, []),
        "classes of first": (torch.full((900, 3), 0.3), tables_of([asked])),
        "900 images and 2 classes": (first, tables_of([replace(asked, owner=asked.owner[:5])])),
    }
    for said, (given, tables) in wrong.items():
        with pytest.raises(InvalidInput, match=said) as refusal:
            hold_to_counts(network(), pixels, given, tables, SETTINGS, run=TrainingRun())
        assert "\n" not in str(refusal.value)
    with pytest.raises(InvalidInput, match="sure"):
        HeldToCounts(sure=1.5)
    for opinion in (-0.1, 1.1, float("nan")):
        with pytest.raises(InvalidInput, match="opinion must lie between 0 and 1"):
            HeldToCounts(opinion=opinion)


@pytest.mark.parametrize("opinion", [0.0, 1.0])
def test_first_answers_stay_in_the_teachers_or_are_let_go_of(opinion: float):
    first, answers = np.array([[0.8, 0.2], [0.2, 0.8]]), np.full((2, 2), 0.5)
    aligned = Alignment(first, [])(answers, HeldToCounts(opinion=opinion).opinion)
    np.testing.assert_allclose(aligned, first if opinion else answers, atol=1e-6)
