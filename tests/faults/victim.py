"""Processes that carry out a scenario on a disk that fails; run as a program by `victims.py`.

Reads one JSON order per line, forks the processes it asks for, and answers with what became of each.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

for folder in sys.argv[1:]:
    sys.path.append(folder)

import broken_twins as twins  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402

from in_memory import memory  # noqa: E402
from recordwise import distiller, pipeline  # noqa: E402
from recordwise.errors import RecordwiseError  # noqa: E402

DISK = ctypes.CDLL(None)


def warm_up() -> None:
    """Carry out scenarios that nobody watches: what they import and compile, every fork has from then on."""
    vote, one_round = distiller.vote, pipeline.Round
    with tempfile.TemporaryDirectory(dir=memory()) as root:
        os.environ["RECORDWISE_KEYS"] = str(Path(root) / "owner")
        for scenario in ("job", "federation"):
            (folder := Path(root) / scenario).mkdir()
            SCENARIOS[scenario](folder, lambda word: None)
    distiller.vote, pipeline.Round = vote, one_round  # as they were before scenarios listened at them


def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """A scenario, to its end or to whatever stops it."""
    told: dict[str, Any] = {}
    warnings.simplefilter("ignore")
    try:
        if order.get("twin"):
            twins.TWINS[order["twin"]]()
        os.environ["RECORDWISE_KEYS"] = str(Path(order["root"]) / "owner")  # on the disk that fails, like all the rest
        DISK.disk_watch(order["root"].encode(), order["log"].encode(), ctypes.c_long(order["at"]), order["fault"])
        told["outcome"] = SCENARIOS[order["scenario"]](Path(order["root"]), lambda word: DISK.disk_mark(word.encode()))
        told["end"] = "done"
    except (RecordwiseError, OSError) as error:  # what the command tells in one line
        told["end"] = f"{type(error).__name__}: {error}"
    except BaseException:
        told["end"] = "Traceback: " + traceback.format_exc()
    DISK.disk_leave()
    told["changes"] = DISK.disk_changes()
    return told


def fork(order: dict[str, Any], start: int) -> tuple[int, int]:
    told, tell = os.pipe()
    child = os.fork()
    if child:
        os.close(tell)
        return child, told
    os.read(start, 1)  # returns for all children at once
    try:
        os.write(tell, json.dumps(carry_out(order)).encode())
    finally:
        os._exit(0)


def obey(order: dict[str, Any]) -> list[dict[str, Any]]:
    start, gun = os.pipe()
    children = [fork(order, start) for _ in range(order.get("processes", 1))]
    os.write(gun, b"." * len(children))
    outcomes = []
    for child, told in children:
        with os.fdopen(told, "rb") as words:
            content = words.read()
        status = os.waitpid(child, 0)[1]
        killed = os.WIFSIGNALED(status)
        outcomes.append({"killed": killed, "end": "killed" if killed else "", **json.loads(content or b"{}")})
    os.close(start)
    os.close(gun)
    return outcomes


if __name__ == "__main__":
    warm_up()
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)
