"""`recordwise init`: from a user's own files to a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.options import Decimal, Delimiter, Encoding, Json, Quiet, Sheet, print_json, progress_of


def init(
    private: Annotated[Path, typer.Option(help="The records to protect: a file, or a folder of images by class.")],
    public: Annotated[Path, typer.Option(help="The pool to label.")],
    labels: Annotated[
        str | None, typer.Option(help="The column or array of the records' labels; a folder's subfolders need none.")
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Public samples with labels, to score the student on.")] = None,
    epsilon: Annotated[float, typer.Option(help="What the run may cost any one record.")] = 1.0,
    classes: Annotated[
        str | None, typer.Option(help="The public list of classes, with commas; read off the labels otherwise.")
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    decimal: Decimal = None,
    sheet: Sheet = None,
    out: Annotated[Path, typer.Option(help="The job file to write.")] = Path("job.toml"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a job file from your own files, with every guess beside its key in a comment.

    Nothing is released, nothing leaves this machine. Where neither --classes nor --test is given, the list of classes
    is read off the private labels, and the file says so: it becomes public. How text files are spelled is guessed from
    the public ones, never from the private one, which is taken to be spelled like the pool.
    """
    from recordwise.durable import write_whole
    from recordwise.errors import InvalidInput
    from recordwise.job import read_job
    from recordwise.job_draft import Draft
    from recordwise.progress import step

    if out.exists():
        raise InvalidInput(f"{out} is there already: name another file with --out")
    if not epsilon > 0:
        raise InvalidInput(f"epsilon must be > 0, got {epsilon:g}")
    draft = Draft(
        private=private,
        public=public,
        test=test,
        labels=labels,
        epsilon=epsilon,
        classes=tuple(one.strip() for one in classes.split(",")) if classes else (),
        delimiter=delimiter,
        encoding=encoding,
        decimal=decimal,
        sheet=sheet,
        name=out.stem if out.stem != "job" else out.resolve().parent.name or "job",
        folder=out.resolve().parent,
    )
    with step(progress_of(quiet), "read"):
        drafted = draft.text()
    write_whole(out, drafted.encode())
    read_job(out)  # what it wrote can be read
    if as_json:
        print_json({"job": str(out)})
        return
    typer.echo(f"{out}: read it, then `recordwise check {out}`, `recordwise plan {out}` and `recordwise run {out}`")
