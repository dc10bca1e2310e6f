"""Records that outgrow one machine: a folder of Parquet files, voted file by file on an existing engine.

A file is the unit of work on every engine. A record's votes depend on that record and on what is public alone, so they
are the same, bit for bit, wherever its file is read. Votes travel between a silo's own workers only.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recordwise.extras.asking import optional

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, whole
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.records import SiloRecords
from recordwise.sections import Source
from recordwise.votes import Votes

Picks = tuple[NDArray[np.int32], NDArray[np.int32]]  # each record's queries and labels


class Workers(Protocol):
    """Runs one function on many files, and gives the results in the files' order."""

    def map(self, work: Callable[[str], Picks], files: Sequence[str]) -> Iterable[Picks]: ...


class Here:
    """One process, one file after another."""

    def map(self, work: Callable[[str], Picks], files: Sequence[str]) -> Iterable[Picks]:
        return map(work, files)


@dataclass(frozen=True, kw_only=True)
class OnRay:
    """A Ray cluster's workers.

    Attributes:
      workers: How many to start here when no cluster is named.
      address: Of a running cluster, as for `ray.init`; every worker must see the files under the same paths.
    """

    workers: int = 2
    address: str | None = None

    def __post_init__(self) -> None:
        whole(workers=self.workers)

    def map(self, work: Callable[[str], Picks], files: Sequence[str]) -> Iterable[Picks]:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray = optional("ray", "voting on Ray", extra="ray")
        started = not ray.is_initialized()
        if started and self.address is None:
            ray.init(num_cpus=self.workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        elif started:
            ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            remote = ray.remote(work)
            yield from ray.get([remote.remote(file) for file in files])
        finally:
            if started:
                ray.shutdown()


@dataclass(frozen=True, kw_only=True, eq=False)
class ParquetFolder:
    """Private records in the .parquet files of a folder, in the order of the files' names."""

    folder: Path
    labels: str | list[str]
    samples: str | list[str] | None = None
    engine: Workers

    def files(self) -> list[str]:
        found = sorted(str(path) for path in self.folder.glob("*.parquet"))
        if not found:
            raise InvalidInput(f"records must be a folder of .parquet files, {self.folder} holds none")
        return found

    def votes(self, plan: Plan, ask: Ask) -> Votes:
        """Every record's votes. Private.

        Guarantees:
          - the same whatever the engine and its number of workers.
        """
        plan_bytes, asked, samples, labels = plan.to_bytes(), ask.to_bytes(), self.samples, self.labels

        def work(file: str) -> Picks:
            approved = Plan.from_bytes(plan_bytes)
            source = Source(path=Path(file), samples=samples, labels=labels)
            part = SiloRecords(lambda schema: source.read("records", schema)).votes(approved, Ask.from_bytes(asked))
            return part.queries, part.labels

        picks, classes = zip(*self.engine.map(work, self.files()), strict=True)
        return Votes(plan.protocol.ballot, np.concatenate(picks), np.concatenate(classes))
