"""The command `recordwise`: each command parses, calls one library function, prints."""

from recordwise.cli.main import app, main

__all__ = ["app", "main"]
