"""`recordwise run`, `report` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.holder import holder_told
from recordwise.cli.options import Json, Quiet, progress_of, show


def run(
    job: Annotated[Path, typer.Argument(help="A job file, such as the one above.")],
    anyway: Annotated[bool, typer.Option("--anyway", help="Run it whatever a check would find.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    r"""Carry out a job: label the pool, pay in the ledger, teach the student, write a report.

    It is checked first (see recordwise check), and stops where its budget would go on noise.

    Killed at any point, run the same command again: it goes on, and nothing is paid for twice.

    A job file:

    \[private]
    path = "records.npz"      # or .csv, .xlsx, .parquet, .txt, images
    labels = "y"

    \[public]
    path = "pool.npz"

    \[privacy]
    epsilon = 0.5

    \[method]
    classes = ["flu", "cold"] # public, so declare it

    \[account]
    ledger = "ledger.sqlite"  # opened with: recordwise ledger open
    budget = "patients-2026"
    """
    from recordwise.job import read_job
    from recordwise.run import run_job

    with holder_told():
        outcome = run_job(read_job(job), progress_of(quiet), go_on=anyway)
    show(outcome.summary, as_json)
    if not as_json:
        typer.echo(f"report: {outcome.folder / 'report.html'}")


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the page; report.html in the folder otherwise.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a run's report page again from its summary, and print the same figures."""
    from recordwise.progress import step
    from recordwise.report import Summary, write_report

    page, summary = out or folder / "report.html", Summary.read(folder / "summary.json")
    with step(progress_of(quiet), "write"):
        write_report(summary, page)
    show(summary, as_json)
    if not as_json:
        typer.echo(f"report: {page}")


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("demo-report"),
    seed: Annotated[int, typer.Option(help="Seeds the split, the clusters and the student, never the noise.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label scikit-learn's digits privately at several epsilons, and write a report."""
    from recordwise.demo import run_demo

    show(run_demo(out, seed=seed, progress=progress_of(quiet)), as_json)
