"""Options that several commands share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2))


def show(content: Any, as_json: bool) -> None:
    """What a command found: its `as_text`, or its `as_dict` for machines."""
    if as_json:
        print_json(content.as_dict())
    else:
        typer.echo(content.as_text())
