"""How long work shows that it is moving.

Whoever begins a step names it (`step`). Whoever works in it, however deep down, says how far it is (`done`), and does
not need to know whether anybody looks. Where a step has several pieces of work, each is a `part`
of it. Outside a step nothing is shown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item")
Tell = Callable[[float], None]
FIRST, EVERY = 1.0, 10.0  # seconds before the first line of one step and between the others, where no bar moves


class Progress(Protocol):
    """Shows one step of the work at a time."""

    def step(self, name: str) -> AbstractContextManager[Tell]:
        """Announce a step; the value of the context is called with the share of it that is done, from 0 to 1."""
        ...


class _Part:
    """From where to where the work at hand brings the step it belongs to."""

    def __init__(self, tell: Tell, start: float, end: float) -> None:
        self.tell, self.start, self.end = tell, start, end

    def at(self, share: float) -> float:
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


_AT_HAND: ContextVar[_Part | None] = ContextVar("the work at hand", default=None)


@contextmanager
def step(progress: Progress | None, name: str) -> Iterator[None]:
    """A step of the work; None shows nothing of it."""
    with (progress or Silent()).step(name) as tell:
        furthest = 0.0

        def forward(share: float) -> None:
            nonlocal furthest
            if share > furthest:
                furthest = share
                tell(share)

        with _at_hand(_Part(forward, 0.0, 1.0)):
            yield


@contextmanager
def part(start: float, end: float, total: float = 1.0) -> Iterator[None]:
    """What is done inside brings the work at hand from one share of `total` to another."""
    whole = _AT_HAND.get()
    if whole is None:
        yield
        return
    with _at_hand(_Part(whole.tell, whole.at(start / total), whole.at(end / total))):
        yield
    done(end, total)


def done(so_far: float, total: float = 1.0) -> None:
    """So much of the work at hand is done."""
    at_hand = _AT_HAND.get()
    if at_hand is not None and total > 0:
        at_hand.tell(at_hand.at(so_far / total))


def counted(items: Iterable[Item], total: int) -> Iterator[Item]:
    """The items, each of which is an equal share of the work at hand."""
    often = max(1, total // 100)
    for number, item in enumerate(items, start=1):
        yield item
        if number % often == 0:
            done(number, total)


@contextmanager
def _at_hand(one: _Part) -> Iterator[None]:
    before = _AT_HAND.set(one)
    try:
        yield
    finally:
        _AT_HAND.reset(before)


class Silent:
    """Shows nothing: the default in a library."""

    @contextmanager
    def step(self, name: str) -> Iterator[Tell]:
        yield lambda share: None


class Bars:
    """Progress bars with the time left on a terminal, `Lines` elsewhere, always on standard error."""

    @contextmanager
    def step(self, name: str) -> Iterator[Tell]:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        console = Console(stderr=True)
        if not console.is_terminal:

            def show(line: str) -> None:
                console.print(line, highlight=False, markup=False)

            with Lines(show, tick=every_second).step(name) as tell:
                yield tell
            return

        class Left(TextColumn):
            """The time left, by what is done so far."""

            def render(self, task: Any) -> Any:
                moving = 0 < task.percentage < 100
                self.text_format = f"{left(task.elapsed or 0.0, task.percentage / 100)} left" if moving else ""
                return super().render(task)

        columns = (
            TextColumn("{task.description:<28}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            Left(""),
        )
        with RichProgress(*columns, console=console) as bars:
            task = bars.add_task(name, total=None)  # moves to and fro until a share is known
            yield lambda share: bars.update(task, total=1.0, completed=share)
            bars.update(task, total=1.0, completed=1.0)


WATCHER = "progress"
Tick = Callable[[Callable[[], None]], AbstractContextManager[None]]


@contextmanager
def every_second(look: Callable[[], None], seconds: float = 1.0) -> Iterator[None]:
    """Look once a second, beside the work, until it ends."""
    ended = threading.Event()

    def watch() -> None:
        with suppress(OSError, ValueError):  # nobody reads the lines any more: the work goes on
            while not ended.wait(seconds):
                look()

    watcher = threading.Thread(target=watch, name=WATCHER, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


class Lines:
    """A line when a step begins, and now and then one with how much is done and how long the rest will take.

    Where nobody says how much is done, as in the `fit` of somebody else's classifier, it says how long it took so far.

    Args:
      write: Takes a line.
      clock: Seconds, from whenever.
      tick: Looks at the clock while nothing is said; None never does.
    """

    def __init__(
        self, write: Callable[[str], object], clock: Callable[[], float] = time.monotonic, tick: Tick | None = None
    ) -> None:
        self._write, self._clock, self._tick = write, clock, tick

    @contextmanager
    def step(self, name: str) -> Iterator[Tell]:
        self._write(f"{name} ...")
        begun = self._clock()
        due, furthest = begun + FIRST, 0.0
        one_at_a_time = threading.Lock()

        def look() -> None:
            nonlocal due
            with one_at_a_time:
                now = self._clock()
                if furthest < 1 and now >= due:
                    due = now + EVERY
                    far = f"{length(now - begun)} so far"
                    if furthest > 0:
                        far = f"{int(100 * furthest)} %, about {left(now - begun, furthest)} left"
                    self._write(f"{name}: {far}")

        def tell(share: float) -> None:
            nonlocal furthest
            furthest = share
            look()

        with nullcontext() if self._tick is None else self._tick(look):
            yield tell


def left(elapsed: float, share: float) -> str:
    """How long the rest takes, where a share took so many seconds; no more exact than a guess is."""
    return length(elapsed * (1 - share) / share)


def length(seconds: float) -> str:
    """A time, roughly."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
