"""`recordwise predict` and `export`: what a run left, used and handed over."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.options import Decimal, Delimiter, Encoding, Json, Quiet, Sheet, print_json, progress_of, tell


def predict(
    folder: Annotated[Path, typer.Argument(help="A finished run's folder, or an exported one.")],
    samples: Annotated[Path, typer.Argument(help="The samples: any file that a job file could name.")],
    encoder: Annotated[
        str | None, typer.Option(help="The encoder by its name, where the student was stored without it.")
    ] = None,
    ids: Annotated[
        str | None, typer.Option(help="The column that names the samples; images go by their files' names.")
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file to write; CSV on standard output otherwise.")
    ] = None,
    probabilities: Annotated[bool, typer.Option(help="Also the probability of every class.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Ask a published student about new samples: one line each, with its label and how sure it is.

    Class weights and a threshold decide labels. The confidence is the label's chance without class weights;
    probabilities are with them. Where a classifier of your own works weights out itself ("balanced"), or a part of it
    has them, as in a pipeline, the confidence is with them, too.

    How a text file is spelled is guessed from the file itself: nothing of it is released.
    """
    from recordwise.encoders import encoder_from
    from recordwise.formats import guessed
    from recordwise.handover import predict_file
    from recordwise.published import load

    model = load(folder, encoder=None if encoder is None else encoder_from(encoder, [], seed=0))
    layout = None
    if samples.is_file():
        layout = guessed(samples, delimiter=delimiter, encoding=encoding, decimal=decimal, sheet=sheet)
    found = predict_file(
        model, samples, ids=ids, layout=layout, probabilities=probabilities, progress=progress_of(quiet)
    )
    if out is not None:
        found.write(out)
    if as_json:
        print_json(found.as_dict() if out is None else {"labels": str(out)})
    elif out is None:
        sys.stdout.write(found.as_csv())
    else:
        typer.echo(str(out))


def export(
    run: Annotated[Path, typer.Argument(help="A finished run's folder, or one that recordwise.save wrote.")],
    to: Annotated[Path, typer.Option(help="A new folder for what is handed over.")],
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Hand a run over: the student, a model card, the labels of the pool; nothing in it runs code when it is read."""
    from recordwise.handover import hand_over
    from recordwise.progress import step

    with step(progress_of(quiet), "write"):
        made = hand_over(run, to)
    for line in made.left_out:
        typer.echo(f"recordwise: {line}", err=True)
    written = [str(path) for path in made.written]
    tell({"written": written, "left_out": made.left_out}, written, as_json)
