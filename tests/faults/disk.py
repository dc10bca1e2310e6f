"""A disk under a power cut: what may be left of the changes that a process made.

The model is what POSIX promises, and no more:

- a file's bytes are on the disk once the file was synced. Until then each write may be there, not there, or there in
  part, in any combination;
- a name in a folder (a new file, a rename, a removal, a folder) is on the disk once the folder that holds it was
  synced. Until then each change of names may be there or not, in any combination; a rename is one change;
- syncing a file does not sync its name, and syncing a folder does not sync what it names.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

MOST = 48  # combinations at one point; where there are more, so many are drawn, and the two extremes

Change = tuple[str, ...]


@dataclass
class Node:
    """A file or a folder, as the process sees it and as far as it is on the disk."""

    folder: bool
    now: bytearray = field(default_factory=bytearray)
    names: dict[str, int] = field(default_factory=dict)
    synced: bytes = b""
    synced_names: dict[str, int] = field(default_factory=dict)
    writes: list[tuple[int, bytes | None]] = field(default_factory=list)  # at, what; None cuts there
    renames: list[dict[str, int | None]] = field(default_factory=list)  # one change of names each


@dataclass(frozen=True)
class Point:
    """A moment at which the power may go: how many changes were made, and what had left the process by then."""

    number: int
    change: str
    marks: tuple[str, ...]


def changes_in(log: bytes) -> Iterator[tuple[str, list[bytes], bytes]]:
    """What `disk.c` wrote down: the kind of each change, its words and its bytes."""
    at = 0
    while at < len(log):
        kind, _, _ = log[at:].partition(b" ")
        if kind == b"write":
            _, inode, offset, count, _ = log[at : at + 200].split(b" ", 4)
            start = at + len(b" ".join((kind, inode, offset, count))) + 1
            yield "write", [inode, offset], log[start : start + int(count)]
            at = start + int(count) + 1
        else:
            end = log.index(b"\n", at)
            words = log[at + len(kind) + 1 : end]
            parts = words.split(b"\t") if kind in (b"rename", b"link") else words.split(b" ", 1)
            yield kind.decode(), [words] if kind in (b"unlink", b"mark") else parts, b""
            at = end + 1


class Disk:
    """The changes below a folder, one after another."""

    def __init__(self, root: Path) -> None:
        self._root = PurePosixPath(root)
        self._nodes = {0: Node(folder=True)}
        self._ids: dict[int, int] = {}  # the system may give a number again: the latest holder counts
        self._at: dict[str, int] = {".": 0}
        self._marks: list[str] = []
        self.count = 0

    def play(self, log: bytes) -> Iterator[Point]:
        """Every moment between two changes, the first and the last included."""
        yield Point(0, "nothing", ())
        for kind, words, content in changes_in(log):
            if kind == "mark":
                self._marks.append(words[0].decode())
                continue
            self._apply(kind, words, content)
            self.count += 1
            yield Point(self.count, " ".join([kind, *(word.decode() for word in words)]), tuple(self._marks))

    def _apply(self, kind: str, words: list[bytes], content: bytes) -> None:
        if kind in ("create", "folder"):
            inode, path = int(words[0]), words[1].decode()
            self._ids[inode] = len(self._nodes)
            self._nodes[self._ids[inode]] = Node(folder=kind == "folder")
            self._named(path, self._ids[inode])
        elif kind == "write":
            node, at = self._node(words[0]), int(words[1])
            _write(node.now, at, content)
            node.writes.append((at, content))
        elif kind == "cut":
            node, at = self._node(words[0]), int(words[1])
            _write(node.now, at, None)
            node.writes.append((at, None))
        elif kind == "sync":
            node = self._node(words[0])
            node.synced, node.synced_names = bytes(node.now), dict(node.names)
            node.writes, node.renames = [], []
        elif kind in ("rename", "link"):
            source, target = (word.decode() for word in words)
            moved = self._at[self._inside(source)]
            gone = {self._name(source): None} if kind == "rename" else {}
            self._change(self._parent(target), {**gone, self._name(target): moved})
            if kind == "rename":
                self._at.pop(self._inside(source))
            self._at[self._inside(target)] = moved
        elif kind == "unlink":
            path = words[0].decode()
            self._change(self._parent(path), {self._name(path): None})
            self._at.pop(self._inside(path), None)

    def _node(self, inode: bytes) -> Node:
        # A folder that was there before is the root.
        return self._nodes[self._ids.get(int(inode), 0)]

    def _named(self, path: str, number: int) -> None:
        self._change(self._parent(path), {self._name(path): number})
        self._at[self._inside(path)] = number

    def _change(self, parent: Node, change: dict[str, int | None]) -> None:
        _rename(parent.names, change)
        parent.renames.append(change)

    def _inside(self, path: str) -> str:
        return str(PurePosixPath(path).relative_to(self._root))

    def _parent(self, path: str) -> Node:
        return self._nodes[self._at[str(PurePosixPath(self._inside(path)).parent)]]

    def _name(self, path: str) -> str:
        return PurePosixPath(path).name

    def states(
        self, loses: Callable[[str], bool] = lambda path: True, seed: int = 0
    ) -> Iterator[dict[str, bytes | None]]:
        """All that the disk may hold if the power goes now: files by path, None for a folder.

        Args:
          loses: Which paths lie on the disk that loses its power; others are as the process saw them.
        """
        rng = random.Random(f"{seed} {self.count}")
        places = {number: path for path, number in self._at.items()}
        choices: list[list[tuple[int, object]]] = []
        for number, node in self._nodes.items():
            path = places.get(number, "")
            if not loses(path):
                choices.append([(number, dict(node.names) if node.folder else bytes(node.now))])
            elif node.folder:
                choices.append([(number, names) for names in _names(node, rng)])
            else:
                choices.append([(number, content) for content in _contents(node, rng)])
        total = 1
        for options in choices:
            total *= len(options)
        if total <= MOST:
            picks: Iterator[tuple[tuple[int, object], ...]] = itertools.product(*choices)
        else:
            drawn = [tuple(rng.choice(options) for options in choices) for _ in range(MOST)]
            picks = iter([tuple(options[0] for options in choices), tuple(options[-1] for options in choices), *drawn])
        seen = set()
        for pick in picks:
            found: dict[str, bytes | None] = {}
            self._walk(dict(pick), 0, PurePosixPath(), found)
            mark = digest(found)
            if mark not in seen:
                seen.add(mark)
                yield found

    def _walk(
        self, picked: dict[int, object], number: int, path: PurePosixPath, found: dict[str, bytes | None]
    ) -> None:
        names = picked[number]
        assert isinstance(names, dict)
        for name, inner in sorted(names.items()):
            if self._nodes[inner].folder:
                found[str(path / name)] = None
                self._walk(picked, inner, path / name, found)
            else:
                content = picked[inner]
                assert isinstance(content, bytes)
                found[str(path / name)] = content


def put(state: dict[str, bytes | None], root: Path) -> None:
    """Write a state of a disk into a new folder."""
    root.mkdir(parents=True)
    for path, content in state.items():
        place = root / path
        if content is None:
            place.mkdir()
        else:
            place.write_bytes(content)
            place.chmod(0o600)  # keys among them are for their owner alone


def digest(state: dict[str, bytes | None]) -> bytes:
    sha = hashlib.sha256()
    for path, content in sorted(state.items()):
        sha.update(f"{path}\0{content is None}\0{len(content or b'')}\0".encode() + (content or b""))
    return sha.digest()


def _write(content: bytearray, at: int, what: bytes | None) -> None:
    if what is None:
        content[:] = content[:at].ljust(at, b"\0")
        return
    content.extend(bytes(max(0, at - len(content))))
    content[at : at + len(what)] = what


def _rename(names: dict[str, int], change: dict[str, int | None]) -> None:
    for name, number in change.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


def _contents(node: Node, rng: random.Random) -> list[bytes]:
    """What may be left of a file: what was synced first, what the process saw last."""
    subsets = [[False] * len(node.writes), [True] * len(node.writes)]
    subsets += [[rng.random() < 0.5 for _ in node.writes] for _ in range(2 if len(node.writes) > 1 else 0)]
    found = []
    for kept in subsets:
        content = bytearray(node.synced)
        for (at, what), there in zip(node.writes, kept, strict=True):
            if there:
                _write(content, at, what)
        found.append(bytes(content))
    if node.writes and node.writes[-1][1]:  # the last write in part
        at, what = node.writes[-1]
        content = bytearray(node.synced)
        for before, other in node.writes[:-1]:
            _write(content, before, other)
        _write(content, at, (what or b"")[: len(what or b"") // 2])
        found.insert(1, bytes(content))
    return list(dict.fromkeys(found))


def _names(node: Node, rng: random.Random) -> list[dict[str, int]]:
    count = len(node.renames)
    subsets = itertools.product((False, True), repeat=count)
    if count > 4:
        drawn = [tuple(rng.random() < 0.5 for _ in range(count)) for _ in range(14)]
        subsets = iter([(False,) * count, *drawn, (True,) * count])
    found = []
    for kept in subsets:
        names = dict(node.synced_names)
        for change, there in zip(node.renames, kept, strict=True):
            if there:
                _rename(names, change)
        if names not in found:
            found.append(names)
    return found
