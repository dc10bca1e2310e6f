"""`recordwise plan`, `check` and `amplify`: before anything is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.options import Json, Quiet, progress_of, show


def plan(
    job: Annotated[
        Path | None, typer.Argument(help="A job file: its pool is looked at. Without one the answer is rough.")
    ] = None,
    num_records: Annotated[
        int | None,
        typer.Option(help="How many private records will vote, or a public guess; records.expected otherwise."),
    ] = None,
    num_queries: Annotated[
        list[int] | None, typer.Option(help="Numbers of queries (s) to consider; repeatable.")
    ] = None,
    votes_per_record: Annotated[
        list[int] | None, typer.Option(help="Votes per record (k) to consider; repeatable.")
    ] = None,
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
    from recordwise.errors import InvalidInput
    from recordwise.planner import rough_plan
    from recordwise.protocols.terms import Terms

    if job is not None:
        from recordwise.job import read_job
        from recordwise.preflight import plan_job

        made = plan_job(
            read_job(job),
            progress_of(quiet),
            num_records=num_records,
            num_queries=num_queries,
            votes_per_record=votes_per_record,
        )
        show(made, as_json)
        return
    if num_records is None or num_classes is None or epsilon is None:
        raise InvalidInput("plan needs a job file, or --num-records, --num-classes and --epsilon for a rough answer")
    terms = Terms(
        epsilon=epsilon,  # type: ignore[arg-type]  # Terms reads numbers and words
        delta=delta,  # type: ignore[arg-type]
        neighbours=neighbours,  # type: ignore[arg-type]
        trust=trust,  # type: ignore[arg-type]
        mechanism=mechanism,
        rounds=rounds,
        parties=parties,
        colluding=colluding,
    )
    rough = rough_plan(
        terms,
        num_records=num_records,
        num_classes=num_classes,
        labels_per_record=labels_per_record,
        num_queries=num_queries,
        votes_per_record=votes_per_record,
        purity=purity,
    )
    show(rough, as_json)


def check(
    job: Annotated[Path, typer.Argument(help="A job file.")],
    num_records: Annotated[
        int | None,
        typer.Option(help="How many private records will vote, or a public guess; records.expected otherwise."),
    ] = None,
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
