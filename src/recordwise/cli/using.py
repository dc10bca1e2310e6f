"""`recordwise predict` and `export`: what a run left, used and handed over."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def predict(
    folder: Annotated[Path, typer.Argument(help="A finished run's folder, or an exported one.")],
    samples: Annotated[Path, typer.Argument(help="The samples: any file that a job file could name.")],
    encoder: Annotated[
        str | None, typer.Option(help="The encoder by its name, where the student was stored without it.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A CSV file to write; standard output otherwise.")] = None,
    probabilities: Annotated[bool, typer.Option(help="Also the probability of every class.")] = False,
) -> None:
    """Ask a published student about new samples: one line each, with its label and how sure it is."""
    from recordwise.encoders import encoder_from
    from recordwise.handover import predict_file
    from recordwise.published import load

    model = load(folder, encoder=None if encoder is None else encoder_from(encoder, [], seed=0))
    table = predict_file(model, samples, probabilities=probabilities)
    if out is None:
        sys.stdout.write(table)
        return
    from recordwise.durable import write_whole

    write_whole(out, table.encode())
    typer.echo(str(out))


def export(
    run: Annotated[Path, typer.Argument(help="A finished run's folder.")],
    to: Annotated[Path, typer.Option(help="A new folder for what is handed over.")],
) -> None:
    """Hand a run over: the student, a model card, the labels of the pool; nothing in it runs code when it is read."""
    from recordwise.handover import hand_over

    for path in hand_over(run, to):
        typer.echo(str(path))
