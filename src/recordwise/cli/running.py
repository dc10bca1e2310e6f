"""`recordwise run`, `report` and `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.holder import holder_told
from recordwise.cli.options import Json, Quiet, print_json, progress_of


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
    path = "records.npz"      # or .csv, .xlsx, .parquet, .txt, .npy, an image folder, a dataset on disk
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

    asked = read_job(job)
    with holder_told():
        outcome = run_job(asked, progress_of(quiet), go_on=anyway)
    if as_json:
        print_json(outcome.summary.as_dict())
        return
    typer.echo(outcome.summary.as_text())
    if asked.account.ledger is None:
        typer.echo("account: this run's own; what other runs spend on the same records is not counted")
    typer.echo(f"report: {outcome.folder / 'report.html'}")


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the page; report.html in the folder otherwise.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run's report page again from its summary."""
    from recordwise.report import Summary, write_report

    page = out or folder / "report.html"
    write_report(Summary.read(folder / "summary.json"), page)
    if as_json:
        print_json({"report": str(page)})
        return
    typer.echo(str(page))


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("demo-report"),
    seed: Annotated[int, typer.Option(help="Seeds the split, the clusters and the student, never the noise.")] = 0,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label scikit-learn's digits privately at several epsilons, and write a report."""
    from recordwise.demo import run_demo

    outcome = run_demo(out, seed=seed, progress=progress_of(quiet))
    if as_json:
        print_json(outcome.as_dict())
        return
    typer.echo(outcome.as_text())
