"""A job file, carried out: read, distil, measure, write. Killed at any point, it goes on when it is run again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.account import Account
from recordwise.checkpoint import OWN_LEDGER, begun_with
from recordwise.data import Samples, Schema
from recordwise.data.samples import Loaded
from recordwise.distiller import PrivateDistiller
from recordwise.durable import write_whole
from recordwise.errors import InvalidInput, shown
from recordwise.handover import Labelled, names_of
from recordwise.job import JobFile
from recordwise.labels import ABSTAIN
from recordwise.preflight import check_run
from recordwise.progress import Progress, part, step
from recordwise.published import save
from recordwise.records import as_labels, check_labels, declared_classes, read_labels
from recordwise.report import Summary, summarize, write_report
from recordwise.sections import Source
from recordwise.settings import AUTO
from recordwise.votes import NOBODY

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a finished job left in its folder."""

    folder: Path
    distiller: PrivateDistiller
    summary: Summary


def run_job(job: JobFile, progress: Progress, *, go_on: bool = False) -> Outcome:
    """Carry a job out.

    It is checked first, as far as what is public shows; a run whose budget would go on noise stops there, with why.

    The job's folder then holds `student.npz`, `labels.csv` (one line per pool sample), `summary.json` and
    `report.html`: all of it public once the run's guarantee is accepted.

    Args:
      go_on: Run it whatever a check would find; where num_queries is a number there is none then.
    """
    if job.out is None:
        raise InvalidInput("a job needs a folder for its results: out")
    with step(progress, "read"):
        with part(0, 1, 4):
            public = job.public.read("public")
        with part(1, 2, 4):
            schema, pool = job.read_pool(public)
        with part(2, 3, 4):
            samples, labels = job.read_records(schema)
        test = None
        if job.test is not None:
            with part(3, 4, 4):
                test = read_test(job.test, schema, job.method.classes, several=job.records.labels_per_record > 1)
    go_on = go_on or job.account.go_on
    num_queries: int | str = job.method.num_queries
    begun = begun_with(job.out)
    if begun is None:
        num_queries = _checked(job, public, len(samples), progress, go_on=go_on)
    elif num_queries == AUTO:
        num_queries = begun  # what was paid for is about so many queries
    # Checked is checked: of the task, the job may know more than an estimator does.
    held = {
        "records": replace(job.records, schema=schema),
        "account": replace(_account(job, job.out), go_on=True),
        "num_queries": num_queries,
    }
    distiller = PrivateDistiller(**(job.settings() | held))
    distiller.fit(samples, labels, X_public=pool, progress=progress)
    asked = {"num_queries": job.method.num_queries}
    with step(progress, "score and write"):
        summary = summarize(distiller, pool, name=job.name, test=test, asked=asked)
        write_outcome(job.out, distiller, summary, public)
    return Outcome(job.out, distiller, summary)


def _checked(job: JobFile, public: Loaded, num_records: int, progress: Progress, *, go_on: bool) -> int | str:
    """How many queries to ask. Whoever runs the job is told what a check finds, and it may stop here."""
    if go_on and job.method.num_queries != AUTO:
        return job.method.num_queries
    checked = check_run(job, public, num_records=num_records, progress=progress)
    for one in checked.findings:
        if go_on or not one.stops:  # else it is what the refusal says
            logger.warning("%s", one)
    if not go_on:
        checked.refuse()
    return job.method.num_queries if checked.plan is None else checked.plan.recommended.num_queries


def _account(job: JobFile, folder: Path) -> Account:
    """Who pays for a job that is run in a folder. One that names no ledger gets one, for exactly what it may spend."""
    asked = replace(job.account, run_dir=folder)
    if asked.ledger is not None:
        return asked
    own = replace(asked, ledger=str(folder / OWN_LEDGER))
    if asked.budget_epsilon is not None:
        return own
    return replace(own, budget_epsilon=job.privacy.epsilon, budget_delta=job.privacy.delta)


def read_test(source: Source, schema: Schema, classes: Sequence[Any], *, several: bool) -> tuple[Samples, NDArray[Any]]:
    """A test set, or one line that says why it could not be scored, before anything is spent on what it is to test.

    Args:
      several: A sample may have several labels: they are columns of zeros and ones.
    """
    loaded = source.read("test", schema)
    if loaded.labels is None:
        raise InvalidInput("test.labels must name where the test labels are")
    if not len(loaded):
        raise InvalidInput("[test] must hold at least one sample, got 0")
    try:
        samples = schema.pool(loaded.samples)
        labels = as_labels(loaded.labels, len(loaded))
        check_labels(labels, len(classes), len(classes) if several else 1)
        names = declared_classes(classes)
    except InvalidInput as fault:
        raise InvalidInput(f"[test] {fault}") from fault
    numbers, why = read_labels(labels, names, len(classes) if several else 1)
    if why.any():
        row = int(np.flatnonzero(why)[0])
        raise InvalidInput(f"[test] labels must be declared classes, row {row} holds {shown(labels[row])}")
    if not several:
        return samples, names[numbers[:, 0]]
    matrix = np.zeros((len(loaded), len(names)), dtype=np.int64)
    rows, places = np.nonzero(numbers != NOBODY)
    matrix[rows, numbers[rows, places]] = 1
    return samples, matrix


def write_outcome(folder: Path, distiller: PrivateDistiller, summary: Summary, public: Loaded) -> None:
    """Put what a run made into its folder; labels go by the names that the pool's samples have in their file."""
    save(distiller, folder)
    labels, sure = _pool_labels(distiller), distiller.pool_confidence_.tolist()
    Labelled(**names_of(public, len(labels)), labels=labels, confidence=sure).write(folder / "labels.csv")
    write_whole(folder / "summary.json", summary.to_json().encode())
    write_report(summary, folder / "report.html")


def _pool_labels(distiller: PrivateDistiller) -> list[str]:
    """Each pool sample's label, empty where it has none; several are joined by semicolons."""
    names = distiller.classes_.astype(str)
    if distiller.settings.records.labels_per_record == 1:
        return [names[label] if label != ABSTAIN else "" for label in distiller.pool_places_]
    return [";".join(names[row > 0.5]) for row in distiller.pool_probabilities_]
