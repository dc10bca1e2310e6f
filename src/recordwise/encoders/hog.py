"""Histograms of oriented gradients (Dalal and Triggs 2005): what edges run where, whatever the light.

Nothing is learned, so nothing has to be: the encoder is the same public function for everyone.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from recordwise.data.samples import Samples
from recordwise.errors import InvalidInput, whole

_CHUNK = 256  # images at a time: their gradients stay in the cache
_EPSILON = 1e-5  # keeps a block without any edge at zero
_CLIP = 0.2  # one strong edge does not drown its neighbours


class Hog(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Images to unit-length gradient histograms of overlapping blocks.

    Per pixel, the gradient of the channel where it is longest (central differences, zero at the border); per cell, the
    length-weighted histogram of its direction modulo 180°; per block of cells, L2 normalisation, clipping at 0.2 and L2
    again. Pixels beyond the last whole cell are left out.

    Args:
      cell: Side of a cell in pixels; None is an eighth of the shorter side of the pool's images, at least 2.
      block: Side of a block in cells.
      orientations: Directions told apart between 0° and 180°.
    """

    def __init__(self, cell: int | None = None, block: int = 2, orientations: int = 9) -> None:
        self.cell = cell
        self.block = block
        self.orientations = orientations

    def fit(self, pool: Samples, y: object = None) -> Self:
        images = _as_images(pool)
        shorter = min(images.shape[1], images.shape[2])
        cell = max(2, round(shorter / 8)) if self.cell is None else self.cell
        whole(cell=cell, block=self.block, orientations=self.orientations)
        if shorter // cell < self.block:
            raise InvalidInput(
                f"images must be at least {cell * self.block} pixels wide and high for blocks of {self.block} cells of "
                f"{cell} pixels, got {images.shape[1]} x {images.shape[2]}"
            )
        self.cell_ = cell
        self.shape_ = images.shape[1:]
        return self

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        images = _as_images(samples)
        if images.shape[1:] != self.shape_:
            raise InvalidInput(f"images must have the pool's shape {self.shape_}, got {images.shape[1:]}")
        down, across = images.shape[1] // self.cell_, images.shape[2] // self.cell_
        blocks = (down - self.block + 1, across - self.block + 1)
        vectors = np.empty((len(images), blocks[0] * blocks[1] * self.block**2 * self.orientations), dtype=np.float32)
        for start in range(0, len(images), _CHUNK):
            some = np.asarray(images[start : start + _CHUNK], dtype=np.float32)
            if not np.isfinite(some).all():
                raise InvalidInput(f"images must be finite, one of rows {start} to {start + len(some) - 1} is not")
            histograms = self._histograms(some)
            windows = sliding_window_view(
                histograms, (self.block, self.block), axis=(1, 2)
            )  # (n, y, x, o, block, block)
            flat = windows.transpose(0, 1, 2, 4, 5, 3).reshape(len(some), blocks[0] * blocks[1], -1)
            vectors[start : start + _CHUNK] = _normalised(flat).reshape(len(some), -1)
        return vectors

    def _histograms(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, cells down, cells across, orientations) mean gradient length per direction."""
        cell, count = self.cell_, self.orientations
        dy, dx = np.zeros_like(images), np.zeros_like(images)
        np.subtract(images[:, 2:], images[:, :-2], out=dy[:, 1:-1])
        np.subtract(images[:, :, 2:], images[:, :, :-2], out=dx[:, :, 1:-1])
        length = np.hypot(dy, dx)
        if images.ndim == 4:
            strongest = length.argmax(axis=3)[..., None]
            dy, dx, length = (np.take_along_axis(part, strongest, axis=3)[..., 0] for part in (dy, dx, length))
        n, down, across = len(images), images.shape[1] // cell, images.shape[2] // cell
        dy, dx, length = (part[:, : down * cell, : across * cell] for part in (dy, dx, length))
        direction = np.arctan2(dy, dx) * np.float32(count / np.pi)
        bins = np.floor(direction).astype(np.int64) % count
        row = np.arange(down * cell)[:, None] // cell
        column = np.arange(across * cell) // cell
        place = (np.arange(n)[:, None, None] * down + row) * across + column
        sums = np.bincount((place * count + bins).ravel(), length.ravel(), minlength=n * down * across * count)
        return (sums / cell**2).astype(np.float32).reshape(n, down, across, count)


def _normalised(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    """L2-Hys along the last axis."""
    for clip in (_CLIP, np.inf):
        length = np.sqrt(np.einsum("nbd,nbd->nb", blocks, blocks) + np.float32(_EPSILON**2))
        blocks = np.minimum(blocks / length[:, :, None], np.float32(clip))
    return blocks


def _as_images(samples: Samples) -> NDArray[Any]:
    images = np.asarray(samples)
    if images.ndim not in (3, 4) or not (np.issubdtype(images.dtype, np.number) or images.dtype == np.bool_):
        raise InvalidInput(f"images must be numbers of shape (n, h, w) or (n, h, w, channels), got {images.shape}")
    return images
