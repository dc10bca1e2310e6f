from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recordwise.errors import ChangedInput, InvalidInput
from recordwise.labels import decode
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.vision.augment import Augment
from recordwise.vision.held import Counted, CountsNetwork, HeldToCounts, averaged, choose_labelled, pseudo_labels
from recordwise.vision.steps import Compute
from recordwise.vision.supervised import Supervised, train
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


def task(epsilon: Fraction = Fraction(1)) -> tuple[np.ndarray, np.ndarray, Counted]:
    images, label, query = drawn(900, 0)
    _, theirs, asked = drawn(3000, 1)
    protocol = CentralLaplace(ballot=Ballot(num_queries=2, num_classes=2), epsilon=epsilon)
    votes = Votes(protocol.ballot, asked[:, None], theirs[:, None])
    noise = SeededNoise(0)
    released = protocol.server([protocol.client(votes, noise)], noise)
    return images, label, Counted(owner=query, tally=released, records=3000)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 2))


def test_a_network_held_to_the_counts_beats_one_taught_the_labels():
    images, _, counted = task()
    hard = decode(counted.tally, sizes=counted.sizes, graph=None, num_records=3000, decoder="posterior").hard
    settings = Supervised(epochs=12, batch=64, view=Augment(), rate=0.1, keep=0.95)
    labels = torch.eye(2)[hard[counted.owner]]
    taught = train(network(), CPU.images(images), labels, torch.ones(900), settings, seed=0, compute=CPU)
    held = CountsNetwork(network(), SETTINGS).fit(images, counted)
    test, wanted, _ = drawn(600, 2)
    assert (averaged([taught], test, compute=CPU, mirror=False).argmax(1) == wanted).mean() < 0.7
    assert (held.predict(test) == wanted).mean() > 0.95


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path):
    images, _, counted = task()

    def stop(epoch: int, value: float) -> None:
        if epoch == 6:
            raise KeyboardInterrupt

    def fitted(**more: object) -> CountsNetwork:
        return CountsNetwork(network(), replace(SETTINGS, ask_every=2), **more).fit(images, counted)  # type: ignore[arg-type]

    whole = fitted()
    with pytest.raises(KeyboardInterrupt):
        fitted(checkpoint=tmp_path / "run.pt", checkpoint_every=3, progress=stop)
    resumed = fitted(checkpoint=tmp_path / "run.pt", checkpoint_every=3)
    assert torch.equal(whole.network_[1].weight, resumed.network_[1].weight)  # type: ignore[index]
    other = replace(counted, tally=replace(counted.tally, estimate=counted.tally.estimate + 1))
    with pytest.raises(ChangedInput, match="SHA-256 of first"):
        CountsNetwork(network(), replace(SETTINGS, ask_every=2), checkpoint=tmp_path / "run.pt").fit(images, other)


def test_several_releases_teach_one_network_and_several_networks_answer_together():
    images, _, counted = task()
    other = replace(counted, owner=np.zeros(900, dtype=np.int64), tally=replace(counted.tally))
    one, two = (
        CountsNetwork(network(), replace(SETTINGS, epochs=4), seed=seed).fit(images, [counted, other])
        for seed in (0, 1)
    )
    both = averaged([one.network_, two.network_], images, compute=CPU, mirror=False)
    np.testing.assert_allclose(both, (one.predict_proba(images) + two.predict_proba(images)) / 2)


def test_a_class_that_few_are_sure_of_needs_less():
    answers = torch.tensor([[0.99, 0.01], [0.98, 0.02], [0.7, 0.3], [0.2, 0.8], [0.35, 0.65]])
    label, counts = pseudo_labels(answers, HeldToCounts(sure=0.95, leniency=0.25))
    assert label.tolist() == [0, 0, 0, 1, 1]
    assert counts.tolist() == [1, 1, 0, 1, 0]
    assert pseudo_labels(answers, HeldToCounts(sure=0.95, leniency=0.01))[1].tolist() == [1, 1, 0, 0, 0]


def test_first_labels_come_from_every_class_and_from_at_most_half_of_a_query():
    rng = np.random.default_rng(0)
    answers = torch.from_numpy(rng.dirichlet((8, 1, 0.2), size=400))
    owner = torch.arange(400) // 100
    answers[:100] = torch.tensor([0.98, 0.01, 0.01], dtype=torch.float64)  # one query is surer than all others
    chosen = choose_labelled(answers, owner, HeldToCounts(labelled=0.4), seed=0)
    taken = torch.bincount(owner[chosen], minlength=4)
    assert taken[0] == 50
    assert taken[1:].min() > 10
    assert 1 in answers[chosen].argmax(1)
    assert bool(chosen[answers[:, 2].argmax()])  # the likeliest of a class that leads nowhere
    assert not torch.equal(chosen, choose_labelled(answers, owner, HeldToCounts(labelled=0.4), seed=1))


def test_what_cannot_teach_is_refused_in_one_line():
    images, _, counted = task()
    wrong = {
        "owner": [replace(counted, owner=np.full(900, 2))],
        "900 images": [replace(counted, owner=counted.owner[:5])],
        "records": [replace(counted, records=0)],
        "neither": [],
    }
    for said, given in wrong.items():
        with pytest.raises(InvalidInput, match=said) as refusal:
            CountsNetwork(network(), SETTINGS).fit(images, given)
        assert "\n" not in str(refusal.value)
    with pytest.raises(InvalidInput, match="same classes"):
        CountsNetwork(network(), SETTINGS).fit(images, counted, first=np.full((900, 3), 0.3))
    with pytest.raises(InvalidInput, match="sure"):
        HeldToCounts(sure=1.5)
