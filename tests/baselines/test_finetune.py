"""Fine-tuning by noisy SGD: the gradients are those of the closed form, shortened, and whole."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from recordwise.audit.bound import lower_bound
from recordwise.baselines import NoisySGDFineTune
from recordwise.baselines.estimator import Private
from recordwise.baselines.finetune import CHUNK, whole_gradients
from recordwise.baselines.noisy_sgd import gradient_sums
from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.randomness import seeded

CLASSES = 3


def network(dim: int) -> torch.nn.Module:
    rng = seeded(0, "network")
    made = torch.nn.Sequential(torch.nn.Linear(dim, 16), torch.nn.Tanh(), torch.nn.Linear(16, CLASSES))
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(torch.as_tensor(rng.normal(scale=dim**-0.5, size=tuple(weight.shape))))
    return made


def records(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = seeded(0, "records", str(count))
    labels = rng.integers(0, CLASSES, count)
    return (3 * np.eye(CLASSES, 4)[labels] + rng.normal(size=(count, 4))).astype(np.float32), labels


def tuned(**settings: object) -> NoisySGDFineTune:
    given = {"classes": range(CLASSES), "encoder": "scaler", "module": network(4), "steps": 20, **settings}
    return NoisySGDFineTune(8.0, **given)  # type: ignore[arg-type]


def test_the_last_block_is_trained_and_the_rest_stays() -> None:
    x, y = records(400)
    module = network(4)
    model = tuned(module=module, trained=("2.",), learning_rate=4.0, batch_rate=0.5).fit(x, y, X_public=x[:100])
    assert model.score(*records(200)) > 0.85
    before, after = dict(module.named_parameters()), dict(model.module_.named_parameters())
    assert torch.equal(before["0.weight"], after["0.weight"])
    assert not torch.equal(before["2.weight"], after["2.weight"])
    assert model.names_ == ["2.weight", "2.bias"]


@pytest.mark.parametrize("clip", [0.05, 100.0])
def test_gradients_agree_with_those_of_the_closed_form(clip: float) -> None:
    """A network of two dense layers, by PyTorch record by record and by `noisy_sgd` in matrix products."""
    x, y = records(6)
    model = tuned(clip=clip)
    model.module_ = model._copy()
    found = whole_gradients(model._gradients(torch.as_tensor(x), torch.as_tensor(y)), clip).sum(axis=0)
    first, offset, last, shift = (weight.detach().numpy().astype(np.float64) for weight in network(4).parameters())
    layers = [np.vstack([first.T, offset]), np.vstack([last.T, shift])]
    inputs = np.hstack([x.astype(np.float64), np.ones((6, 1))])
    sums = gradient_sums(layers, inputs, y, clip=clip)
    expected = np.concatenate([sums[0][:-1].T.ravel(), sums[0][-1], sums[1][:-1].T.ravel(), sums[1][-1]])
    np.testing.assert_allclose(found / 2**26, expected / 2**26, atol=6 * 2e-3)


def test_gradients_are_made_in_batches_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of records: how a product of floats is added up follows from its shape."""
    sizes: list[int] = []
    made = NoisySGDFineTune._gradients

    def spied(model: NoisySGDFineTune, inputs: torch.Tensor, labels: torch.Tensor) -> np.ndarray:
        sizes.append(len(labels))
        return made(model, inputs, labels)

    monkeypatch.setattr(NoisySGDFineTune, "_gradients", spied)
    for count in (3, 100):
        x, y = records(count)
        tuned(steps=2, batch_rate=1.0).fit(x, y, X_public=records(100)[0])
    assert sizes == [CHUNK] * 6


def test_what_fills_a_batch_up_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    totals: list[np.ndarray] = []

    def kept(total: np.ndarray, **settings: object) -> np.ndarray:
        totals.append(total)
        return np.zeros_like(total)

    monkeypatch.setattr("recordwise.baselines.finetune.noised", kept)
    x, y = records(70)
    model = tuned(steps=1, batch_rate=1.0).fit(x, y, X_public=x)
    gradients = model._gradients(torch.as_tensor(model._public_vectors(x)), torch.as_tensor(y))
    expected = whole_gradients(gradients, 1.0).sum(axis=0)
    np.testing.assert_allclose(totals[0] / 2**26, expected / 2**26, atol=1e-4)


def test_a_gradient_is_never_longer_than_clip_in_whole_steps() -> None:
    rows = whole_gradients(seeded(0, "g").normal(size=(50, 30)) * 9, 0.7)
    assert np.array_equal(rows, np.trunc(rows))
    for row in rows:
        assert sum(int(cell) ** 2 for cell in row) <= (0.7 * 2**26) ** 2


def test_mistakes_are_named() -> None:
    x, y = records(50)
    with pytest.raises(InvalidInput, match="PyTorch module"):
        tuned(module="net").fit(x, y, X_public=x)
    with pytest.raises(InvalidInput, match="trained must begin"):
        tuned(trained=("head",)).fit(x, y, X_public=x)


def test_draws_do_not_refute_the_guarantee_but_do_refute_its_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A healthy method fails this with probability at most 1e-9; its twin has a 25th of the noise.

    The twin's draws are five deviations apart, and 400 of them prove an epsilon of about 2. There is one step, so a
    record's gradient is the same in every draw and is made once.
    """
    module = torch.nn.Linear(1, 2)
    with torch.no_grad():
        for weight in module.parameters():
            weight.zero_()
    model = NoisySGDFineTune(1.0, classes=[0, 1], module=module, steps=1, batch_rate=0.9)
    one, other = (Private(vectors=np.ones((1, 1), np.float32), labels=np.array([y]), count=1) for y in (0, 1))
    model.fit(one.vectors, one.labels, noise=SeededNoise(0))

    def scores(private: Private) -> np.ndarray:
        model.module_, rows = copy.deepcopy(module), []
        vectors, labels = torch.as_tensor(private.vectors), torch.as_tensor(private.labels)
        once = NoisySGDFineTune._gradients(model, vectors, labels).repeat(CHUNK, axis=0)
        monkeypatch.setattr(model, "_gradients", lambda inputs, labels: once)
        for _ in range(400):
            model.module_ = copy.deepcopy(module)
            weights = model.release(private, SystemNoise())["weight_0"]
            rows.append([float(weights[0, 0] - weights[1, 0])])
        return np.array(rows)

    kept = lower_bound(scores(one), scores(other), delta=1e-5, failure=1e-9)
    model.noise_multiplier_ /= 25
    broken = lower_bound(scores(one), scores(other), delta=1e-5, failure=1e-9)
    assert kept.epsilon <= 1 < broken.epsilon
