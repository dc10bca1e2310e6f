"""`recordwise compare`: our method and the alternatives on a job's own data."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.holder import holder_told
from recordwise.cli.options import Json, Quiet, print_json, progress_of


def compare(
    job: Annotated[Path, typer.Argument(help=r"A job file with a \[test] section.")],
    public_only: Annotated[
        bool,
        typer.Option(
            "--public-only",
            help=r"Compare on public labels alone, the pool's or those of \[test]: nothing private, free.",
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    r"""Compare our method with PATE, private k-NN, noisy SGD and DP linear models, on the same data.

    Each method makes a release of its own, and they add up: what the comparison costs is said first, all of it is
    charged to the job's ledger, and a budget that cannot pay for all of it refuses all of it. Killed, the same command
    goes on, and nothing is paid for twice.

    Which methods, and at which epsilons, may be said in the job file:

    \[compare]
    methods = ["recordwise", "dp-linear", {name = "gnmax", teachers = 100}]
    epsilons = \[0.1, 1.0]
    """
    from recordwise.compare import PAGE, compare_job
    from recordwise.job import read_job

    asked = read_job(job)
    with holder_told():
        made = compare_job(
            asked, public_only=public_only, progress=progress_of(quiet), tell=lambda line: typer.echo(line, err=True)
        )
    if as_json:
        print_json(asdict(made))
        return
    typer.echo(made.as_text())
    assert asked.out is not None
    typer.echo(f"page: {asked.out / PAGE}")
