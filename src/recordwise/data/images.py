"""A folder of images: one subfolder per class, or all of them in one place for an unlabelled pool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Loaded
from recordwise.errors import InvalidInput

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}


def read_images(folder: Path, *, size: tuple[int, int] | None = None) -> Loaded:
    """uint8 images (n, height, width), or (n, height, width, 3) as soon as one of them has colours.

    Subfolders and files come in the order of their names. Images of different sizes are refused unless `size`
    (height, width) says what to resize them to; transparency is dropped, an animation gives its first frame.
    """
    subfolders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    files = _image_files(folder)
    if subfolders and files:
        raise InvalidInput(f"{folder} must hold either one subfolder per class or images, it holds both")
    labels: NDArray[np.str_] | None = None
    if subfolders:
        by_class = {path.name: _image_files(path) for path in subfolders}
        files = [file for some in by_class.values() for file in some]
        labels = np.repeat(list(by_class), [len(some) for some in by_class.values()])
    if not files:
        raise InvalidInput(f"{folder} holds no images ({', '.join(sorted(SUFFIXES))})")
    images = [_read(file, size) for file in files]
    for file, image in zip(files, images, strict=True):
        if image.shape[:2] != images[0].shape[:2]:
            raise InvalidInput(
                f"images must have one size, {files[0].name} is {_size(images[0])} and {file.name} {_size(image)}; "
                "say image_size to resize them"
            )
    if any(image.ndim == 3 for image in images):
        images = [image if image.ndim == 3 else np.repeat(image[:, :, None], 3, axis=2) for image in images]
    return Loaded(samples=np.stack(images), labels=labels)


def _image_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def _read(path: Path, size: tuple[int, int] | None) -> NDArray[np.uint8]:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as file:
            image = file.convert("L" if file.mode in ("1", "L", "LA") else "RGB")
    except (UnidentifiedImageError, OSError) as fault:
        raise InvalidInput(f"{path} is not a readable image: {fault}") from fault
    if size is not None:
        image = image.resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return np.asarray(image)


def _size(image: NDArray[np.uint8]) -> str:
    return f"{image.shape[1]} x {image.shape[0]} pixels"
