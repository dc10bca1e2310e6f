"""MNIST (LeCun, Cortes, Burges): 70,000 handwritten digits of 28 × 28 pixels, in the four original idx files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Loaded
from recordwise.data.source import Remote, verified
from recordwise.errors import InvalidInput

CLASSES = tuple("0123456789")

_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")


def _file(name: str, md5: str) -> Remote:
    return Remote(name=name, urls=tuple(mirror + name for mirror in _MIRRORS), md5=md5)


REMOTES = (
    _file("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    _file("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
    _file("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
    _file("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
)


def read_mnist(folder: Path) -> tuple[Loaded, Loaded]:
    """Training and test images, uint8 of shape (n, 28, 28), with their digits."""
    images, digits, test_images, test_digits = (
        read_idx(verified(folder / remote.name, remote.md5)) for remote in REMOTES
    )
    return (
        Loaded(samples=images, labels=digits.astype(np.int64)),
        Loaded(samples=test_images, labels=test_digits.astype(np.int64)),
    )


def read_idx(path: Path) -> NDArray[np.uint8]:
    """The bytes of a gzipped idx file: two zeros, type, rank, big-endian sizes, then the array."""
    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\x00\x00\x08":
        raise InvalidInput(
            f"{path.name} must be an idx file of unsigned bytes, its magic number is {content[:4].hex()}"
        )
    start = 4 + 4 * content[3]
    shape = np.frombuffer(content[4:start], dtype=">u4")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape).copy()
