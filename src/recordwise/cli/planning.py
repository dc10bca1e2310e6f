"""`recordwise plan` and `amplify`: before anything is spent."""

from __future__ import annotations

from typing import Annotated

import typer

from recordwise.cli.options import Json, print_json


def plan(
    num_records: Annotated[int, typer.Option(help="How many private records will vote, or a public guess.")],
    num_classes: Annotated[int, typer.Option(help="How many classes there are.")],
    epsilon: Annotated[float, typer.Option(help="The budget of the run.")],
    delta: Annotated[float, typer.Option(help="0 for pure differential privacy.")] = 0.0,
    num_queries: Annotated[
        list[int] | None, typer.Option(help="Numbers of queries (s) to consider; repeatable.")
    ] = None,
    votes_per_record: Annotated[
        list[int] | None, typer.Option(help="Votes per record (k) to consider; repeatable.")
    ] = None,
    labels_per_record: Annotated[int, typer.Option(help="Labels per record at most (r).")] = 1,
    purity: Annotated[
        float, typer.Option(help="A public guess: share of a query's records with its commonest class.")
    ] = 0.9,
    pool_size: Annotated[int, typer.Option(help="How many pool samples there are.")] = 3000,
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
    from recordwise.protocols.terms import Terms

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
    made = make_plan(
        terms,
        num_records=num_records,
        num_classes=num_classes,
        labels_per_record=labels_per_record,
        num_queries=num_queries,
        votes_per_record=votes_per_record or None,
        purity=purity,
        pool_size=pool_size,
    )
    if as_json:
        print_json(made.as_dict())
        return
    typer.echo(made.as_text())


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
    as_json: Json = False,
) -> None:
    """What shuffling is worth, by every accountant, and the largest epsilon0 that reaches a central epsilon."""
    from recordwise.errors import InvalidInput
    from recordwise.privacy.amplification import amplify as ask
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
    answer = ask(senders, epsilon0, delta, mechanism=known, target=target)
    if as_json:
        print_json(answer.as_dict())
        return
    typer.echo(answer.as_text())
