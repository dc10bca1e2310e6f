"""`recordwise audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.holder import nobody_told
from recordwise.cli.options import Json, Quiet, progress_of, show


def audit(
    epsilon: Annotated[float | None, typer.Option(help="What the release claims; not needed with --job.")] = None,
    delta: Annotated[float, typer.Option(help="0 for pure differential privacy.")] = 0.0,
    num_queries: Annotated[int, typer.Option(help="Queries on the ballot (s).")] = 10,
    num_classes: Annotated[int, typer.Option(help="Classes (C).")] = 10,
    votes_per_record: Annotated[int, typer.Option(help="Votes per record (k).")] = 1,
    labels_per_record: Annotated[int, typer.Option(help="Labels per record at most (r).")] = 1,
    neighbours: Annotated[str, typer.Option(help="replace or add-remove.")] = "replace",
    trust: Annotated[str, typer.Option(help="central, distributed, local or shuffle.")] = "central",
    mechanism: Annotated[str, typer.Option(help="auto, or a mechanism of that trust.")] = "auto",
    rounds: Annotated[int, typer.Option(help="Rounds that share the budget; one of them is audited.")] = 1,
    parties: Annotated[int, typer.Option(help="Parties under distributed trust.")] = 1,
    colluding: Annotated[int, typer.Option(help="Of those who add noise, so many may read the release.")] = 1,
    num_records: Annotated[int, typer.Option(help="Records that vote: the senders under shuffle trust.")] = 1000,
    job: Annotated[
        Path | None, typer.Option(help="A job file: audits its protocols and replays its pipeline on its data.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Views drawn of each data set: more give a sharper bound.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="That no sampled bound is too high.")] = 1 - 1e-6,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Put a privacy claim to the test, on neighbouring data sets; exit with 1 if it is violated.

    Prints the claimed epsilon and the largest lower bound on the true one: exact, from the probabilities that the
    protocol draws from, and sampled, by running clients, shuffler and server. With --job, neighbouring data sets also
    go through encoder, queries and votes, to check the declared sensitivity. Nothing is spent and nothing is released.
    """
    from recordwise.audit.command import audit_job, audit_terms
    from recordwise.errors import InvalidInput
    from recordwise.protocols.terms import Terms
    from recordwise.votes.ballot import Ballot

    if job is not None:
        with nobody_told():
            found = audit_job(job, trials=trials, confidence=confidence, progress=progress_of(quiet))
    elif epsilon is None:
        raise InvalidInput("an audit needs a claim: --epsilon, or a job file: --job")
    else:
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
        ballot = Ballot(
            num_queries=num_queries,
            num_classes=num_classes,
            votes_per_record=votes_per_record,
            labels_per_record=labels_per_record,
        )
        found = audit_terms(
            terms,
            ballot,
            num_records=num_records,
            trials=trials,
            confidence=confidence,
            progress=progress_of(quiet),
        )
    show(found, as_json)
    if found.violated:
        raise typer.Exit(found.exit_code)
