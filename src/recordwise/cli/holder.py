"""What only the holder of the records may know."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import typer


class _OnStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"recordwise: {record.getMessage()}", err=True)


@contextmanager
def nobody_told() -> Iterator[None]:
    """An audit's replays say nothing to the holder: most of their records are made up."""
    logger = logging.getLogger("recordwise")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def holder_told() -> Iterator[None]:
    """What is for the holder of the records alone goes to this terminal, beside the output, and to no file."""
    logger, handler = logging.getLogger("recordwise"), _OnStderr(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
