"""How long work shows that it is moving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Progress(Protocol):
    """Shows one step of the pipeline at a time."""

    def step(self, name: str, total: int) -> AbstractContextManager[Advance]:
        """Announce a step of `total` units; the value of the context is called with the units done since last time."""
        ...


class Silent:
    """Shows nothing: the default in a library."""

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[Advance]:
        yield lambda done: None


class Bars:
    """Progress bars on a terminal, plain lines elsewhere, always on standard error."""

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[Advance]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True)
        if not console.is_terminal:
            console.print(f"{name} ...", highlight=False)
            yield lambda done: None
            return
        columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with RichProgress(*columns, console=console) as bars:
            task = bars.add_task(name, total=total)
            yield lambda done: bars.advance(task, done)
            bars.update(task, completed=total)
