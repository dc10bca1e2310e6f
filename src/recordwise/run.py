"""A job file, carried out: read, distil, measure, write. Killed at any point, it goes on when it is run again."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.checkpoint import OWN_LEDGER
from recordwise.data import Kind, Loaded, kind_of
from recordwise.distiller import PrivateDistiller
from recordwise.durable import write_whole
from recordwise.errors import InvalidInput
from recordwise.job import JobFile
from recordwise.labels import ABSTAIN
from recordwise.progress import Progress
from recordwise.report import Summary, summarize, write_report


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
    private, public = job.private.read("private"), job.public.read("public")
    test = job.test.read("test") if job.test else None
    if private.labels is None:
        raise InvalidInput("private.labels must name where the records' labels are")
    _check_columns("private", private, public)
    if test is not None:
        check_test(test, public, like=private.labels, classes=job.method.classes)
    distiller = PrivateDistiller(
        **job.settings(),
        ledger=job.privacy.ledger or str(job.out / OWN_LEDGER),
        budget=job.privacy.budget,
        **_budget_terms(job),
        run_dir=job.out,
        progress=progress,
    )
    distiller.fit(private.samples, private.labels, X_public=public.samples)
    accuracy = None if test is None else float(distiller.score(test.samples, test.labels))
    summary = summarize(distiller, public.samples, name=job.name, test_accuracy=accuracy)
    write_outcome(job.out, distiller, summary)
    return Outcome(job.out, distiller, summary)


def _budget_terms(job: JobFile) -> dict[str, Any]:
    """With what to open the job's budget. A job that names no ledger gets one, for exactly what it may spend."""
    asked = job.privacy
    if asked.ledger is None and asked.budget_epsilon is None:
        return {"budget_epsilon": asked.epsilon, "budget_delta": asked.delta}
    return {"budget_epsilon": asked.budget_epsilon, "budget_delta": asked.budget_delta}


def _check_columns(section: str, loaded: Loaded, public: Loaded) -> None:
    """Columns are told apart by their place once they are read, so they must come in one order."""
    if loaded.columns != public.columns:
        ours, theirs = (", ".join(part.columns) or "none" for part in (loaded, public))
        raise InvalidInput(f"[{section}] samples must be the pool's columns in its order ({theirs}), got {ours}")


def check_test(
    test: Loaded, public: Loaded, *, like: NDArray[Any], classes: Sequence[int] | Sequence[str] | None
) -> None:
    """Refuse a test set that could not be scored, before anything is spent on what it is to test.

    Args:
      like: Labels of the kind and width that the student will give.
      classes: The declared ones, if they are.
    """
    if test.labels is None:
        raise InvalidInput("test.labels must name where the test labels are")
    if not len(test):
        raise InvalidInput("[test] must hold at least one sample, got 0")
    _check_columns("test", test, public)
    wide, width = np.shape(test.samples)[1:], np.shape(public.samples)[1:]
    if wide != width:
        raise InvalidInput(f"[test] samples must have the pool's shape {width}, got {wide}")
    for name, ours, theirs in zip(test.columns, _words(test), _words(public), strict=True):
        if ours and not theirs:
            raise InvalidInput(f"[test] column {name!r} must hold numbers as in the pool, it holds words")
    labels = np.asarray(test.labels)
    numbers, known = (part.dtype.kind in "iufb" for part in (labels, like))
    if numbers != known or labels.shape[1:] != like.shape[1:]:
        raise InvalidInput("[test] labels must be of the kind of the private ones: all numbers, or all names")
    if numbers and not np.isfinite(labels).all():
        raise InvalidInput("[test] labels must have no gaps, some are NaN or infinite")
    if classes is not None and labels.ndim == 1:
        unknown = [row for row, label in enumerate(labels.tolist()) if label not in classes]
        if unknown:
            held = labels.tolist()[unknown[0]]
            raise InvalidInput(f"[test] labels must be declared classes, row {unknown[0]} holds {held!r}")


def _words(loaded: Loaded) -> list[bool]:
    """Which columns of a table hold words."""
    if kind_of(loaded.samples) is not Kind.TABLE:
        return [False] * len(loaded.columns)
    return [any(isinstance(cell, str) for cell in column) for column in loaded.samples.T]


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
    if distiller.labels_per_record == 1:
        return [names[label] if label != ABSTAIN else "" for label in distiller.pool_labels_]
    return [";".join(names[chances > 0.5]) for chances in distiller.pool_chances_]
