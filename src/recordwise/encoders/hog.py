"""Histograms of oriented gradients (Dalal and Triggs 2005): what edges run where, whatever the light.

Nothing is learned, so nothing has to be: the encoder is the same public function for everyone. An image's histograms
are a function of that image alone, to the last bit: each operation is one that IEEE 754 defines (+, −, ×, ÷, √,
comparisons) and sums run in a fixed order. Angles are never computed: arctangents are rounded as a library pleases.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from recordwise.data.samples import Samples, rows
from recordwise.encoders.numbers import as_numbers, finite_rows
from recordwise.errors import InvalidInput, whole

_CHUNK = 256  # images at a time: their gradients stay in the cache
EPSILON = 1e-5  # keeps a block without any edge at zero
_MOST_PIXELS, _MOST_DIM = 1 << 24, 1 << 20  # of one image, and values of it, that anybody may ask for
CLIP = 0.2  # one strong edge does not drown its neighbours


class Hog(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Images to unit-length gradient histograms of overlapping blocks.

    Per pixel, the gradient of the channel where it is longest (central differences, zero at the border); per cell, the
    length-weighted histogram of its direction modulo 180°; per block of cells, L2 normalisation, clipping at 0.2 and L2
    again. Pixels beyond the last whole cell are left out. An image of another shape than the pool's, or whose numbers
    are not finite or too large to be squared in float32, is a row of NaN.

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

    def holds(self) -> bool:
        """Whether its state is such as `fit` leaves; see `recordwise.encoders.encoding`."""
        sides = (self.cell_, self.block, self.orientations, *self.shape_)
        return (
            all(isinstance(side, int | np.integer) and side >= 1 for side in sides)
            and len(self.shape_) in (2, 3)
            and min(self.shape_[:2]) // self.cell_ >= self.block
            and math.prod(self.shape_) <= _MOST_PIXELS
            and self._dim <= _MOST_DIM
        )

    @property
    def width(self) -> int:
        """How many numbers one image is, before and after."""
        return math.prod(self.shape_) + self._dim

    @property
    def _dim(self) -> int:
        down, across = (self.shape_[axis] // self.cell_ for axis in (0, 1))
        blocks = (down - self.block + 1) * (across - self.block + 1)
        return int(blocks * self.block**2 * self.orientations)

    def transform(self, samples: Samples) -> NDArray[np.float32]:
        vectors = np.empty((len(samples), self._dim), dtype=np.float32)
        for start in range(0, len(samples), _CHUNK):
            images = as_numbers(rows(samples, slice(start, start + _CHUNK)), self.shape_)
            found = vectors[start : start + _CHUNK]
            with np.errstate(over="ignore", invalid="ignore"):  # of images that are not encoded
                found[:] = self._blocks(self._histograms(images))
            found[~(finite_rows(images) & finite_rows(found))] = np.nan
        return vectors

    def _histograms(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """(orientations, n, cells down, cells across) mean gradient length per direction."""
        cell, count = self.cell_, self.orientations
        dy, dx = np.zeros_like(images), np.zeros_like(images)
        np.subtract(images[:, 2:], images[:, :-2], out=dy[:, 1:-1])
        np.subtract(images[:, :, 2:], images[:, :, :-2], out=dx[:, :, 1:-1])
        square = dy * dy + dx * dx
        if images.ndim == 4:
            strongest = square.argmax(axis=3)[..., None]
            dy, dx, square = (np.take_along_axis(part, strongest, axis=3)[..., 0] for part in (dy, dx, square))
        n, down, across = len(images), images.shape[1] // cell, images.shape[2] // cell
        dy, dx, square = (part[:, : down * cell, : across * cell] for part in (dy, dx, square))
        bins = _directions(dy, dx, count)
        row = np.arange(down * cell)[:, None] // cell
        column = np.arange(across * cell) // cell
        place = (np.arange(n)[:, None, None] * down + row) * across + column
        sums = np.bincount((place * count + bins).ravel(), np.sqrt(square).ravel(), minlength=n * down * across * count)
        return (sums / cell**2).astype(np.float32).reshape(n, down, across, count).transpose(3, 0, 1, 2)

    def _blocks(self, histograms: NDArray[np.float32]) -> NDArray[np.float32]:
        """(n, values) of all blocks of each image, L2-Hys.

        Until the end a value is a plane over all images and blocks: adding planes one by one fixes the order of sums.
        """
        count, n, down, across = histograms.shape
        side = self.block
        high, wide = down - side + 1, across - side + 1
        planes = np.empty((side, side, count, n, high, wide), dtype=np.float32)
        for y in range(side):
            for x in range(side):
                planes[y, x] = histograms[:, :, y : y + high, x : x + wide]
        values = planes.reshape(-1, n, high, wide)
        for clip in (CLIP, np.inf):
            total = np.full((n, high, wide), EPSILON**2, dtype=np.float32)
            for value in values:
                total += value * value
            values /= np.sqrt(total)
            np.minimum(values, np.float32(clip), out=values)
        return values.transpose(1, 2, 3, 0).reshape(n, -1)


def _directions(dy: NDArray[np.float32], dx: NDArray[np.float32], count: int) -> NDArray[np.unsignedinteger[Any]]:
    """The bin of each gradient's direction modulo 180°, by comparing its cotangent with those of the bins' borders."""
    cotangent = np.full(dy.shape, np.inf, dtype=np.float32)  # along the x axis the angle is zero
    np.divide(dx, dy, out=cotangent, where=dy != 0)
    bins = np.zeros(dy.shape, dtype=np.min_scalar_type(count))  # bytes are added up faster than words
    for border in range(1, count):
        bins += cotangent <= np.float32(1 / math.tan(math.pi * border / count))
    return bins


def _as_images(samples: Samples) -> NDArray[Any]:
    images = np.asarray(samples)
    if images.ndim not in (3, 4) or not (np.issubdtype(images.dtype, np.number) or images.dtype == np.bool_):
        raise InvalidInput(f"images must be numbers of shape (n, h, w) or (n, h, w, channels), got {images.shape}")
    return images
