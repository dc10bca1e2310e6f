"""A run's folder: what a killed run needs to go on, all of it public but for a folder `private`.

Releases are not kept here: the ledger holds each one beside its charge, and gives it again when asked with the same
key. What must not change in between (the pool, the settings, the queries a tally is about) is kept or compared here.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from recordwise.durable import sync_folder, write_whole
from recordwise.errors import ChangedInput, InvalidInput, shown
from recordwise.formats import json_file, json_from, text_of

Kept = TypeVar("Kept")

MANIFEST, BOUND = "run.json", "released"
# What a run may hold before anything about the records has left it; its ledger is not the folder's to remove.
UNBOUND = (MANIFEST, "encoder", "queries-1", "private")
OWN_LEDGER = "ledger.sqlite"


class Checkpoint:
    """One run's folder.

    Guarantees:
      - a folder belongs to one run: once something was released, other facts than it began with are refused, naming
        the fact; until then a mistake is mended by running again, which starts afresh;
      - a run has one payer: once something was released, another ledger or budget is refused, and so is none;
      - a file is written whole or not at all.
    """

    def __init__(self, folder: Path, run_id: str) -> None:
        self.folder = folder
        self.run_id = run_id

    @classmethod
    def open(cls, folder: str | Path, facts: Mapping[str, Any]) -> Checkpoint:
        """Begin a run in `folder`, or go on with the one that began there with the same public facts."""
        folder = Path(folder)
        manifest = folder / MANIFEST
        told = json_from(json.dumps(facts, sort_keys=True).encode())
        if not manifest.exists():
            if folder.exists() and any(path.name != OWN_LEDGER for path in folder.iterdir()):
                raise InvalidInput(f"the run folder must be new, empty or an earlier run's, got {str(folder)!r}")
            return cls._begin(folder, told)
        begun = json_file(manifest)
        for name in sorted(begun["facts"].keys() | told.keys()):
            before, now = begun["facts"].get(name), told.get(name)
            if before != now:
                if all(path.name in (*UNBOUND, OWN_LEDGER) for path in folder.iterdir()):
                    _remove(folder)
                    return cls._begin(folder, told)
                raise ChangedInput(
                    f"{name} was {shown(before)} when the run in {str(folder)!r} began and is {shown(now)} now; "
                    "undo the change, or start a new run in another folder"
                )
        return cls(folder, begun["run"])

    @property
    def name(self) -> str:
        """What to call the run where it is remembered."""
        return self.folder.absolute().name

    @classmethod
    def _begin(cls, folder: Path, facts: Mapping[str, Any]) -> Checkpoint:
        folder.mkdir(parents=True, exist_ok=True)
        run_id = uuid.uuid4().hex
        write_whole(folder / MANIFEST, json.dumps({"run": run_id, "facts": facts}, indent=2, sort_keys=True).encode())
        return cls(folder, run_id)

    @property
    def bound(self) -> bool:
        """Whether something was, or was about to be, released."""
        return (self.folder / BOUND).exists()

    def bind(self, payer: str) -> None:
        """Say that something is about to be released: from here on the run's facts are fixed, and who pays for it."""
        partial = self.folder / f"{BOUND}.{os.getpid()}.new"
        write_whole(partial, payer.encode())
        try:
            os.link(partial, self.folder / BOUND)  # of two processes that bind at once, one does
        except FileExistsError:
            self.refuse_other_payer(payer)
        finally:
            partial.unlink()
            sync_folder(self.folder)

    def refuse_other_payer(self, payer: str) -> None:
        """Refuse whoever is not the one that paid for what was released."""
        if self.bound and text_of(self.folder / BOUND) != payer:
            raise ChangedInput(
                f"the run in {str(self.folder)!r} was paid from another ledger or budget, or from none; go on with "
                "that one, or start a new run in another folder"
            )

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        """What `make` returned the first time this was asked in this run."""
        import joblib

        path = self.folder / name
        if path.exists():
            kept: Kept = joblib.load(path)
            return kept
        made = make()
        content = io.BytesIO()
        joblib.dump(made, content)
        write_whole(path, content.getvalue())
        return made

    def private_path(self, name: str) -> Path | None:
        """Where to keep what stays with the records' holder: a folder of its own, never to be passed on."""
        folder = self.folder / "private"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / name


class NoFolder:
    """Stands for the folder of a run that keeps nothing: killed, it starts afresh, as another run."""

    name = ""
    bound = False

    def __init__(self) -> None:
        self.run_id = uuid.uuid4().hex

    def bind(self, payer: str) -> None:
        pass

    def refuse_other_payer(self, payer: str) -> None:
        pass

    def keep(self, name: str, make: Callable[[], Kept]) -> Kept:
        return make()

    def private_path(self, name: str) -> Path | None:
        return None


def _remove(folder: Path) -> None:
    """Take away what a run that released nothing has kept, its manifest last."""
    shutil.rmtree(folder / "private", ignore_errors=True)
    for name in reversed(UNBOUND):
        if name != "private":
            (folder / name).unlink(missing_ok=True)
