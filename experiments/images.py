"""A split of a named data set as tensors on the device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recordwise.data import Rule, load, parts_of
from recordwise.vision.steps import Compute


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """The three parts on the device: (n, channels, height, width) uint8. True labels are for measuring only."""

    public: Tensor
    private: Tensor
    test: Tensor
    public_labels: Tensor
    private_labels: Tensor
    test_labels: Tensor

    @property
    def parts(self) -> dict[str, Tensor]:
        return {"public": self.public, "private": self.private, "test": self.test}


def load_arrays(name: str, rule: Rule, cache: Path) -> dict[str, NDArray[np.uint8]]:
    """A split of a named data set, decoded once and then read from `cache`."""
    if not cache.exists():
        parts = parts_of(load(name), rule)
        arrays = {}
        for part in ("public", "private", "test"):
            arrays[part] = getattr(parts, part).samples
            arrays[f"{part}_labels"] = np.asarray(getattr(parts, part).labels).astype(np.uint8)
        cache.parent.mkdir(parents=True, exist_ok=True)
        partial = cache.with_suffix(".part.npz")
        np.savez(partial, **arrays)
        partial.rename(cache)
    with np.load(cache) as file:
        return dict(file)


def load_images(name: str, rule: Rule, cache: Path, compute: Compute, limit: int | None = None) -> Images:
    """Images and labels on the device."""
    arrays = load_arrays(name, rule, cache)
    return Images(
        **{part: compute.images(arrays[part][:limit]) for part in ("public", "private", "test")},
        **{
            part: torch.from_numpy(arrays[part][:limit]).long().to(compute.device)
            for part in ("public_labels", "private_labels", "test_labels")
        },
    )
