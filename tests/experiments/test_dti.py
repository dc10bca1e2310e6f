from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from experiments.dti import cluster, settings
from experiments.images import Images

from recordwise.vision.dti import Transform
from recordwise.vision.steps import Compute


def test_the_seed_that_rebuilds_the_pool_best_is_kept_and_its_clusters_are_written(tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (60, 1, 12, 12), generator=generator).byte()
    labels = torch.randint(0, 10, (60,), generator=generator)
    images = Images(
        public=pixels[:40], private=pixels[40:50], test=pixels[50:],
        public_labels=labels[:40], private_labels=labels[40:50], test_labels=labels[50:],
    )  # fmt: skip
    cluster(images, settings(3, 10), [1, 2], compute=Compute(device="cpu"), folder=tmp_path)
    said = json.loads((tmp_path / "dti.json").read_text())
    assert said["kept"] == min((1, 2), key=lambda seed: said[f"seed{seed}_error"])
    with np.load(tmp_path / "clusters.npz") as file:
        assert {part: len(file[part]) for part in file.files} == {"public": 40, "private": 10, "test": 10}
        assert file["public"].max() < 3


def test_the_curriculum_stretches_with_the_epochs():
    assert settings(10, 150).ways(149) == settings(10, 10).ways(9) == tuple(Transform)
    assert settings(10, 150).ways(2) == ()
