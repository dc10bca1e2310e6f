"""One image, brought to the schema's mode and size on its own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.held import channels_last

BYTES = "uint8"
GREY = np.array([0.299, 0.587, 0.114])  # ITU-R 601, as Pillow's
ALPHA = (2, 4)  # channels of which the last is transparency, which is dropped


def is_picture(sample: Any) -> bool:
    """Whether a sample is an image by its type: an array of two or three dimensions, or Pillow's."""
    return (isinstance(sample, np.ndarray) and sample.ndim in (2, 3)) or _is_pillow(sample)


def pixels_of(sample: Any) -> NDArray[Any] | None:
    """An image's numbers, (height, width) or (height, width, channels); None where it is no image."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a decoder's doubt is that image's fault
            if _is_pillow(sample):
                sample = sample.convert("L" if sample.mode in ("1", "L", "LA") else "RGB")
            pixels = np.asarray(sample)
    except Exception:  # whatever is wrong with it, this one image is not readable
        return None
    if pixels.ndim not in (2, 3) or pixels.dtype.kind not in "biuf" or not pixels.size:
        return None
    return channels_last(pixels[None])[0] if pixels.ndim == 3 else pixels


def fitted(sample: Any, shape: tuple[int, ...], numbers: str) -> NDArray[Any] | None:
    """The image in this shape and on this scale; None where it cannot be."""
    pixels = pixels_of(sample)
    if pixels is None or not _on_scale(pixels, numbers):
        return None
    if pixels.shape == shape:
        return pixels
    pixels = _with_channels(pixels, shape[2] if len(shape) == 3 else 0)
    if pixels is None or pixels.shape == shape:
        return pixels
    if not np.isfinite(pixels).all():
        return None
    resized = _resized(pixels.astype(np.float32), shape[:2])
    return resized if np.dtype(numbers).kind == "f" else resized.round().clip(*_limits(pixels, numbers)).astype(numbers)


def _on_scale(pixels: NDArray[Any], numbers: str) -> bool:
    """Bytes beside bytes, or whole numbers that bytes can hold; other numbers beside other numbers."""
    if numbers != BYTES:
        return pixels.dtype != np.uint8
    return pixels.dtype.kind in "iu" and bool(((pixels >= 0) & (pixels <= 255)).all())


def _limits(pixels: NDArray[Any], numbers: str) -> tuple[float, float]:
    return (0, 255) if numbers == BYTES else (float(pixels.min()), float(pixels.max()))


def _with_channels(pixels: NDArray[Any], channels: int) -> NDArray[Any] | None:
    """The same image with so many channels; 0 is a plain grey one."""
    if pixels.ndim == 3 and pixels.shape[2] in ALPHA and pixels.shape[2] != channels:
        pixels = pixels[:, :, :-1]
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    held = pixels.shape[2] if pixels.ndim == 3 else 0
    if held == channels:
        return pixels
    if held == 0:
        return np.repeat(pixels[:, :, None], channels, axis=2) if channels in (1, 3) else None
    if held == 3 and channels in (0, 1):
        grey = (pixels.astype(np.float64) * GREY).cumsum(axis=2)[:, :, -1]  # one order of summation
        plain: NDArray[Any] = (grey.round() if pixels.dtype.kind in "iu" else grey).astype(pixels.dtype)
        return plain[:, :, None] if channels else plain
    return None


def _resized(pixels: NDArray[np.float32], size: tuple[int, ...]) -> NDArray[np.float32]:
    from PIL import Image

    def one(channel: NDArray[np.float32]) -> NDArray[np.float32]:
        image = Image.fromarray(np.ascontiguousarray(channel))
        return np.asarray(image.resize((size[1], size[0]), Image.Resampling.BICUBIC))

    if pixels.ndim == 2:
        return one(pixels)
    return np.stack([one(pixels[:, :, channel]) for channel in range(pixels.shape[2])], axis=2)


def _is_pillow(sample: Any) -> bool:
    return hasattr(sample, "convert") and hasattr(sample, "mode") and hasattr(sample, "getbands")
