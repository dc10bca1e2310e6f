"""A path becomes samples and labels: a table, an array, lines of text, a folder of images, or a dataset on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.cells import decoded
from recordwise.data.images import read_images
from recordwise.data.samples import Loaded
from recordwise.data.tables import Asked, cell_table, dataset_table, parquet_table
from recordwise.errors import InvalidInput
from recordwise.formats import (
    Archive,
    Layout,
    array_file,
    arrow_folder,
    ending,
    is_dataset,
    parquet_file,
    text_lines,
    understood,
)

Names = str | Sequence[str]
TABLES = (".csv", ".tsv", ".xlsx", ".parquet")
PLAIN = Layout()


def is_table(path: Path) -> bool:
    """Whether a file is one of those whose columns have names."""
    return is_dataset(path) if path.is_dir() else ending(path) in TABLES


def names_in(path: Path) -> list[str]:
    """The columns that a Parquet file or a dataset on disk declares; other files must be read to know them."""
    if path.is_dir():
        return list(arrow_folder(path).column_names) if is_dataset(path) else []
    if ending(path) != ".parquet":
        return []
    with parquet_file(path) as held:
        return held.names


def read(
    path: str | Path,
    *,
    samples: Names | None = None,
    labels: Names | None = None,
    ids: str | None = None,
    image_size: tuple[int, int] | None = None,
    layout: Layout = PLAIN,
) -> Loaded:
    """Samples as they stand in the file, and labels where they are asked for (image folders by class have them anyway).

    | file | samples | labels, ids |
    |---|---|---|
    | .npy | the array, memory-mapped | the name of another .npy file |
    | .npz | the name of an array; may be left out when only one is not the labels | the name of an array |
    | .csv, .tsv, .xlsx, .parquet | column names; all but labels and ids when left out | column names |
    | .txt | one string per line | the name of another .txt file |
    | folder of images | its images, each as it is, or resized to `image_size` (height, width) | its subfolders, files |
    | dataset on disk | column names, as in a table | column names |

    A column of vectors or images in a Parquet file or a dataset is the samples by itself, whatever columns stand by.
    Text files may be packed with gzip (.csv.gz). Several label columns of zeros and ones mean that a sample may have
    several labels. File names are relative to the folder of `path`. What a cell means is for a `Schema` to say. What
    one record holds is never refused here, and how it is read depends on `layout` and never on other records.
    """
    with understood(str(path)):
        path = Path(path).expanduser()
        if not path.exists():
            raise InvalidInput(f"{path} does not exist")
        return _read(path, Asked(samples=samples, labels=labels, ids=ids), image_size, layout)


def _read(path: Path, asked: Asked, image_size: tuple[int, int] | None, layout: Layout) -> Loaded:
    if path.is_dir() and is_dataset(path):
        return dataset_table(path, asked, image_size)
    if path.is_dir():
        if asked != Asked():
            raise InvalidInput(
                f"{path} is an image folder: its subfolders are the labels, its files the ids; samples and labels name "
                "nothing"
            )
        return read_images(path, size=image_size)
    match ending(path):
        case ".csv" | ".tsv":
            return cell_table(path, asked, layout)
        case ".txt":
            return _txt(path, asked, layout)
    match path.suffix.lower():
        case ".npy":
            return _npy(path, asked)
        case ".npz":
            return _npz(path, asked)
        case ".xlsx":
            return cell_table(path, asked, layout)
        case ".parquet":
            return parquet_table(path, asked, image_size)
    raise InvalidInput(
        f"{path} must be .npy, .npz, .parquet, .csv, .tsv, .xlsx, .txt, a folder of images or a dataset on disk"
    )


def _npy(path: Path, asked: Asked) -> Loaded:
    if asked.samples is not None:
        raise InvalidInput(f"{path.name} holds one array, samples must be left out, got {asked.samples!r}")
    labels, ids = (
        None if name is None else np.asarray(array_file(_beside(path, name, what)))
        for what, name in (("labels", asked.labels), ("ids", asked.ids))
    )
    return Loaded(samples=array_file(path), labels=labels, ids=ids)


def _npz(path: Path, asked: Asked) -> Loaded:
    with Archive(path) as arrays:
        names = list(arrays)
        for argument, name in vars(asked).items():
            if name is not None and name not in names:
                raise InvalidInput(f"{argument} must name an array of {path.name} ({', '.join(names)}), got {name!r}")
        samples = asked.samples
        if samples is None:
            rest = [name for name in names if name not in (asked.labels, asked.ids)]
            if len(rest) != 1:
                raise InvalidInput(f"{path.name} holds {', '.join(names)}: samples must name one of them")
            samples = rest[0]
        labels, ids = (None if name is None else arrays[str(name)] for name in (asked.labels, asked.ids))
        return Loaded(samples=arrays[str(samples)], labels=labels, ids=ids, ids_name=asked.ids_name)


def _txt(path: Path, asked: Asked, layout: Layout) -> Loaded:
    if asked.samples is not None:
        raise InvalidInput(f"{path.name} holds one sample per line, samples must be left out, got {asked.samples!r}")
    labels, ids = (
        None if name is None else _lines(_beside(path, name, what), layout)
        for what, name in (("labels", asked.labels), ("ids", asked.ids))
    )
    return Loaded(samples=_lines(path, layout), labels=labels, ids=ids)


def _lines(path: Path, layout: Layout) -> NDArray[Any]:
    """One string per line; None where a line is not text in its encoding."""
    lines = text_lines(path, layout)
    found = np.empty(len(lines), dtype=object)
    found[:] = [decoded(line) for line in lines]
    return found


def _beside(path: Path, name: Names, what: str = "labels") -> Path:
    if not isinstance(name, str):
        raise InvalidInput(f"{what} of {path.name} must be the name of one file, got {name!r}")
    if not (path.parent / name).is_file():
        raise InvalidInput(f"{what} of {path.name} must be a file beside it, {path.parent / name} does not exist")
    return path.parent / name
