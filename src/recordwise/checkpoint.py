"""A run's folder: what a killed run needs to go on, all of it public but for a folder `private`.

Releases are not kept here: the ledger holds each one beside its charge, and gives it again when asked with the same
key. What must not change in between (the pool, the settings, the queries a tally is about) is kept or compared here.
Everything is data (`recordwise.stored`): going on with a folder runs nothing that it holds.
"""

from __future__ import annotations

import json
import re
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from recordwise import stored
from recordwise.durable import LEFTOVER, make_folder, sweep, sync_folder, write_once, write_whole
from recordwise.errors import ChangedInput, InvalidInput, MissingExtra, RecordwiseError, shown
from recordwise.formats import content_of, json_file, json_from
from recordwise.hashing import digest_of, fingerprint
from recordwise.locks import LOCK, hold

Kept = TypeVar("Kept")

FORMAT = "recordwise-run-2"
MANIFEST, ENCODER, PRIVATE = "run.json", "encoder", "private"
RELEASED = re.compile(r"released-\d+")
EMPTY: Mapping[str, Any] = MappingProxyType({})
OWN_LEDGER = "ledger.sqlite"
# What a run may hold before anything about the records has left it; its ledger is not the folder's to remove.
UNBOUND = (ENCODER, "queries-1", PRIVATE)


class Checkpoint:
    """One run's folder.

    Guarantees:
      - a folder belongs to one run, and one process at a time may use it; a run that was killed at any point leaves
        nothing that its next start does not take up or take away;
      - once something was released, other facts than it began with are refused, naming the fact; until then a mistake
        is mended by running again, which starts afresh;
      - a run has one payer: once something was released, another ledger or budget is refused, and so is none;
      - an encoder or queries other than those that were released about are refused; if they are lost, and come out
        the same when they are made again, the run goes on;
      - a file is written whole or not at all, and is on the disk before anything is released that depends on it.
    """

    def __init__(self, folder: Path, run_id: str, held: object) -> None:
        self.folder = folder
        self.run_id = run_id
        self._held = held  # for as long as this lives

    @classmethod
    def open(cls, folder: str | Path, facts: Mapping[str, Any], *, once: Mapping[str, Any] = EMPTY) -> Checkpoint:
        """Begin a run in `folder`, or go on with the one that began there with the same public facts.

        Args:
          once: What facts were before there was a choice: runs of that time do not state them.
        """
        folder = Path(folder)
        manifest = folder / MANIFEST
        known = json_from(json.dumps(facts, sort_keys=True).encode())
        if folder.exists() and not folder.is_dir():
            raise InvalidInput(f"the run folder must be a folder, got {str(folder)!r}")
        if folder.exists() and not manifest.exists() and (others := _not_ours(folder, ())):
            raise InvalidInput(
                f"the run folder must be new, empty or an earlier run's, {str(folder)!r} holds {shown(others[0])}"
            )
        held = hold(folder)
        sweep(folder)
        if not manifest.exists():
            return cls._begin(folder, known, held)
        begun = _read_manifest(manifest)
        for name in sorted(begun["facts"].keys() | known.keys()):
            before, now = begun["facts"].get(name, once.get(name)), known.get(name)
            if before != now:
                if not _not_ours(folder, (MANIFEST, *UNBOUND)):
                    _remove(folder)
                    return cls._begin(folder, known, held)
                raise ChangedInput(
                    f"{name} was {shown(before)} when the run in {str(folder)!r} began and is {shown(now)} now; "
                    "undo the change, or start a new run in another folder"
                )
        return cls(folder, begun["run"], held)

    @property
    def name(self) -> str:
        """What to call the run where it is remembered."""
        return self.folder.absolute().name

    @classmethod
    def _begin(cls, folder: Path, facts: Mapping[str, Any], held: object) -> Checkpoint:
        run_id = uuid.uuid4().hex
        about = {"format": FORMAT, "run": run_id, "facts": facts}
        write_whole(folder / MANIFEST, json.dumps(about, indent=2, sort_keys=True).encode())
        return cls(folder, run_id, held)

    @property
    def bound(self) -> bool:
        """Whether something was, or was about to be, released."""
        return bool(self._released())

    def bind(self, number: int, payer: str) -> None:
        """Say that a round is about to be released: from here on queries, facts and payer are fixed."""
        about = [self.folder / name for name in (ENCODER, f"queries-{number}")]
        files = {path.name: digest_of(content_of(path)) for path in about if path.exists()}
        note = json.dumps({"payer": payer, "files": files}, sort_keys=True)
        if not write_once(self.folder / f"released-{number}", note.encode()):
            self.refuse_other_payer(payer)

    def refuse_other_payer(self, payer: str) -> None:
        """Refuse whoever is not the one that paid for what was released."""
        if any(about["payer"] != payer for about in self._released()):
            raise ChangedInput(
                f"the run in {str(self.folder)!r} was paid from another ledger or budget, or from none; go on with "
                "that one, or start a new run in another folder"
            )

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        """What `make` returned the first time this was asked in this run.

        What cannot be written down is made again by every process that goes on with the run, and must come out the
        same: whether it does is tried out at once, before anything is spent.
        """
        path = self.folder / name
        kept = self._kept(path) if path.exists() else None
        if kept is not None and not isinstance(kept, stored.Absent):
            found: Kept = kept
            return found
        made = make()
        if kept is not None:
            if fingerprint(made) != kept.digest:
                raise ChangedInput(
                    f"the {name} of the run in {str(self.folder)!r}, a {shown(kept.kind)}, came out otherwise when it "
                    "was made again; bring the one that the run began with, or start a new run in another folder"
                )
            return made
        content = stored.to_bytes(made, foreign=True)
        left = stored.from_bytes(content, foreign=True)
        if isinstance(left, stored.Absent) and fingerprint(make()) != left.digest:
            raise InvalidInput(
                f"{name} must come out the same when it is fitted again, for a {shown(left.kind)} cannot be kept in a "
                "run folder; set its random_state, pip install 'recordwise[skops]', or do without run_dir"
            )
        self._check(path, content, "was missing, and came out otherwise when it was made again:")
        write_whole(path, content)
        return made

    def _kept(self, path: Path) -> Any:
        content = _content(path)
        self._check(path, content, "is not the one that it began with: remove that file, and it is made again;")
        try:
            return stored.from_bytes(content, foreign=True)
        except MissingExtra:
            raise
        except InvalidInput as fault:
            raise InvalidInput(
                f"{str(path)!r} {fault}: remove that file, and it is made again and compared with what was released"
            ) from fault

    def _check(self, path: Path, content: bytes, fault: str) -> None:
        """Refuse a file that is not the one something was released about."""
        digest = digest_of(content)
        if any(about["files"].get(path.name, digest) != digest for about in self._released()):
            raise ChangedInput(
                f"{path.name} of the run in {str(self.folder)!r} {fault} what was released is about the other one, so "
                "bring that back or start a new run in another folder"
            )

    def _released(self) -> list[dict[str, Any]]:
        """What was noted before each release."""
        notes = [path for path in sorted(self.folder.iterdir()) if RELEASED.fullmatch(path.name)]
        return [_read_note(path) for path in notes]

    def private_path(self, name: str) -> Path | None:
        """Where to keep what stays with the records' holder: a folder of its own, never to be passed on."""
        folder = self.folder / PRIVATE
        make_folder(folder, mode=0o700)
        return folder / name


class NoFolder:
    """Stands for the folder of a run that keeps nothing: killed, it starts afresh, as another run."""

    name = ""
    bound = False

    def __init__(self) -> None:
        self.run_id = uuid.uuid4().hex

    def bind(self, number: int, payer: str) -> None:
        pass

    def refuse_other_payer(self, payer: str) -> None:
        pass

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        return make()

    def private_path(self, name: str) -> Path | None:
        return None


def begun_with(folder: Path) -> int | str | None:
    """The number of queries of a run in this folder that has released something; None where none has."""
    if not folder.is_dir() or not any(RELEASED.fullmatch(path.name) for path in folder.iterdir()):
        return None
    try:
        found = json_file(folder / MANIFEST)["facts"]["num_queries"]
    except (InvalidInput, OSError, LookupError, TypeError):
        return None  # whoever opens the folder will say what is wrong with it
    return found if isinstance(found, int | str) else None


def first_asked(folder: Path) -> Any:
    """The queries that a run in this folder has released something about first; None where there are none to read."""
    if begun_with(folder) is None:
        return None
    try:
        return stored.from_bytes(_content(folder / "queries-1"), foreign=True)
    except RecordwiseError:
        return None  # whoever opens the folder will say what is wrong with it


def _not_ours(folder: Path, known: tuple[str, ...]) -> list[str]:
    """What lies in a folder besides these, the lock, a ledger, and what a killed process left half-written."""
    names = sorted(path.name for path in folder.iterdir())
    return [
        name
        for name in names
        if name not in (LOCK, *known) and not name.startswith(OWN_LEDGER) and not LEFTOVER.fullmatch(name)
    ]


def _read_manifest(path: Path) -> dict[str, Any]:
    begun = _json(path)
    if begun.get("format") != FORMAT:
        raise InvalidInput(
            f"the run in {str(path.parent)!r} was begun by another version of Recordwise: go on with that one, or "
            "start a new run in another folder"
        )
    if not (isinstance(begun.get("run"), str) and isinstance(begun.get("facts"), dict)):
        raise _damaged(path)
    return begun


def _read_note(path: Path) -> dict[str, Any]:
    about = _json(path)
    if not (isinstance(about.get("payer"), str) and isinstance(about.get("files"), dict)):
        raise _damaged(path)
    return about


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json_from(_content(path))
    except (ValueError, RecursionError) as fault:
        raise _damaged(path) from fault
    if not isinstance(content, dict):
        raise _damaged(path)
    return content


def _content(path: Path) -> bytes:
    if not path.is_file():  # a pipe would be waited for
        raise _damaged(path)
    return content_of(path)


def _damaged(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{str(path)!r} is damaged: bring the folder back as it was, or start a new run in another folder"
    )


def _remove(folder: Path) -> None:
    """Take away what a run that released nothing has kept; its manifest is replaced once that is so."""
    shutil.rmtree(folder / PRIVATE, ignore_errors=True)
    for name in UNBOUND:
        if name != PRIVATE:
            (folder / name).unlink(missing_ok=True)
    sync_folder(folder)
