"""Options that several commands share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")]


def print_json(content: Any) -> None:
    typer.echo(json.dumps(content, indent=2))
