"""How long work shows that it is moving."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]
EVERY = 10.0  # seconds between two lines of one step, where nobody sees a bar move


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
    """Progress bars with the time left on a terminal, `Lines` elsewhere, always on standard error."""

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[Advance]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True)
        if not console.is_terminal:
            lines = Lines(lambda line: console.print(line, highlight=False, markup=False))
            with lines.step(name, total) as advance:
                yield advance
            return
        counted = total > 1  # a step of one unit has no rate
        columns = (
            TextColumn("{task.description:<28}"),
            BarColumn(),
            *((MofNCompleteColumn(),) if counted else ()),
            TimeElapsedColumn(),
            *((TextColumn("left"), TimeRemainingColumn()) if counted else ()),
        )
        with RichProgress(*columns, console=console) as bars:
            task = bars.add_task(name, total=total if counted else None)
            yield lambda done: bars.advance(task, done)
            bars.update(task, total=total, completed=total)


class Lines:
    """A line when a step begins, and now and then one with how much is done and how long the rest will take.

    Args:
      write: Takes a line.
      clock: Seconds, from whenever.
    """

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock

    @contextmanager
    def step(self, name: str, total: int) -> Iterator[Advance]:
        self._write(f"{name} ...")
        begun = last = self._clock()
        done = 0

        def advance(more: int) -> None:
            nonlocal done, last
            done += more
            now = self._clock()
            if 0 < done < total and now - last >= EVERY:
                last = now
                left = (now - begun) * (total - done) / done
                self._write(f"{name}: {100 * done // total} %, about {_spell(left)} left")

        yield advance


def _spell(seconds: float) -> str:
    """A duration, no more exact than a guess is."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
