"""CIFAR-10 (Krizhevsky 2009): 60,000 colour images of 32 × 32 pixels, from the published archive or from strips."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from recordwise.data.samples import Loaded
from recordwise.data.source import Remote, verified
from recordwise.data.webp import read_strips, verified_array
from recordwise.errors import InvalidInput

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

ARCHIVE = Remote(
    name="cifar-10-python.tar.gz",
    urls=("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
    md5="c58f30108f718f92721af3b95e74349a",
)
REMOTES = (ARCHIVE,)

_SHA256 = {  # of the decoded arrays
    "train": (
        "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
    ),
    "test": (
        "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    ),
}


def read_cifar10(folder: Path) -> tuple[Loaded, Loaded]:
    """Training and test images, uint8 of shape (n, 32, 32, 3), with their classes."""
    if (folder / ARCHIVE.name).exists():
        return _read_archive(verified(folder / ARCHIVE.name, ARCHIVE.md5))
    return _read_strips(folder, "train"), _read_strips(folder, "test")


def _read_strips(folder: Path, part: str) -> Loaded:
    images = read_strips(folder, f"{part}-*.webp", 32)
    classes = np.fromfile(folder / f"{part}-labels.bin", dtype=np.uint8)
    verified_array(f"CIFAR-10 {part} images", images, _SHA256[part][0])
    verified_array(f"CIFAR-10 {part} labels", classes, _SHA256[part][1])
    return Loaded(samples=images, labels=classes.astype(np.int64))


def _read_archive(path: Path) -> tuple[Loaded, Loaded]:
    parts: dict[str, list[Any]] = {"data_batch": [], "test_batch": []}
    with tarfile.open(path) as archive:
        for member in sorted(archive.getmembers(), key=lambda member: member.name):
            part = Path(member.name).name.rstrip("_12345")
            if part in parts and (file := archive.extractfile(member)):
                parts[part].append(_Batch(io.BytesIO(file.read()), encoding="bytes").load())
    train, test = (
        Loaded(
            samples=np.concatenate([batch[b"data"] for batch in batches]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1),
            labels=np.concatenate([batch[b"labels"] for batch in batches]).astype(np.int64),
        )
        for batches in parts.values()
    )
    return train, test


class _Batch(pickle.Unpickler):
    """The published batches are pickles; only what an array needs may be named in one."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype"):
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        raise InvalidInput(f"a CIFAR-10 batch must hold arrays only, this one names {module}.{name}")
