"""Commands of ours as processes of their own: they are forked from a server that has imported everything once.

A process that starts from nothing spends a second or two on imports, more than a small run takes. That a command also
starts from nothing is tested where it is the matter (`test_cli.py`, `test_package.py`).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path
from subprocess import TimeoutExpired

_context = multiprocessing.get_context("forkserver")
OURS = ["recordwise.cli", "recordwise.federation.hub", "recordwise.federation.nodes", "recordwise.run"]
_context.set_forkserver_preload([*OURS, "jinja2", "sklearn.cluster", "dp_accounting.pld"])
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Command:
    """`recordwise` with these arguments, in the environment of now; what it says is added to the log."""

    def __init__(self, *arguments: str, log: Path) -> None:
        environment = {**os.environ, **ONE_THREAD}
        before = dict(os.environ)
        os.environ.update(ONE_THREAD)  # a server of one thread is safely forked
        try:
            forkserver.ensure_running()
        finally:
            for name in ONE_THREAD.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)
        log.touch()
        self.arguments = arguments
        self._process = _context.Process(target=_carry_out, args=(arguments, str(log), str(Path.cwd()), environment))
        self._process.start()

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise TimeoutExpired(self.arguments, timeout)
        return status

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        if self.poll() is None:
            os.kill(self._process.pid, number)


def _carry_out(arguments: tuple[str, ...], log: str, folder: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(handle, stream)
    sys.argv = ["recordwise", *arguments]
    from recordwise.cli import main

    main()
