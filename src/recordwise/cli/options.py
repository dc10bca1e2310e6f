"""Options that several commands share."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from recordwise.progress import Bars, Progress, Silent


def _tab(typed: str | None) -> str | None:
    """A tab can hardly be typed."""
    return "\t" if typed in ("tab", "\\t") else typed


Delimiter = Annotated[
    str | None,
    typer.Option(callback=_tab, help="Between the cells of text files: , ; | or tab. Guessed from public files."),
]
Encoding = Annotated[
    str | None, typer.Option(help="Of text files: utf-8, latin-1, cp1252 or utf-16. Guessed from public files.")
]
Decimal = Annotated[str | None, typer.Option(help="Of text files: . or , for 3,14. Guessed from public files.")]
Sheet = Annotated[str | None, typer.Option(help="The sheet of a workbook; the first one otherwise.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def flowing(words: str | None) -> str:
    """Help that terminals of any width break by themselves; lines of a job file stay lines."""
    paragraphs = inspect.cleandoc(words or "").split("\n\n")
    return "\n\n".join(one if one.startswith("\\[") else " ".join(one.split()) for one in paragraphs)


def progress_of(quiet: bool) -> Progress:
    return Silent() if quiet else Bars()


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2))


def tell(content: Any, lines: Iterable[str], as_json: bool) -> None:
    """What a command did: in lines, or as JSON for machines."""
    if as_json:
        print_json(content)
        return
    for line in lines:
        typer.echo(line)


def show(content: Any, as_json: bool) -> None:
    """What a command found: its `as_text`, or its `as_dict` for machines."""
    if as_json:
        print_json(content.as_dict())
    else:
        typer.echo(content.as_text())
