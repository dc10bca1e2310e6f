"""Image files: their size is looked at before their pixels are decoded."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.formats.files import content_of, understood

MOST_PIXELS, MOST_BYTES = 1 << 26, 1 << 28
DECODERS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")  # others run programs, or are there for printers


def picture_file(path: Path, size: tuple[int, int] | None = None) -> NDArray[np.uint8]:
    """An image file's pixels; see `picture_from`."""
    return picture_from(content_of(path, most=MOST_BYTES), size, what=str(path))


def picture_size(path: Path) -> tuple[int, int]:
    """An image file's height and width, without its pixels."""
    from PIL import Image

    content = content_of(path, most=MOST_BYTES)
    with understood(str(path)), warnings.catch_warnings():
        warnings.simplefilter("error")
        with Image.open(io.BytesIO(content), formats=DECODERS) as file:
            width, height = file.size
    return height, width


def picture_from(content: bytes, size: tuple[int, int] | None = None, *, what: str = "an image") -> NDArray[np.uint8]:
    """An image's pixels, (height, width) or (height, width, 3), resized where a `size` (height, width) is given.

    Transparency is dropped, and an animation gives its first frame.
    """
    from PIL import Image

    if len(content) > MOST_BYTES:
        raise InvalidInput(f"{what} must have at most {MOST_BYTES:,} bytes, it has {len(content):,}")
    with understood(what), warnings.catch_warnings():
        warnings.simplefilter("error")  # a decoder's doubt is that image's fault
        with Image.open(io.BytesIO(content), formats=DECODERS) as file:
            width, height = file.size
            if width * height > MOST_PIXELS:
                raise InvalidInput(f"{what} must have at most {MOST_PIXELS:,} pixels, it has {width * height:,}")
            image = file.convert("L" if file.mode in ("1", "L", "LA") else "RGB")
        if size is not None:
            image = image.resize((size[1], size[0]), Image.Resampling.BICUBIC)
        return np.asarray(image)
