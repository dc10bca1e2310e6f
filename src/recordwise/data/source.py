"""Where a named data set lies: in a folder one names, in RECORDWISE_DATA, or at its publisher.

Nothing is used before its checksum matches what was published.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from recordwise.errors import InvalidInput

VARIABLE = "RECORDWISE_DATA"


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A published file: its name here, where it can be had, and the MD5 its publisher or its users state."""

    name: str
    urls: tuple[str, ...]
    md5: str


def find_data(name: str, folder: str | Path | None = None) -> Path:
    """The folder of data set `name`: inside `folder` if one is given, else inside $RECORDWISE_DATA."""
    root = data_root(name, folder)
    if not (root / name).is_dir():
        raise InvalidInput(
            f"data set {name!r} was not found: {root} holds no folder {name}; "
            f"name another folder, set {VARIABLE}, or pass download=True"
        )
    return root / name


def data_root(name: str, folder: str | Path | None = None) -> Path:
    """The folder that holds data sets; which one is never guessed."""
    root = folder or os.environ.get(VARIABLE)
    if not root:
        raise InvalidInput(f"data set {name!r} was not found: name the folder that holds {name}/, or set {VARIABLE}")
    return Path(root).expanduser()


def fetch(remotes: tuple[Remote, ...], folder: Path) -> None:
    """Download the files that `folder` lacks, checked before they get their names."""
    folder.mkdir(parents=True, exist_ok=True)
    for remote in remotes:
        if not (folder / remote.name).exists():
            _download(remote, folder)


def verified(path: Path, md5: str) -> Path:
    """The path itself, once its content matches."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise InvalidInput(
            f"{path.name} must have MD5 {md5}, got {found}: the file is damaged or not the published one"
        )
    return path


def _download(remote: Remote, folder: Path) -> None:
    faults = []
    for url in remote.urls:
        part = folder / f"{remote.name}.part{os.getpid()}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer, part.open("wb") as file:
                while block := answer.read(1 << 20):
                    file.write(block)
            verified(part, remote.md5).replace(folder / remote.name)
            return
        except (OSError, InvalidInput) as fault:  # URLError and time-outs are OSErrors; another mirror may be whole
            faults.append(f"{url}: {fault}")
        finally:
            part.unlink(missing_ok=True)
    raise InvalidInput(f"{remote.name} could not be downloaded ({'; '.join(faults)})")
