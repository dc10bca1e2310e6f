"""The command `recordwise`: parses, calls one library function, prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from recordwise.cli_audit import audit
from recordwise.errors import RecordwiseError
from recordwise.federation.cli import install as install_federation

app = typer.Typer(
    name="recordwise",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="""Label public data with private records; protect every single record.

    Each private record votes for the public queries nearest to it; the votes are released under differential privacy;
    a student is trained on the labelled pool and can be published.

    First visit: [bold]recordwise demo[/bold]. Your own data: write a job file (see [bold]recordwise run --help[/bold]),
    then [bold]recordwise plan[/bold] and [bold]recordwise run job.toml[/bold].""",
)
ledger_app = typer.Typer(no_args_is_help=True, help="What was spent, when, on what, and what is left.")
app.add_typer(ledger_app, name="ledger")
app.command()(audit)
install_federation(app)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]


@app.command()
def run(
    job: Annotated[Path, typer.Argument(help="A job file, such as the one above.")],
    as_json: Json = False,
) -> None:
    r"""Carry out a job: label the pool, pay in the ledger, teach the student, write a report.

    Killed at any point, run the same command again: it goes on, and nothing is paid for twice.

    A job file:

    \[private]
    path = "records.npz"      # or .npy, .parquet, .csv, .txt, an image folder
    labels = "y"

    \[public]
    path = "pool.npz"

    \[privacy]
    epsilon = 0.5
    ledger = "ledger.sqlite"  # opened with: recordwise ledger open
    budget = "patients-2026"

    \[method]
    classes = ["flu", "cold"] # public, so declare it
    """
    from recordwise.job import read_job
    from recordwise.progress import Bars
    from recordwise.run import run_job

    outcome = run_job(read_job(job), Bars())
    if as_json:
        _print_json(outcome.summary.as_dict())
        return
    typer.echo(outcome.summary.as_text())
    typer.echo(f"report: {outcome.folder / 'report.html'}")


@app.command()
def plan(
    records: Annotated[int, typer.Option(help="How many private records will vote, or a public guess.")],
    classes: Annotated[int, typer.Option(help="How many classes there are.")],
    epsilon: Annotated[float, typer.Option(help="The budget of the run.")],
    delta: Annotated[float, typer.Option(help="0 for pure differential privacy.")] = 0.0,
    queries: Annotated[list[int] | None, typer.Option(help="Numbers of queries (s) to consider; repeatable.")] = None,
    votes: Annotated[list[int] | None, typer.Option(help="Votes per record (k) to consider; repeatable.")] = None,
    labels: Annotated[int, typer.Option(help="Labels per record at most (r).")] = 1,
    purity: Annotated[
        float, typer.Option(help="A public guess: share of a query's records with its commonest class.")
    ] = 0.9,
    pool: Annotated[int, typer.Option(help="How many pool samples there are.")] = 3000,
    neighbours: Annotated[str, typer.Option(help="replace or add-remove.")] = "replace",
    trust: Annotated[str, typer.Option(help="central, distributed, local or shuffle.")] = "central",
    mechanism: Annotated[str, typer.Option(help="auto, or a mechanism of that trust.")] = "auto",
    rounds: Annotated[int, typer.Option(help="Rounds that share the budget.")] = 1,
    parties: Annotated[int, typer.Option(help="Parties under distributed trust.")] = 1,
    colluding: Annotated[int, typer.Option(help="Of those who add noise, so many may read the release.")] = 1,
    as_json: Json = False,
) -> None:
    """Predict the labels' accuracy before anything is spent, and recommend how many queries to ask.

    No data is read: a made-up world with these numbers goes through the real protocol's noise and the real decoder.
    """
    from recordwise.planner import plan as make_plan
    from recordwise.privacy.guarantee import Neighbours, Trust, exact, one_of
    from recordwise.protocols.terms import Terms

    terms = Terms(
        epsilon=exact(epsilon, "epsilon"),
        delta=exact(delta, "delta"),
        neighbours=one_of(Neighbours, neighbours=neighbours),
        trust=one_of(Trust, trust=trust),
        mechanism=mechanism,
        rounds=rounds,
        parties=parties,
        colluding=colluding,
    )
    made = make_plan(
        terms,
        num_records=records,
        num_classes=classes,
        labels_per_record=labels,
        num_queries=queries,
        votes_per_record=votes or None,
        purity=purity,
        pool_size=pool,
    )
    if as_json:
        _print_json(made.as_dict())
        return
    typer.echo(made.as_text())


@app.command()
def amplify(
    n: Annotated[int, typer.Option("--n", help="How many honest senders are shuffled together.")],
    epsilon0: Annotated[float, typer.Option(help="What one message costs on its own.")],
    delta: Annotated[float, typer.Option(help="The central guarantee's delta.")] = 1e-6,
    target: Annotated[float | None, typer.Option(help="A central epsilon to invert.")] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Also answer for this local mechanism, which may be tighter.")
    ] = None,
    queries: Annotated[int, typer.Option(help="With --mechanism: the ballot's queries (s).")] = 10,
    classes: Annotated[int, typer.Option(help="With --mechanism: the ballot's classes (C).")] = 10,
    votes: Annotated[int, typer.Option(help="With --mechanism: votes per record (k).")] = 1,
    labels: Annotated[int, typer.Option(help="With --mechanism: labels per record at most (r).")] = 1,
    as_json: Json = False,
) -> None:
    """What shuffling is worth, by every accountant, and the largest epsilon0 that reaches a central epsilon."""
    from recordwise.privacy.amplification import amplify as ask
    from recordwise.protocols.local.parameters import kind_named
    from recordwise.protocols.shuffle.single import amplifiable
    from recordwise.votes import Ballot

    ballot = Ballot(num_queries=queries, num_classes=classes, votes_per_record=votes, labels_per_record=labels)
    known = None if mechanism is None else amplifiable(kind_named(mechanism), ballot)
    answer = ask(n, epsilon0, delta, mechanism=known, target=target)
    if as_json:
        _print_json(answer.to_dict())
        return
    typer.echo(answer.as_text())


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write the page; report.html in the folder otherwise.")
    ] = None,
) -> None:
    """Write a run's report page again from its summary."""
    from recordwise.report import Summary, write_report

    page = out or folder / "report.html"
    write_report(Summary.read(folder / "summary.json"), page)
    typer.echo(str(page))


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the report.")] = Path("demo-report"),
    seed: Annotated[int, typer.Option(help="Seeds the split, the clusters and the student, never the noise.")] = 0,
    as_json: Json = False,
) -> None:
    """Label scikit-learn's digits privately at several epsilons, and write a report."""
    from recordwise.demo import run_demo
    from recordwise.progress import Bars

    outcome = run_demo(out, seed=seed, progress=Bars())
    if as_json:
        _print_json(outcome.as_dict())
        return
    typer.echo(outcome.as_text())


@ledger_app.command("open")
def ledger_open(
    place: Annotated[str, typer.Argument(help="A path (SQLite) or a URL (postgresql://…).")],
    budget: Annotated[str, typer.Option(help="A name for the records it protects: one budget per set of records.")],
    epsilon: Annotated[float, typer.Option(help="What all releases together may cost.")],
    delta: Annotated[float, typer.Option(help="0 for pure differential privacy.")] = 0.0,
    neighbours: Annotated[str, typer.Option(help="replace or add-remove.")] = "replace",
) -> None:
    """Open a budget. Its terms never change afterwards."""
    from recordwise.privacy.guarantee import Neighbours, exact, one_of
    from recordwise.privacy.ledger import Budget, Ledger

    asked = Budget(  # refused, if it is a mistake, before a ledger is made for it
        name=budget,
        epsilon=exact(epsilon, "epsilon"),
        delta=exact(delta, "delta"),
        neighbours=one_of(Neighbours, neighbours=neighbours),
    )
    opened = Ledger.open(place).open_budget(
        asked.name, epsilon=asked.epsilon, delta=asked.delta, neighbours=asked.neighbours
    )
    typer.echo(
        f"budget {opened.name!r}: epsilon {float(opened.epsilon):g}, delta {float(opened.delta):g}, {opened.neighbours}"
    )


@ledger_app.command("show")
def ledger_show(
    place: Annotated[str, typer.Argument(help="A path (SQLite) or a URL (postgresql://…).")],
    budget: Annotated[str | None, typer.Option(help="One budget only.")] = None,
    as_json: Json = False,
) -> None:
    """Show budgets and their history. Reading changes nothing."""
    from recordwise.privacy.ledger import Ledger
    from recordwise.report.ledger import ledger_as_dict, ledger_as_text

    ledger = Ledger.open(place, read_only=True)
    if as_json:
        _print_json(ledger_as_dict(ledger, budget))
        return
    typer.echo(ledger_as_text(ledger, budget))


def _print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2))


def main() -> None:
    """Run the command; a mistake ends in one line on standard error and an exit code of its kind."""
    try:
        code = app(standalone_mode=False)  # what a command exits with comes back as a value
        if isinstance(code, int) and code:
            sys.exit(code)
    except RecordwiseError as error:
        print(f"recordwise: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:  # a folder that cannot be written, a full disk
        about = f": {error.filename}" if error.filename else ""
        print(f"recordwise: {error.strerror or error}{about}", file=sys.stderr)
        sys.exit(1)
    except typer.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("recordwise: interrupted; run the same command again to go on", file=sys.stderr)
        sys.exit(130)
