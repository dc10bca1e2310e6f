"""Adult (UCI, CC BY 4.0): 48,842 people in 14 columns; does the income exceed 50,000 dollars a year?"""

from __future__ import annotations

import csv
import hashlib
import lzma
from pathlib import Path

import numpy as np

from recordwise.data.samples import Loaded
from recordwise.data.source import Remote
from recordwise.errors import InvalidInput

CLASSES = ("<=50K", ">50K")
COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
)
NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")

_PUBLISHER = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
REMOTES = (
    Remote(name="adult.data", urls=(_PUBLISHER + "adult.data",), md5="5d7c39d7b8804f071cdd1f2a7c460872"),
    Remote(name="adult.test", urls=(_PUBLISHER + "adult.test",), md5="35238206dfdf7f1fe215bbb874adecdc"),
)


def read_adult(folder: Path) -> tuple[Loaded, Loaded]:
    """Training and test rows, an object array (n, 14) of floats and strings ("?" is unknown), with 1 for over 50K."""
    train, test = (_read(folder, remote) for remote in REMOTES)
    return train, test


def _read(folder: Path, remote: Remote) -> Loaded:
    content = _content(folder / remote.name)
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != remote.md5:
        raise InvalidInput(
            f"{remote.name} must have MD5 {remote.md5}, got {found}: it is damaged or not the published one"
        )
    lines = [line for line in csv.reader(content.decode().splitlines(), skipinitialspace=True) if len(line) > 1]
    samples = np.array([line[:-1] for line in lines], dtype=object)
    for name in NUMBERS:
        samples[:, COLUMNS.index(name)] = samples[:, COLUMNS.index(name)].astype(float)
    rich = np.array([line[-1].startswith(">50K") for line in lines], dtype=np.int64)
    return Loaded(samples=samples, labels=rich, columns=COLUMNS)


def _content(path: Path) -> bytes:
    """The published text, plain or compressed with xz."""
    packed = path.with_name(path.name + ".xz")
    return lzma.decompress(packed.read_bytes()) if packed.exists() else path.read_bytes()
