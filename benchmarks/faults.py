"""How many kills, faults, races and bad inputs were survived: the tests that take minutes, and what they count.

python -m benchmarks.faults [--counts FILE] [--share 1] [what else pytest is told, such as -k fuzz]

With --counts, parts that ran before are kept in FILE, and the result is of all of them together. --share is how much
of a minute's worth each parser gets, of the racing charges, and of the runs that are killed, cut off or raced.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.provenance import hardware, today, versions, write

TESTS = ("tests/faults", "tests/privacy/ledger", "tests/privacy/test_device_account.py", "tests/federation")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--share", type=float, default=1.0)
    asked, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = asked.counts or Path(folder) / "counts"
        told = ["--counts", str(counts), "--share", str(asked.share)]
        subprocess.run([sys.executable, "-m", "pytest", "-m", "slow", *told, *TESTS, *more], check=True)
        rows = totals(counts.read_text())
    share = f" --share {asked.share:g}" if asked.share != 1 else ""
    about = {
        "command": f"python -m benchmarks.faults{share}",
        "date": today(),
        "hardware": hardware(),
        "versions": versions(),
    }
    write("faults", [{**row, **about} for row in rows])


def totals(lines: str) -> list[dict[str, object]]:
    """Rows by what was tried; of a test that ran again only the last time counts."""
    latest = {(line["test"], line["what"]): line for line in map(json.loads, lines.splitlines())}
    return [
        {
            "what": what,
            "tried": sum(line["tried"] for line in latest.values() if line["what"] == what),
            "went_wrong": sum(line["wrong"] for line in latest.values() if line["what"] == what),
        }
        for what in sorted({line["what"] for line in latest.values()})
    ]


if __name__ == "__main__":
    main()
