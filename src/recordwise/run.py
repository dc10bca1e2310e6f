"""A job file, carried out: read, distil, measure, write. Killed at any point, it goes on when it is run again."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.account import Account
from recordwise.checkpoint import OWN_LEDGER
from recordwise.data import Samples, Schema
from recordwise.distiller import PrivateDistiller
from recordwise.durable import write_whole
from recordwise.errors import InvalidInput, shown
from recordwise.job import JobFile
from recordwise.labels import ABSTAIN
from recordwise.progress import Progress
from recordwise.records import check_labels, read_labels
from recordwise.report import Summary, summarize, write_report
from recordwise.sections import Source
from recordwise.votes import NOBODY


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a finished job left in its folder."""

    folder: Path
    distiller: PrivateDistiller
    summary: Summary


def run_job(job: JobFile, progress: Progress) -> Outcome:
    """Carry a job out.

    The job's folder then holds `student.joblib`, `labels.csv` (one line per pool sample), `summary.json` and
    `report.html`: all of it public once the run's guarantee is accepted.
    """
    if job.out is None:
        raise InvalidInput("a job needs a folder for its results: out")
    schema, pool = job.read_pool()
    samples, labels = job.read_records(schema)
    test = None
    if job.test is not None:
        test = read_test(job.test, schema, job.method.classes, several=job.records.labels_per_record > 1)
    held = {"records": replace(job.records, schema=schema), "account": _account(job, job.out)}
    distiller = PrivateDistiller(**(job.settings() | held))
    distiller.fit(samples, labels, X_public=pool, progress=progress)
    accuracy = None if test is None else float(distiller.score(*test))
    summary = summarize(distiller, pool, name=job.name, test_accuracy=accuracy)
    write_outcome(job.out, distiller, summary)
    return Outcome(job.out, distiller, summary)


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
        check_labels(loaded.labels, len(classes), len(classes) if several else 1)
    except InvalidInput as fault:
        raise InvalidInput(f"[test] {fault}") from fault
    names = np.asarray(classes)
    numbers, why = read_labels(loaded.labels, names, len(classes) if several else 1)
    if why.any():
        row = int(np.flatnonzero(why)[0])
        raise InvalidInput(f"[test] labels must be declared classes, row {row} holds {shown(loaded.labels[row])}")
    if not several:
        return samples, names[numbers[:, 0]]
    matrix = np.zeros((len(loaded), len(names)), dtype=np.int64)
    rows, places = np.nonzero(numbers != NOBODY)
    matrix[rows, numbers[rows, places]] = 1
    return samples, matrix


def write_outcome(folder: Path, distiller: PrivateDistiller, summary: Summary) -> None:
    """Put what a run made into its folder."""
    import joblib

    model = io.BytesIO()
    joblib.dump(distiller.published(), model)
    write_whole(folder / "student.joblib", model.getvalue())
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(["sample", "label", "confidence"])
    for row, (label, sure) in enumerate(zip(_pool_labels(distiller), distiller.pool_confidence_, strict=True)):
        table.writerow([row, label, f"{sure:.4f}"])
    write_whole(folder / "labels.csv", lines.getvalue().encode())
    write_whole(folder / "summary.json", summary.to_json().encode())
    write_report(summary, folder / "report.html")


def _pool_labels(distiller: PrivateDistiller) -> list[str]:
    """Each pool sample's label, empty where it has none; several are joined by semicolons."""
    names = distiller.classes_.astype(str)
    if distiller.settings.records.labels_per_record == 1:
        return [names[label] if label != ABSTAIN else "" for label in distiller.pool_labels_]
    return [";".join(names[row > 0.5]) for row in distiller.pool_probabilities_]
