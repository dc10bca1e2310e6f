"""Orders processes to use a ledger, together or until they are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """What became of one process: the payload it showed to the world, its last words, whether it was killed."""

    shown: bytes
    end: str
    killed: bool

    @property
    def released(self) -> bool:
        return self.end.startswith("released")

    @property
    def steps(self) -> int:
        return int(self.end.split()[1])


class Mortals:
    def __init__(self, folder: Path) -> None:
        library = folder / "die.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, HERE / "die.c", "-ldl"], check=True)
        self._program = subprocess.Popen(
            [sys.executable, "-W", "ignore", HERE / "mortal.py"],
            env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._folder = folder
        self._orders = 0

    def use(self, place: str, *keys: str, budget: str, **order: object) -> tuple[list[Outcome], list[str]]:
        """Let one process per key release at epsilon 1/10; also the keys under which anything was produced."""
        assert self._program.stdin
        assert self._program.stdout
        self._orders += 1
        produced = self._folder / f"produced-{self._orders}"
        produced.touch()
        order |= {"place": place, "keys": keys, "budget": budget, "produced": str(produced)}
        order["owner"] = os.environ["RECORDWISE_KEYS"]
        print(json.dumps(order), file=self._program.stdin, flush=True)
        told = json.loads(self._program.stdout.readline())
        outcomes = [Outcome(bytes.fromhex(one["shown"]), one["end"], one["killed"]) for one in told]
        return outcomes, produced.read_text().split()

    def end(self) -> None:
        self._program.communicate()
