"""`recordwise explore`: a job in the browser before it is run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from recordwise.cli.options import Json, Quiet, print_json, progress_of
from recordwise.cli.stopping import Stopped


def explore(
    job: Annotated[Path, typer.Argument(help="A job file.")],
    num_records: Annotated[
        int | None,
        typer.Option(help="How many private records will vote, or a public guess; records.expected otherwise."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write one self-contained page with all predictions, and serve nothing.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the local page; 0 takes a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address and open no browser.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Look at a job in the browser: its pool on a map, and what other budgets, queries and trusts would buy.

    Everything is computed on this machine from public data; the private file is not opened. The page is served to this
    machine alone, until the command is interrupted. Its button writes a new job file beside the old one.
    """
    from recordwise.durable import write_whole
    from recordwise.explorer import explore as look
    from recordwise.explorer import render
    from recordwise.explorer.server import PageServer

    if out is not None and not out.resolve().parent.is_dir():
        from recordwise.errors import InvalidInput

        raise InvalidInput(f"the folder of {out} must exist")
    found = look(job, progress_of(quiet), num_records=num_records)
    if out is not None:
        found.fill(progress_of(quiet))
        write_whole(out, render(found.document(travels=True)).encode())
        if as_json:
            print_json({"page": str(out)})
        else:
            typer.echo(str(out))
        return
    with PageServer(found, port) as server, found.filling(), _browser(None if no_open else server.url):
        if as_json:
            print_json({"url": server.url})
        else:
            typer.echo(server.url)
        typer.echo("for this machine alone; interrupt (Ctrl-C) to end it", err=True)
        with suppress(Stopped):  # as it was told
            server.serve_forever()


@contextmanager
def _browser(url: str | None) -> Iterator[None]:
    """Open the page by way of a file that only its owner may read: others could see a command's arguments."""
    import tempfile
    import webbrowser
    from html import escape

    if url is None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="recordwise-") as folder:
        door = Path(folder) / "explore.html"
        door.touch(mode=0o600)
        door.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(url)}"><title>Recordwise</title>'
        )
        webbrowser.open(door.as_uri())
        yield
