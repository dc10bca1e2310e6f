"""One job, explored: what the page shows, and the job file that it writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from recordwise.account import Account
from recordwise.errors import InvalidInput, RecordwiseError
from recordwise.explorer.editing import Chosen, trusting, write_beside
from recordwise.explorer.grid import FEWEST_PARTIES, At, Grid
from recordwise.explorer.map import Map, map_of
from recordwise.formats import text_of, toml_from
from recordwise.job import JobFile, read_job
from recordwise.planner import Expected
from recordwise.planner.planning import basis
from recordwise.preflight import outlook_of
from recordwise.privacy.guarantee import Trust, exact, rounded_down, rounded_up
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.ledger.statement import ledger_as_dict
from recordwise.progress import Progress, part, step

PATIENCE = 2.0  # seconds that ending waits for the cell in work
WHO_SEES = {
    Trust.CENTRAL: "Whoever runs the release sees the votes.",
    Trust.DISTRIBUTED: "Each party sees its own votes; only the sum of all is seen, with every party's noise.",
    Trust.LOCAL: "Nobody sees a vote: each record's message carries its own noise.",
    Trust.SHUFFLE: "Nobody sees whose message is whose: a shuffler hides each in a crowd.",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Exploration:
    """A job's pool, and what its budget would buy. Made from public data; the private file is not opened.

    Attributes:
      path: Of the job file.
      wanted: What the page looks at: the places of one cell, or none.
    """

    path: Path
    job: JobFile
    grid: Grid
    map: Map
    wanted: list[At] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def document(self, *, travels: bool) -> dict[str, Any]:
        """All that the page shows, as plain values.

        Args:
          travels: For a page that may be handed on: of the ledger it shows the job's own budget alone.
        """
        grid, outlook = self.grid, self.grid.outlook
        return {
            "name": self.job.name,
            "file": self.path.name,
            "travels": travels,
            "records": outlook.num_records,
            "classes": outlook.known.num_classes,
            "pool": outlook.num_samples,
            "votes_per_record": grid.votes_per_record,
            "trusts": [
                {"name": str(one.trust), "sees": WHO_SEES[one.trust], "refused": one.refused} for one in grid.offers
            ],
            "queries": list(grid.queries),
            "epsilons": list(grid.epsilons),
            "start": list(grid.start),
            "parties": FEWEST_PARTIES if self.job.privacy.trust.parties < FEWEST_PARTIES else 0,
            "cells": list(grid.cells.values()),
            "total": len(grid.order()),
            "attainable": list(asdict(Expected.of(outlook.attainable)).values()),
            "commonest": round(float(outlook.known.shares.max()), 4),
            "basis": basis(outlook),
            "map": asdict(self.map),
            "ledger": ledger_shown(self.job.account, travels=travels),
        }

    def fill(self, progress: Progress | None = None) -> None:
        """Compute every cell."""
        cells = self.grid.order()
        with step(progress, "explore: predict"):
            for number, at in enumerate(cells):
                with part(number, number + 1, len(cells)):
                    self.grid.cell(at)

    @contextmanager
    def filling(self) -> Iterator[None]:
        """The same in the background: what the page asks for comes first."""
        worker = threading.Thread(target=self._fill, name="explore", daemon=True)
        worker.start()
        try:
            yield
        finally:
            self.stopped.set()
            worker.join(PATIENCE)

    def _fill(self) -> None:
        left = self.grid.order()
        while left and not self.stopped.is_set():
            at = next((one for one in list(self.wanted) if one in left), left[0])
            left.remove(at)
            try:
                self.grid.cell(at)
            except Exception as fault:  # the page says so, and the other cells still come
                self.grid.cells[at] = {"at": list(at), "refused": f"unexpected fault ({type(fault).__name__})"}

    def cells(self, have: int, at: At | None) -> list[dict[str, Any]]:
        """The cells that were computed after the first `have`; the one at these places is computed next."""
        if at is not None:
            self.wanted[:] = [at]
        return list(self.grid.cells.values())[have:]

    def write(self, at: At) -> Path:
        """Write the job with the values at these places into a new file beside it."""
        trust, size, epsilon = self.grid.offers[at[0]], self.grid.queries[at[1]], self.grid.epsilons[at[2]]
        if trust.terms is None:
            raise InvalidInput(trust.refused)
        chosen: dict[tuple[str, str], Any] = {("privacy", "epsilon"): epsilon, ("method", "num_queries"): size}
        if trust.trust is not self.job.privacy.trust.name:
            chosen |= self._trusting(str(trust.trust))
        return write_beside(self.path, chosen)

    def _trusting(self, name: str) -> Chosen:
        text = text_of(self.path)
        chosen = dict(trusting(toml_from(text, str(self.path)), text, name, FEWEST_PARTIES))
        if self.job.privacy.mechanism != "auto":  # it belongs to the trust it was named for
            chosen["privacy", "mechanism"] = "auto"
        return chosen


def explore(path: Path, progress: Progress | None = None, *, num_records: int | None = None) -> Exploration:
    """Look at a job's pool. No cell is computed yet.

    Args:
      num_records: How many records will vote; the job's `records.expected` when None.
    """
    job = read_job(path)
    settings, schema, outlook = outlook_of(job, progress, num_records=num_records)
    asked = job.method.num_queries
    grid = Grid.of(
        outlook,
        settings.terms,
        num_queries=asked if isinstance(asked, int) else None,
        votes_per_record=settings.votes_per_record,
    )
    with step(progress, "explore: draw the map"):
        drawn = map_of(outlook, schema, grid.queries, settings.votes_per_record)
    return Exploration(path=Path(path).resolve(), job=job, grid=grid, map=drawn)


def ledger_shown(account: Account, *, travels: bool) -> dict[str, Any] | None:
    """The budgets of the job's ledger and their history, as the page writes them; None where it names no ledger.

    A ledger that is not there yet, lies on a server or cannot be read is one line. Reading changes nothing.

    Args:
      travels: For a page that may be handed on: only the job's own budget, and nothing about this machine.
    """
    if account.ledger is None:
        return None
    shown: dict[str, Any] = {"own": account.budget, "budgets": [], "said": ""}
    if "://" in str(account.ledger):
        return shown | {"said": "The ledger is on a server, and this page connects to none: recordwise ledger show."}
    if not Path(account.ledger).exists():
        opened = account.budget_epsilon
        first = "the run makes it" if opened else "open a budget in it first (recordwise ledger open)"
        return shown | {"said": f"The ledger {Path(account.ledger).name} is not there yet: {first}."}
    try:
        books = ledger_as_dict(Ledger.open(account.ledger, read_only=True))["budgets"]
    except RecordwiseError as fault:
        return shown | {"said": "The ledger cannot be read." if travels else str(fault)}
    return shown | {
        "budgets": [_book(name, book) for name, book in books.items() if not travels or name == account.budget],
        "said": "" if account.budget in books else f"It has no budget {account.budget!r} yet.",
    }


def _book(name: str, book: dict[str, Any]) -> dict[str, Any]:
    """What is spent is rounded up, what is left is rounded down."""
    return {
        "name": name,
        "epsilon": rounded_down(exact(book["epsilon"])),
        "spent": rounded_up(exact(book["spent"])),
        "left": rounded_down(exact(book["left"])),
        "share": min(1.0, book["spent"] / book["epsilon"]),
        "terms": f"one {book['unit']}, {book['neighbours']}, at most {book['trust']} trust",
        "releases": [
            {
                "time": one["time"][:19].replace("T", " "),
                "release": " ".join([one["key"], one["note"]]).strip(),
                "trust": one["trust"],
                "mechanism": one["event"],
                "cost": rounded_up(exact(one["cost"])),
                "spent": rounded_up(exact(one["spent"])),
            }
            for one in book["releases"]
        ],
    }
