"""Features small enough to commit: principal components of the pool's features, in thirty-one steps each.

A column's step is a fifteenth of its largest value in the pool; what lies beyond elsewhere is clipped. That adds about
a hundredth to a column's variance and packs into half a byte. What is written is what everybody reads, on the machine
that made it too, so labels from committed features are the labels of the results.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Ints

PARTS = ("public", "private", "test")
STEPS = 15


def write(path: Path, features: dict[str, NDArray[np.float32]], clusters: dict[str, Ints], *, dims: int) -> None:
    """Keep the widest `dims` directions of the pool and, where a network has them, cluster numbers."""
    centre = features["public"].mean(0)
    spread = (features["public"] - centre).astype(np.float64)
    axes = np.linalg.eigh(spread.T @ spread)[1][:, : -dims - 1 : -1].astype(np.float32)  # widest first
    turned = {part: (features[part] - centre) @ axes for part in PARTS}
    scale = np.abs(turned["public"]).max(0) / STEPS
    kept = {part: np.clip(np.rint(x / scale), -STEPS, STEPS).astype(np.int8) for part, x in turned.items()}
    kept |= {f"{part}_clusters": numbers.astype(np.uint8) for part, numbers in clusters.items()}
    partial = path.with_suffix(".part.npz")
    np.savez_compressed(partial, scale=scale.astype(np.float32), **kept)
    partial.rename(path)


def read(path: Path) -> tuple[dict[str, NDArray[np.float32]], dict[str, Ints]]:
    """Features and cluster numbers of each part."""
    with np.load(path) as file:
        features = {part: file[part].astype(np.float32) * file["scale"] for part in PARTS}
        clusters = {p: file[f"{p}_clusters"].astype(np.int64) for p in PARTS if f"{p}_clusters" in file}
    return features, clusters
