"""Strips: many small images one above the other in one lossless WebP file, a tenth the files and half the bytes."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput


def read_strips(folder: Path, pattern: str, side: int) -> NDArray[np.uint8]:
    """(n, side, side, 3): the images of every strip that matches, in the order of the files' names."""
    from PIL import Image

    images = []
    for path in sorted(folder.glob(pattern)):
        with Image.open(path) as strip:
            pixels = np.asarray(strip.convert("RGB"))
        if pixels.shape[1] != side or pixels.shape[0] % side:
            raise InvalidInput(f"{path.name} must be a strip of {side} pixel squares, got {pixels.shape[:2]}")
        images.append(pixels.reshape(-1, side, side, 3))
    if not images:
        raise FileNotFoundError(errno.ENOENT, "no strips", str(folder / pattern))
    return np.concatenate(images)


def verified_array(name: str, array: NDArray[np.uint8], sha256: str) -> NDArray[np.uint8]:
    """The array itself, once the SHA-256 of its bytes matches."""
    found = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
    if found != sha256:
        raise InvalidInput(f"{name} must have SHA-256 {sha256}, got {found}: its files are damaged or incomplete")
    return array
