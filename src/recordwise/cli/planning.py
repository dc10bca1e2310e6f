"""`recordwise plan`, `check` and `amplify`: before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from recordwise.cli.options import Json, Quiet, progress_of, show

if TYPE_CHECKING:
    from recordwise.planner import BudgetPlan, RoughPlan


NumRecords = Annotated[
    int | None, typer.Option(help="How many private records will vote, or a public guess; records.expected otherwise.")
]
Sizes = Annotated[list[int] | None, typer.Option(help="Numbers of queries (s) to consider; repeatable.")]
Votes = Annotated[list[int] | None, typer.Option(help="Votes per record (k) to consider; repeatable.")]


def plan(
    job: Annotated[
        Path | None, typer.Argument(help="A job file: its pool is looked at. Without one the answer is rough.")
    ] = None,
    num_records: NumRecords = None,
    num_queries: Sizes = None,
    votes_per_record: Votes = None,
    num_classes: Annotated[int | None, typer.Option(help="Without a job: how many classes there are.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Without a job: the budget of the run.")] = None,
    delta: Annotated[float, typer.Option(help="Without a job: 0 for pure differential privacy.")] = 0.0,
    labels_per_record: Annotated[int, typer.Option(help="Without a job: labels per record at most (r).")] = 1,
    purity: Annotated[
        float, typer.Option(help="Without a job: a guess of the share of a query's commonest class.")
    ] = 0.9,
    neighbours: Annotated[str, typer.Option(help="Without a job: replace or add-remove.")] = "replace",
    trust: Annotated[str, typer.Option(help="Without a job: central, distributed, local or shuffle.")] = "central",
    mechanism: Annotated[str, typer.Option(help="Without a job: auto, or a mechanism of that trust.")] = "auto",
    rounds: Annotated[int, typer.Option(help="Without a job: rounds that share the budget.")] = 1,
    parties: Annotated[int, typer.Option(help="Without a job: parties under distributed trust.")] = 1,
    colluding: Annotated[int, typer.Option(help="Without a job: so many may read the release and tell.")] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Predict how right labels and student will be before anything is spent, and how many queries to ask.

    With a job file the real pipeline is simulated on the job's own pool; the file of private records is not opened.
    """
    considered: dict[str, Any] = {"num_queries": num_queries, "votes_per_record": votes_per_record}
    if job is not None:
        show(_of_job(job, quiet, num_records=num_records, **considered), as_json)
        return
    sizes = {"num_records": num_records, "num_classes": num_classes, "labels_per_record": labels_per_record}
    promised = {"epsilon": epsilon, "delta": delta, "neighbours": neighbours, "trust": trust, "mechanism": mechanism}
    shared = {"rounds": rounds, "parties": parties, "colluding": colluding}
    show(_roughly({**promised, **shared}, {**sizes, **considered, "purity": purity}), as_json)


def _of_job(job: Path, quiet: bool, **asked: Any) -> BudgetPlan:
    from recordwise.job import read_job
    from recordwise.preflight import plan_job

    return plan_job(read_job(job), progress_of(quiet), **asked)


def _roughly(terms: dict[str, Any], asked: dict[str, Any]) -> RoughPlan:
    from recordwise.errors import InvalidInput
    from recordwise.planner import rough_plan
    from recordwise.protocols.terms import Terms

    if asked["num_records"] is None or asked["num_classes"] is None or terms["epsilon"] is None:
        raise InvalidInput("plan needs a job file, or --num-records, --num-classes and --epsilon for a rough answer")
    return rough_plan(Terms(**terms), **asked)


def check(
    job: Annotated[Path, typer.Argument(help="A job file.")],
    num_records: NumRecords = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Find what can go wrong with a job, as far as public data shows it; the private file is not opened.

    Exits with 1 where `recordwise run` would stop.
    """
    from recordwise.job import read_job
    from recordwise.preflight import check_job

    found = check_job(read_job(job), progress_of(quiet), num_records=num_records)
    show(found, as_json)
    if found.stops:
        raise typer.Exit(1)


def amplify(
    senders: Annotated[int, typer.Option(help="How many honest senders are shuffled together.")],
    epsilon0: Annotated[float, typer.Option(help="What one message costs on its own.")],
    delta: Annotated[float, typer.Option(help="The central guarantee's delta.")] = 1e-6,
    target: Annotated[float | None, typer.Option(help="A central epsilon to invert.")] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Also answer for this local mechanism, which may be tighter.")
    ] = None,
    num_queries: Annotated[int, typer.Option(help="With --mechanism: the ballot's queries (s).")] = 10,
    num_classes: Annotated[int, typer.Option(help="With --mechanism: the ballot's classes (C).")] = 10,
    votes_per_record: Annotated[int, typer.Option(help="With --mechanism: votes per record (k).")] = 1,
    labels_per_record: Annotated[int, typer.Option(help="With --mechanism: labels per record at most (r).")] = 1,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """What shuffling is worth, by every accountant, and the largest epsilon0 that reaches a central epsilon."""
    from recordwise.errors import InvalidInput
    from recordwise.privacy.amplification import amplify as ask
    from recordwise.progress import step
    from recordwise.protocols.local import mechanisms
    from recordwise.votes import Ballot

    ballot = Ballot(
        num_queries=num_queries,
        num_classes=num_classes,
        votes_per_record=votes_per_record,
        labels_per_record=labels_per_record,
    )
    if mechanism not in (None, *mechanisms()):
        raise InvalidInput(f"mechanism must be one of {', '.join(mechanisms())}, got {mechanism!r}")
    known = None if mechanism is None else mechanisms()[mechanism].tells(ballot)
    with step(progress_of(quiet), "amplify"):
        answer = ask(senders, epsilon0, delta, mechanism=known, target=target)
    show(answer, as_json)
