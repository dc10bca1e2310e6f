"""Every protocol, audited: what it claims, and the largest lower bound on epsilon that could be proved against it.

    python -m experiments.audit

A few minutes on one core. Noise is seeded, so that the table can be made again to the digit; nothing here is
released. Writes experiments/results/audit.json.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

from recordwise.audit import audit
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralGaussian, CentralLaplace, CentralMatching, CentralPermuteAndFlip
from recordwise.protocols.distributed import DistributedLaplace
from recordwise.protocols.local import Questions
from recordwise.protocols.local.mechanism import mechanisms
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.shuffle import ShuffleMulti, ShuffleSingle
from recordwise.votes.ballot import Ballot

RESULTS = Path(__file__).parent / "results" / "audit.json"
SEED, TRIALS, CONFIDENCE = 0, 100_000, 1 - 1e-6
EPSILON, DELTA, SENDERS, PARTIES = Fraction(1), Fraction(1, 10**5), 1000, 5
BALLOTS = (Ballot(num_queries=10, num_classes=10), Ballot(num_queries=10, num_classes=10, votes_per_record=2))


def protocols(ballot: Ballot) -> list[Protocol[Any]]:
    every: list[Protocol[Any]] = []
    for neighbours in Neighbours:
        common: dict[str, Any] = {"ballot": ballot, "neighbours": neighbours}
        every += [
            CentralLaplace(**common, epsilon=EPSILON),
            CentralPermuteAndFlip(**common, epsilon=EPSILON),
            CentralMatching(**common, epsilon=EPSILON),
            CentralGaussian.calibrated(**common, epsilon=EPSILON, delta=DELTA),
            DistributedLaplace(
                **common, epsilon=EPSILON, survivors=PARTIES, parties=2 * PARTIES, largest_count=SENDERS
            ),
            ShuffleMulti(**common, epsilon=EPSILON, delta=DELTA, senders=SENDERS),
        ]
    one_vote = ballot.cells_per_record == 1
    if one_vote:
        every.append(Questions(ballot=ballot, epsilon=EPSILON))
    for name, kind in mechanisms().items():
        if name != "subset-selection" or one_vote:
            every += [
                kind(ballot=ballot, epsilon=EPSILON),
                ShuffleSingle(ballot=ballot, epsilon=EPSILON, delta=DELTA, senders=SENDERS, mechanism=name),
            ]
    return every


def main() -> None:
    rows = []
    for ballot in BALLOTS:
        for protocol in protocols(ballot):
            began = time.perf_counter()
            result = audit(protocol, SeededNoise(SEED), trials=TRIALS, confidence=CONFIDENCE)
            rows.append(
                {
                    "protocol": type(protocol).__name__,
                    "described": result.protocol,
                    "k": ballot.votes_per_record,
                    "neighbours": str(result.guarantee.neighbours),
                    "claimed": result.claimed,
                    "delta": float(result.guarantee.delta),
                    "exact": result.best("exact"),
                    "sampled": result.best("sampled"),
                    "distance": result.distance,
                    "violated": result.violated,
                    "views": result.trials,
                    "seconds": round(time.perf_counter() - began, 2),
                }
            )
            print(result.as_text(), flush=True)
    content = {
        "seed": SEED,
        "trials": TRIALS,
        "confidence": CONFIDENCE,
        "senders": SENDERS,
        "parties": PARTIES,
        "rows": rows,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "scipy")}},
        "command": "python -m experiments.audit",
        "date": time.strftime("%Y-%m-%d"),
    }
    RESULTS.write_text(json.dumps(content, indent=2) + "\n")
    print(table(content))
    sys.exit(any(row["violated"] for row in rows))


def table(content: dict[str, Any]) -> str:
    """The table of docs/concepts/audit.md."""
    lines = [
        "| protocol | k | neighbours | delta | claimed | exact | sampled | views |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in content["rows"]:
        exact = "–" if row["exact"] is None else f"{row['exact']:.4f}"
        name = row["described"].split(",")[0]
        lines.append(
            f"| {name} | {row['k']} | {row['neighbours']} | {row['delta']:.0e} | {row['claimed']:.4f} | {exact} | "
            f"{row['sampled']:.4f} | {row['views']:,} |".replace("0e+00", "0")
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
