"""Ctrl-C and the request to end, as an exception of our own."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

ENDINGS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class Stopped(BaseException):
    """Somebody asked this process to end. No command takes it for something else, as Typer does KeyboardInterrupt."""


def stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)
