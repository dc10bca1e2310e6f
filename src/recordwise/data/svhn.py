"""Street View House Numbers (Netzer et al. 2011), cropped digits: 99,289 colour images of 32 × 32 pixels.

For non-commercial use only, by the data set's own terms. Two sources that agree closely, not bit for bit:
the published `train_32x32.mat` / `test_32x32.mat`, or strips of digits cut from the full images (format 1), which keep
a digit smaller than 32 pixels at its own size and are enlarged here. Say which one a result comes from.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Loaded
from recordwise.data.source import Remote, verified
from recordwise.data.webp import read_strips, verified_array

CLASSES = tuple("0123456789")
SIDE = 32

_PUBLISHER = "http://ufldl.stanford.edu/housenumbers/"
REMOTES = (
    Remote(name="train_32x32.mat", urls=(_PUBLISHER + "train_32x32.mat",), md5="e26dedcc434d2e4c54c9b2d4a06d8373"),
    Remote(name="test_32x32.mat", urls=(_PUBLISHER + "test_32x32.mat",), md5="eb5a983be6a315427106f1b164d9cef3"),
)

_SHA256 = {  # of the arrays decoded from strips
    "train": (
        "ca8cccaaf9e57f39e7a3fad50826d47f1c13b05f3f324d27707cbaa13b6062f2",
        "6a6e359bb9ecc6ce40896703f7b224715776155fe39710e0ddb8008a18172c6f",
    ),
    "test": (
        "8041de0c60d37b29edab90d40c9d492eba5c1cc1c8786cf67a36429e6d94dc7d",
        "c2488ef300c629f4bd90a3d2a7b4141589e5b5a4f9046845dfc1a9021319e31a",
    ),
}


def read_svhn(folder: Path) -> tuple[Loaded, Loaded]:
    """Training and test images, uint8 of shape (n, 32, 32, 3), with their digits."""
    if all((folder / remote.name).exists() for remote in REMOTES):
        train, test = (_read_mat(verified(folder / remote.name, remote.md5)) for remote in REMOTES)
        return train, test
    return _read_strips(folder, "train"), _read_strips(folder, "test")


def enlarge(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Square images (n, side, side, 3) at 32 × 32: rows, then columns, rounded to integers after each pass.

    Every weight is a multiple of 2^-18, so the sums are exact in float64 and equal on every machine.
    """
    weights = bicubic(images.shape[1])
    large = np.empty((len(images), SIDE, SIDE, 3), dtype=np.uint8)
    for start in range(0, len(images), 1000):
        some = images[start : start + 1000].astype(np.float64)
        n, side = some.shape[:2]
        tall = _to_bytes(weights @ some.reshape(n, side, side * 3)).reshape(n, SIDE, side, 3)
        large[start : start + 1000] = _to_bytes(weights @ tall)
    return large


def bicubic(side: int) -> NDArray[np.float64]:
    """(32, side) weights of Keys' kernel, a = -1/2, on pixel centres; beyond the edge the image is mirrored."""
    centre = (np.arange(SIDE) + 0.5) * side / SIDE - 0.5
    distance = np.abs(centre[:, None] - np.arange(-2, side + 2))  # two pixels beyond either edge
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    weights = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    inside = weights[:, 2:-2]
    inside[:, [0, 1]] += weights[:, [1, 0]]
    inside[:, [-1, -2]] += weights[:, [-2, -1]]
    return inside


def _to_bytes(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(np.floor(values + 0.5), 0, 255)


def _read_strips(folder: Path, part: str) -> Loaded:
    sides = np.fromfile(folder / f"{part}-sizes.bin", dtype=np.uint8)
    digits = np.fromfile(folder / f"{part}-labels.bin", dtype=np.uint8)
    images = np.empty((len(sides), SIDE, SIDE, 3), dtype=np.uint8)
    for side in np.unique(sides).tolist():
        cut = read_strips(folder / part, f"s{side:02d}-*.webp", side)
        images[sides == side] = cut if side == SIDE else enlarge(cut)
    verified_array(f"SVHN {part} images", images, _SHA256[part][0])
    verified_array(f"SVHN {part} labels", digits, _SHA256[part][1])
    return Loaded(samples=images, labels=digits.astype(np.int64))


def _read_mat(path: Path) -> Loaded:
    from scipy.io import loadmat

    content = loadmat(path)
    digits = content["y"].ravel().astype(np.int64) % 10  # the file writes the digit 0 as 10
    return Loaded(samples=np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2)), labels=digits)
