from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from torch import nn

from recordwise.errors import InvalidInput
from recordwise.students import TorchStudent

IMAGES, DIGITS = load_digits().images.astype(np.float32) / 16, load_digits().target
HALF = len(IMAGES) // 2


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 10))


def test_a_module_learns_images() -> None:
    seen = []
    student = TorchStudent(network, epochs=15, rate=1e-2, progress=lambda epoch, loss: seen.append((epoch, loss)))
    student.fit(IMAGES[:HALF], DIGITS[:HALF])
    assert student.score(IMAGES[HALF:], DIGITS[HALF:]) > 0.88
    assert [epoch for epoch, _ in seen] == list(range(1, 16))
    assert seen[-1][1] < seen[0][1]
    np.testing.assert_allclose(student.predict_proba(IMAGES).sum(axis=1), 1)


def test_training_is_a_function_of_its_seed_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()

    def probabilities(seed: int) -> np.ndarray:
        return TorchStudent(network, epochs=2, seed=seed).fit(IMAGES, DIGITS).predict_proba(IMAGES[:5])

    assert np.array_equal(probabilities(1), probabilities(1))
    assert not np.array_equal(probabilities(1), probabilities(2))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_given_module_is_copied_and_trained_on_from_its_weights() -> None:
    module = network()
    with torch.no_grad():
        module[4].bias[7] = 1e6
    student = TorchStudent(module, epochs=1, rate=1e-9).fit(IMAGES, DIGITS)
    assert (student.predict(IMAGES) == 7).all()
    assert student.module_ is not module
    assert torch.equal(clone(student).module[4].bias, module[4].bias)


def test_training_stops_on_a_part_of_the_pool_when_asked_to() -> None:
    seen = []
    noise = np.random.default_rng(0).integers(0, 10, len(IMAGES))  # nothing to learn: the loss aside soon rises
    student = TorchStudent(
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 500), nn.ReLU(), nn.Linear(500, 10)),
        epochs=60,
        rate=1e-2,
        patience=3,
        progress=lambda epoch, loss: seen.append(epoch),
    )
    student.fit(IMAGES, noise)
    assert len(seen) < 60


def test_a_fitted_student_can_be_pickled() -> None:
    student = TorchStudent(network(), epochs=1).fit(IMAGES, DIGITS)
    assert np.array_equal(pickle.loads(pickle.dumps(student)).predict(IMAGES), student.predict(IMAGES))


@pytest.mark.parametrize(
    ("settings", "answers", "rule"),
    [
        ({"module": "resnet"}, DIGITS, "module must be a PyTorch module or make one, got str"),
        ({"module": network, "epochs": 0}, DIGITS, "epochs must be a whole number >= 1"),
        ({"module": network, "rate": float("nan")}, DIGITS, "rate must be > 0, got nan"),
        ({"module": network}, DIGITS + 1, r"classes must be integers in \[0, 10\)"),
        ({"module": network}, np.zeros((len(IMAGES), 3)), r"targets must have shape \(1797, 10\), got \(1797, 3\)"),
        ({"module": nn.Identity()}, DIGITS, "must give logits of shape"),
    ],
)
def test_what_cannot_be_learned_is_refused(settings: dict, answers: np.ndarray, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        TorchStudent(**settings).fit(IMAGES, answers)
