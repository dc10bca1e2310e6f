from __future__ import annotations

from pathlib import Path

import pytest
import torch

from recordwise.encoders.resnet import ResNet
from recordwise.encoders.saved import load_weights, save_weights
from recordwise.errors import ChangedInput, InvalidInput


def backbone(width: int = 2, mean: float = 0.5) -> ResNet:
    return ResNet(mean=[mean], deviation=[0.2], width=width)


def test_weights_come_back_as_they_were(tmp_path: Path):
    first, second = backbone().eval(), backbone(mean=0.1).eval()
    sha = save_weights(first, tmp_path / "w.safetensors")
    load_weights(second, tmp_path / "w.safetensors", sha256=sha)
    x = torch.rand(2, 1, 16, 16)
    assert torch.equal(first(x), second(x))
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]


def test_other_weights_are_refused(tmp_path: Path):
    path = tmp_path / "w.safetensors"
    save_weights(backbone(), path)
    with pytest.raises(ChangedInput, match="SHA-256"):
        load_weights(backbone(), path, sha256="0" * 64)
    with pytest.raises(InvalidInput, match="shape"):
        load_weights(backbone(width=3), path)
    with pytest.raises(InvalidInput, match="only one of the two"):
        load_weights(torch.nn.Linear(2, 2), path)
    with pytest.raises(InvalidInput, match="file"):
        load_weights(backbone(), tmp_path / "nothing")
