"""The data sets that have a name, and one function that loads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recordwise.data import adult, cifar10, mnist, svhn
from recordwise.data.samples import Loaded
from recordwise.data.source import Remote, data_root, fetch, find_data
from recordwise.errors import InvalidInput


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSet:
    """A published data set in its official parts and order; nothing is scaled, shuffled or left out."""

    name: str
    train: Loaded
    test: Loaded
    classes: tuple[str, ...]


@dataclass(frozen=True)
class _Published:
    read: Callable[[Path], tuple[Loaded, Loaded]]
    classes: tuple[str, ...]
    remotes: tuple[Remote, ...]


_PUBLISHED = {
    "mnist": _Published(mnist.read_mnist, mnist.CLASSES, mnist.REMOTES),
    "cifar10": _Published(cifar10.read_cifar10, cifar10.CLASSES, cifar10.REMOTES),
    "svhn": _Published(svhn.read_svhn, svhn.CLASSES, svhn.REMOTES),
    "adult": _Published(adult.read_adult, adult.CLASSES, adult.REMOTES),
}
NAMES = tuple(_PUBLISHED)


def load(name: str, folder: str | Path | None = None, *, download: bool = False) -> DataSet:
    """A named data set, from `folder`, from $RECORDWISE_DATA, or (when asked to) from its publisher.

    Args:
      name: One of NAMES.
      folder: Holds a folder `name`; $RECORDWISE_DATA when None.
      download: Fetch what is missing into that folder. Without it nothing leaves this machine.
    """
    if name not in _PUBLISHED:
        raise InvalidInput(f"data set must be one of {', '.join(NAMES)}, got {name!r}")
    published = _PUBLISHED[name]
    home = data_root(name, folder) / name
    try:
        train, test = published.read(find_data(name, folder) if not download else home)
    except FileNotFoundError as fault:
        if not download:
            raise InvalidInput(f"data set {name!r} is incomplete: {fault.filename} is missing") from fault
        fetch(published.remotes, home)
        train, test = published.read(home)
    return DataSet(name=name, train=train, test=test, classes=published.classes)
