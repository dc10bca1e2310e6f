"""What can happen to a file: lost, cut, emptied, altered, or something else in its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from recordwise.randomness import seeded

Damage = Callable[[Path], object]


def gone(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _other(kind: Callable[[Path], object]) -> Damage:
    def put(path: Path) -> None:
        gone(path)
        kind(path)

    return put


def cut(share: float) -> Damage:
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def flipped(seed: int, bits: int = 1) -> Damage:
    """Some bits of a file, chosen by a seed."""

    def flip(path: Path) -> None:
        content = bytearray(path.read_bytes())
        rng = seeded(seed, "flip", path.name)
        for place in rng.integers(len(content), size=bits) if content else ():
            content[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(content))

    return flip


DAMAGES: dict[str, Damage] = {
    "removed": gone,
    "emptied": lambda path: path.write_bytes(b""),
    "cut in half": cut(0.5),
    "a byte short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "a byte longer": lambda path: path.write_bytes(path.read_bytes() + b"\x00"),
    "one bit flipped": flipped(1),
    "another bit flipped": flipped(2),
    "twenty bits flipped": flipped(3, 20),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "words": lambda path: path.write_bytes(b"Dear Sir or Madam"),
    "brackets": lambda path: path.write_bytes(b"[" * 100_000),
    "null": lambda path: path.write_bytes(b"null"),
    "a folder": _other(Path.mkdir),
    "a pipe": _other(os.mkfifo),
    "a link to nowhere": _other(lambda path: path.symlink_to("nowhere")),
    "a link to itself": _other(lambda path: path.symlink_to(path.name)),
}


def damaged(folder: Path) -> Iterator[tuple[str, Damage]]:
    """(file, damage) of everything that can happen to one file in a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            for name, damage in DAMAGES.items():
                place = path.relative_to(folder)
                yield f"{place}: {name}", lambda copy, damage=damage, place=place: damage(copy / place)  # type: ignore[misc]
