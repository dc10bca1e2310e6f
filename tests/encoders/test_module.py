from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from recordwise.encoders import TorchEncoder, as_tensor
from recordwise.errors import InvalidInput
from recordwise.hashing import fingerprint

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)


def test_any_module_encodes_in_batches() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5))
    module.train()
    whole = TorchEncoder(module).fit(IMAGES).transform(IMAGES)
    assert whole.shape == (5, 2 * 2 * 4)
    assert whole.dtype == np.float32
    np.testing.assert_allclose(TorchEncoder(module, batch_size=2).fit(IMAGES).transform(IMAGES), whole, atol=1e-6)
    assert module.training  # encoding borrows the module, and learns nothing
    assert not module[1].running_mean.any()


def test_prepare_says_what_the_module_sees() -> None:
    encoder = TorchEncoder(nn.Identity(), prepare=lambda batch: torch.tensor([[len(text)] for text in batch]))
    assert encoder.fit(["a", "bb"]).transform(["a", "bb", "ccc"]).tolist() == [[1], [2], [3]]


def test_images_become_channels_first_between_zero_and_one() -> None:
    tensor = as_tensor(IMAGES)
    assert tensor.shape == (5, 3, 4, 6)
    assert torch.equal(tensor[2, 1], torch.from_numpy(IMAGES[2, :, :, 1]).float() / 255)
    assert as_tensor(IMAGES[..., 0]).shape == (5, 1, 4, 6)
    assert torch.equal(as_tensor(np.array([[1.5, 300.0]])), torch.tensor([[1.5, 300.0]]))


def test_an_encoder_around_a_module_can_be_cloned() -> None:
    encoder = TorchEncoder(nn.Linear(3, 2))
    twin = clone(encoder)
    samples = np.eye(3)
    assert np.array_equal(twin.transform(samples), encoder.transform(samples))


def test_what_is_not_a_module_is_refused() -> None:
    with pytest.raises(InvalidInput, match="must be a PyTorch module, got str"):
        TorchEncoder("resnet").fit(IMAGES)


def test_an_encoder_prints_its_kind_and_a_hash_of_every_weight() -> None:
    module = nn.Linear(3, 2)
    encoder = TorchEncoder(module)
    assert repr(encoder) == f"TorchEncoder(Linear, SHA-256 {encoder.fingerprint})"
    assert fingerprint(TorchEncoder(module, device="meta", batch_size=7)) == fingerprint(encoder)  # where, not what
    assert fingerprint(TorchEncoder(module, prepare=torch.tensor)) != fingerprint(encoder)
    before = fingerprint(encoder)
    module.weight.data[1, 2] += 1e-6
    assert fingerprint(encoder) != before
    assert repr(TorchEncoder(module.bfloat16())) == repr(TorchEncoder(module))


def test_pixels_on_a_scale_that_nobody_knows_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"images must be bytes, or floats .*, got uint16"):
        as_tensor(IMAGES.astype(np.uint16))
