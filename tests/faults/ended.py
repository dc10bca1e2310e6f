"""A command, run in this process as a user would run it, and how it ended.

An ending is good when it is either success, or one line and an exit code that `errors.py` lists. A traceback, an
unexpected fault, silence, or a command that waits for ever is not.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from recordwise import cli

KNOWN = {0, 1, 2, 3, 4, 5, 6, 7, 8}  # 70 is a fault that nobody thought of, 130 an interrupted command
PATIENCE = 240  # seconds: far more than any of these commands takes, on a busy machine too
OURS = "recordwise: "  # the one line
STEP = (" ...", " left", " so far")  # the ends of lines that show how far a run is; on a busy machine there are more
NOTE = f"{OURS}note: "  # what a check found that stops nothing
HOLDER = "for the holder only"  # lines beside the output that tell of records


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def mistake(self) -> str:
        """What is wrong with this ending; empty where nothing is."""
        told = [line for line in self.err.splitlines() if line.strip() and HOLDER not in line]
        ended = [line for line in told if line.startswith(OURS) or not line.endswith(STEP)]
        lines = [line for line in ended if not line.startswith(NOTE)]
        if self.code not in KNOWN:
            return f"exit code {self.code}: {self.err[-2000:]}"
        if "Traceback" in self.err + self.out:
            return "a traceback"
        if self.code and (len(lines) != 1 or not lines[0].startswith(OURS) or len(lines[0]) < 20):
            return f"{len(lines)} lines: {self.err[-2000:]}"
        return ""


class Waits(BaseException):
    """A command did not end. No `except Exception` may catch it."""


@contextlib.contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Give up on what waits for ever."""

    def late(number: int, frame: FrameType | None) -> None:
        raise Waits(f"for more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def none_of(found: list[str]) -> None:
    """Fail with all that was found, one a line."""
    assert not found, "\n".join([f"{len(found)} found:", *found])


def recordwise(*arguments: str | Path, within: Path) -> Ended:
    """`recordwise arguments` in the folder `within`."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace") for _ in range(2))
    argv, folder, handlers = sys.argv, Path.cwd(), list(logging.getLogger().handlers)
    sys.argv = ["recordwise", *map(str, arguments)]
    os.chdir(within)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), at_most(PATIENCE):
            cli.main()
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(bool(done.code))
    except BaseException as fault:
        err.write(f"Traceback: {type(fault).__name__}: {fault}")
        code = 70
    finally:
        sys.argv = argv
        os.chdir(folder)
        logging.getLogger().handlers = handlers
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))  # type: ignore[attr-defined]
    return Ended(code, *texts)
