"""Orders processes that carry out scenarios on a disk that fails, and judges what is left."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from disk import Disk, Point, changes_in, digest, put

from counts import DISKS, KILLS, POWER, RACES
from in_memory import memory

HERE = Path(__file__).parent
KILL, KILL_HALFWAY = 0, 100_000
CLOSE = 5  # changes after a commit that are tried first of all


@dataclass(frozen=True)
class End:
    """What became of one process."""

    end: str
    killed: bool
    changes: int
    outcome: dict[str, Any]

    @property
    def done(self) -> bool:
        return self.end == "done"

    @property
    def one_line(self) -> bool:
        """Refused by an error of ours, or ended by one of the system, which the command tells in one line."""
        return not self.killed and not self.end.startswith("Traceback") and "\n" not in self.end


class Victims:
    """A program that forks processes at our order, all of them with `disk.c` between them and the disk."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=memory()))
        library = self.folder / "disk.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "disk.c", "-ldl"], check=True)
        tests = HERE.parent
        self._program = subprocess.Popen(
            [sys.executable, "-W", "ignore", HERE / "victim.py", str(HERE), str(tests), str(tests / "federation")],
            env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._roots = 0

    def root(self) -> Path:
        """A new, empty folder."""
        self._roots += 1
        place = self.folder / f"root-{self._roots}"
        place.mkdir()
        return place

    def order(self, scenario: str, root: Path, *, at: int = 0, fault: int = KILL, **more: Any) -> list[End]:
        """Let processes carry a scenario out; change number `at` of each goes wrong."""
        assert self._program.stdin
        assert self._program.stdout
        order = {"scenario": scenario, "root": str(root), "log": "", "at": at, "fault": fault, **more}
        print(json.dumps(order), file=self._program.stdin, flush=True)
        told = json.loads(self._program.stdout.readline())
        return [End(one["end"], one["killed"], one.get("changes", 0), one.get("outcome", {})) for one in told]

    def run(self, scenario: str, root: Path, **more: Any) -> End:
        (end,) = self.order(scenario, root, **more)
        return end

    def record(self, scenario: str, twin: str = "") -> tuple[Path, bytes, End]:
        """A scenario that nothing disturbs, and all its changes: their root and their log."""
        root, log = self.root(), self.folder / f"log-{self._roots}"
        end = self.run(scenario, root, log=str(log), twin=twin)
        assert end.done, end.end
        content = log.read_bytes()
        log.unlink()
        return root, content, end

    def end(self) -> None:
        self._program.communicate()
        shutil.rmtree(self.folder)


@dataclass
class Count:
    """Columns that must be zero, and how many were tried."""

    what: str
    kind: str
    tried: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    shown: list[str] = field(default_factory=list)

    COLUMNS = (
        "not taken up",
        "traceback",
        "charged twice",
        "charge orphaned",
        "release lost",
        "other queries",
        "payment lost",
        "left behind",
    )

    def judge(self, again: End, marks: tuple[str, ...], root: Path, told: str) -> None:
        """Whether what was disturbed is taken up as it should be by one more start."""
        self.tried += 1
        found = again.outcome
        if again.end.startswith("Traceback"):
            self.add("traceback", f"{told}: {again.end}")
        elif not again.done:
            self.add("not taken up", f"{told}: {again.end}")
        else:
            due = found.get("due", {})  # what an answer costs, by who gave it at which stage
            left = [*found["released"], *(mark.split(" ")[1] for mark in marks if mark.startswith("released"))]
            answered = {due[one] for key in left if (one := key.rpartition("-")[0]) in due}
            charged, expected = Counter(found["charged"]), Counter([*found["expected"], *answered])
            if charged - (allowed := expected | Counter(set(due.values()))) and set(charged) <= set(allowed):
                self.add("charged twice", f"{told}: {charged} instead of {expected}")
            elif charged - allowed or expected - charged:
                self.add("charge orphaned", f"{told}: {charged} instead of {expected}")
            for mark in marks:
                kind, key, digest = mark.split(" ")
                asked_again = not key.count("-")  # a node may not have to say again what it said
                if kind == "released" and found["released"].get(key, "" if asked_again else digest) != digest:
                    self.add("release lost", f"{told}: {key} had left")
            asked = dict(mark.split(" ")[1:] for mark in marks if mark.startswith("asked"))
            for key, queries in found.get("queries", {}).items():
                if found["asked"].get(key, asked.get(key, queries)) != queries:
                    self.add("other queries", f"{told}: what was released in round {key} is about others")
            if min(found.get("paid", [1.0])) < 1.0:
                self.add("payment lost", f"{told}: {found['paid']}")
            # The owner's folder is tidied with the next charge, and there may be none.
            if left := [path.name for path in root.rglob("*.part") if "owner" not in path.parts]:
                self.add("left behind", f"{told}: {left}")

    def add(self, column: str, told: str) -> None:
        self.faults[column] += 1
        if len(self.shown) < 5:
            self.shown.append(f"{column}: {told}")

    def __str__(self) -> str:
        columns = ", ".join(f"{self.faults[name]} {name}" for name in self.COLUMNS)
        return f"{self.what}: {self.tried} tried; {columns}"


COMMIT = re.compile(r"unlink .*ledger\.sqlite-journal")  # SQLite commits by this


def power_cuts(
    victims: Victims, scenario: str, *, twin: str = "", every: int = 1, party: str = "", commits: bool = False
) -> Count:
    """Cut the power after every change of a scenario, in every way the disk allows, and start it once more.

    Args:
      twin: What is broken; the first fault is then enough.
      every: Try one state out of so many.
      party: Only what lies below this folder of the scenario's is lost; all the others see it happen.
      commits: Try only the changes right after a ledger's commit.
    """
    root, log, _ = victims.record(scenario, twin)
    count = Count(f"power cuts of {scenario} {party} {twin}".strip(), POWER)
    disk, since = Disk(root), CLOSE
    states: dict[tuple[bytes, tuple[str, ...]], tuple[dict[str, bytes | None], Point]] = {}
    for point in disk.play(log):
        since = 0 if COMMIT.match(point.change) else since + 1
        if not commits or since < CLOSE:
            for state in disk.states(lambda path: path.startswith(party)):
                states.setdefault((digest(state), point.marks), (state, point))
    for state, point in list(states.values())[::-every]:  # the last one always, and first
        _resume(victims, scenario, state, point, count)
        if twin and count.faults:
            break
    return count


def injuries(victims: Victims, scenario: str, fault: int, *, every: int = 1, twin: str = "") -> Count:
    """Let every change of a scenario go wrong in turn, and start it once more.

    Args:
      fault: As `disk.c` takes it: killed, or an error that the change ends with.
      twin: What is broken; the first fault is then enough.
    """
    _, _, whole = victims.record(scenario, twin)
    count = Count(f"{_called(fault)} of {scenario} {twin}".strip(), KILLS if fault in (KILL, KILL_HALFWAY) else DISKS)
    for at in range(1, whole.changes + 1, every):
        root, log = victims.root(), victims.folder / "log"
        log.unlink(missing_ok=True)
        first = victims.run(scenario, root, at=at, fault=fault, log=str(log), twin=twin)
        if not (first.done or first.killed or first.one_line):
            count.add("traceback", f"at change {at}: {first.end}")
        marks = tuple(words[0].decode() for kind, words, _ in changes_in(log.read_bytes()) if kind == "mark")
        count.judge(victims.run(scenario, root, twin=twin), marks, root, f"at change {at} ({first.end})")
        shutil.rmtree(root)
        if twin and count.faults:
            break
    return count


def races(victims: Victims, scenario: str, *, tries: int, processes: int = 2, twin: str = "") -> Count:
    """Let several processes begin one folder at once, and start it once more."""
    count = Count(f"races of {processes} in {scenario} {twin}".strip(), RACES)
    for number in range(tries):
        root = victims.root()
        ends = victims.order(scenario, root, processes=processes, twin=twin)
        for end in ends:
            if not (end.done or end.one_line):
                count.add("traceback", end.end)
        if not any(end.done for end in ends):
            count.add("not taken up", f"in race {number}: {[end.end for end in ends]}")
        count.judge(victims.run(scenario, root), (), root, f"after race {number}")
        shutil.rmtree(root)
    return count


def _called(fault: int) -> str:
    names = {KILL: "kills", KILL_HALFWAY: "kills in the middle of a write"}
    return names.get(fault, f"{errno.errorcode.get(abs(fault))} {'from then on' if fault < 0 else 'once'}")


def _resume(victims: Victims, scenario: str, state: dict[str, bytes | None], point: Point, count: Count) -> None:
    place = victims.root()
    place.rmdir()
    put(state, place)
    again = victims.run(scenario, place)
    count.judge(again, point.marks, place, f"after change {point.number} ({point.change[-70:]})")
    shutil.rmtree(place)
