"""A folder of images: one subfolder per class, or all of them in one place for an unlabelled pool."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Loaded
from recordwise.errors import InvalidInput
from recordwise.formats import picture_file, picture_size
from recordwise.progress import counted

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}


def read_images(folder: Path, *, size: tuple[int, int] | None = None) -> Loaded:
    """A list of uint8 images, each (height, width) or (height, width, 3) as it is; None where one cannot be decoded.

    Subfolders and files come in the order of their names. `size` (height, width) resizes each; transparency is dropped,
    an animation gives its first frame. Modes and sizes may differ: the schema brings each image to the pool's.
    """
    subfolders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    files = _image_files(folder)
    if subfolders and files:
        raise InvalidInput(f"{folder} must hold either one subfolder per class or images, it holds both")
    labels: NDArray[np.str_] | None = None
    if subfolders:
        by_class = {path.name: _image_files(path) for path in subfolders}
        files = [file for some in by_class.values() for file in some]
        labels = np.repeat(np.array(list(by_class)), [len(some) for some in by_class.values()])
    if not files and not subfolders:  # classes without an image are no records, which is a number like any other
        raise InvalidInput(f"{folder} holds no images ({', '.join(sorted(SUFFIXES))})")
    ids = np.array([file.relative_to(folder).as_posix() for file in files], dtype=object)
    return Loaded(
        samples=[_read(file, size) for file in counted(files, len(files))], labels=labels, ids=ids, ids_name="file"
    )


def image_sizes(folder: Path) -> list[tuple[int, int]]:
    """Height and width of each image that has them."""
    folders = [folder, *(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))]
    sizes = []
    files = [file for one in folders for file in _image_files(one)]
    for file in counted(files, len(files)):
        with suppress(InvalidInput):
            sizes.append(picture_size(file))
    return sizes


def _image_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def _read(path: Path, size: tuple[int, int] | None) -> NDArray[np.uint8] | None:
    try:
        return picture_file(path, size)
    except InvalidInput:  # whatever is wrong with it, this one image is not readable
        return None
