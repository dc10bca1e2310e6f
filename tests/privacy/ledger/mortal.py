"""Processes that use a ledger and may be killed at any moment; run as a program by `mortals.py`.

Reads one JSON order per line, forks the processes it asks for, and answers with what became of each.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import psycopg  # noqa: F401  # so that no fork has to

from recordwise.errors import BudgetExceeded, RecordwiseError
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.ledger import Ledger, ledger

EPSILON = "1/10"


def use_ledger(order: dict[str, object], key: str, out: int) -> None:
    """Open everything from scratch, release, and show the release: what a run does."""
    os.environ["RECORDWISE_KEYS"] = str(order["owner"])

    def produce() -> bytes:
        with Path(str(order["produced"])).open("a") as file:  # counts how often somebody looked at the records
            file.write(f"{key}\n")
        while len(Path(str(order["produced"])).read_text().split()) < int(str(order.get("company", 0))):
            time.sleep(0.01)
        payload = os.urandom(16)
        if order.get("twin") == "shows before the commit":
            os.write(out, payload)
        return payload

    if order.get("twin") == "takes no lock":
        find = ledger.Ledger._budget
        ledger.Ledger._budget = lambda self, connection, name, lock=False: find(self, connection, name)  # type: ignore[method-assign]
    book = Ledger.open(str(order["place"]))
    book.open_budget("study", epsilon=order["budget"])  # type: ignore[arg-type]
    for number in range(int(str(order.get("before", 0)))):
        with contextlib.suppress(BudgetExceeded):
            book.release("study", f"{key}/{number}", Pure(EPSILON), Guarantee(epsilon=EPSILON), produce)  # type: ignore[arg-type]
    payload = book.release("study", key, Pure(EPSILON), Guarantee(epsilon=EPSILON), produce)  # type: ignore[arg-type]
    if order.get("twin") != "shows before the commit":
        os.write(out, payload)


def fork(order: dict[str, object], key: str, start: int) -> tuple[int, int, int]:
    """A child's process id, what it shows, and what it says at its end."""
    (shown, show), (told, tell) = os.pipe(), os.pipe()
    child = os.fork()
    if child:
        os.close(show)
        os.close(tell)
        return child, shown, told
    end = "released"
    try:
        os.read(start, 1)  # returns for all children at once, when the parent closes its end
        die = ctypes.CDLL(None)
        die.die_at(int(str(order.get("die_at", 0))))
        use_ledger(order, key, show)
        steps = die.steps_taken()
        die.die_at(0)
        end += f" {steps}"
    except RecordwiseError as error:
        end = f"{type(error).__name__}: {error}"
    finally:
        os.write(tell, end.encode())
        os._exit(0)


def obey(order: dict[str, object]) -> list[dict[str, object]]:
    start, gun = os.pipe()
    children = [fork(order, key, start) for key in order["keys"]]  # type: ignore[attr-defined]
    os.close(start)
    # Every child inherits the writing end of the pipe too, so the parent's close alone would not wake them.
    os.write(gun, b"." * len(children))
    os.close(gun)
    outcomes = []
    for child, shown, told in children:
        with os.fdopen(shown, "rb") as show, os.fdopen(told, "rb") as tell:
            payload, end = show.read(), tell.read()
        status = os.waitpid(child, 0)[1]
        outcomes.append({"shown": payload.hex(), "end": end.decode(), "killed": os.WIFSIGNALED(status)})
    return outcomes


# What a first use loads and compiles is loaded and compiled once, not by every fork.
with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("wb") as nowhere:
    use = {"owner": folder, "produced": os.devnull, "place": f"{folder}/ledger.sqlite", "budget": "1"}
    use_ledger(use, "first", nowhere.fileno())

for line in sys.stdin:
    print(json.dumps(obey(json.loads(line))), flush=True)
