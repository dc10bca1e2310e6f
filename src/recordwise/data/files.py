"""A path becomes samples and labels: .npy, .npz, .parquet, .csv, .txt or a folder of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.cells import decoded
from recordwise.data.images import read_images
from recordwise.data.samples import Loaded
from recordwise.data.tables import csv_table, parquet_table
from recordwise.errors import InvalidInput
from recordwise.formats import Archive, array_file, lines_of, understood

Names = str | Sequence[str]
TABLES = (".csv", ".parquet")


def is_table(path: Path) -> bool:
    """Whether a file is one of those whose columns have names."""
    return path.suffix.lower() in TABLES


def read(
    path: str | Path,
    *,
    samples: Names | None = None,
    labels: Names | None = None,
    image_size: tuple[int, int] | None = None,
) -> Loaded:
    """Samples as they stand in the file, and labels where they are asked for (image folders by class have them anyway).

    | file | samples | labels |
    |---|---|---|
    | .npy | the array, memory-mapped | the name of another .npy file |
    | .npz | the name of an array; may be left out when only one is not the labels | the name of an array |
    | .csv, .parquet | column names; all but the labels when left out | column names |
    | .txt | one string per line | the name of another .txt file |
    | folder | its images, each as it is, or resized to `image_size` (height, width) | the names of its subfolders |

    Several label columns of zeros and ones mean that a sample may have several labels. File names are relative to the
    folder of `path`. What a cell means is for a `Schema` to say; what one record holds is never refused here.
    """
    with understood(str(path)):
        path = Path(path).expanduser()
        if not path.exists():
            raise InvalidInput(f"{path} does not exist")
        return _read(path, samples, labels, image_size)


def _read(path: Path, samples: Names | None, labels: Names | None, image_size: tuple[int, int] | None) -> Loaded:
    if path.is_dir():
        if samples is not None or labels is not None:
            raise InvalidInput(
                f"{path} is an image folder: its subfolders are the labels, samples and labels name nothing"
            )
        return read_images(path, size=image_size)
    match path.suffix.lower():
        case ".npy":
            return _npy(path, samples, labels)
        case ".npz":
            return _npz(path, samples, labels)
        case ".csv":
            return csv_table(path, samples, labels)
        case ".parquet":
            return parquet_table(path, samples, labels)
        case ".txt":
            return _txt(path, samples, labels)
    raise InvalidInput(f"{path} must be .npy, .npz, .parquet, .csv, .txt or a folder of images")


def _npy(path: Path, samples: Names | None, labels: Names | None) -> Loaded:
    if samples is not None:
        raise InvalidInput(f"{path.name} holds one array, samples must be left out, got {samples!r}")
    return Loaded(
        samples=array_file(path), labels=None if labels is None else np.asarray(array_file(_beside(path, labels)))
    )


def _npz(path: Path, samples: Names | None, labels: Names | None) -> Loaded:
    with Archive(path) as arrays:
        names = list(arrays)
        for argument, name in (("samples", samples), ("labels", labels)):
            if name is not None and name not in names:
                raise InvalidInput(f"{argument} must name an array of {path.name} ({', '.join(names)}), got {name!r}")
        if samples is None:
            rest = [name for name in names if name != labels]
            if len(rest) != 1:
                raise InvalidInput(f"{path.name} holds {', '.join(names)}: samples must name one of them")
            samples = rest[0]
        return Loaded(samples=arrays[str(samples)], labels=None if labels is None else arrays[str(labels)])


def _txt(path: Path, samples: Names | None, labels: Names | None) -> Loaded:
    if samples is not None:
        raise InvalidInput(f"{path.name} holds one sample per line, samples must be left out, got {samples!r}")
    return Loaded(samples=_lines(path), labels=None if labels is None else _lines(_beside(path, labels)))


def _lines(path: Path) -> NDArray[Any]:
    """One string per line; None where a line is not UTF-8."""
    lines = lines_of(path)
    found = np.empty(len(lines), dtype=object)
    found[:] = [decoded(line) for line in lines]
    return found


def _beside(path: Path, name: Names) -> Path:
    if not isinstance(name, str):
        raise InvalidInput(f"labels of {path.name} must be the name of one file, got {name!r}")
    if not (path.parent / name).is_file():
        raise InvalidInput(f"labels of {path.name} must be a file beside it, {path.parent / name} does not exist")
    return path.parent / name
