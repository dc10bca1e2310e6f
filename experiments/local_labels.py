"""Labels under local trust at epsilon 0.4: 30,000 records, s = C = 10, clusters 86 % pure.

    python -m experiments.local_labels --runs 300

Every run sends 30,000 real messages and decodes the tally twice: one argmax per cluster, and all clusters jointly
(every class once). Label accuracy is the share of records whose cluster gets their own class; 86 % is the most there
is. Noise is seeded so that the rows can be reproduced. Writes experiments/results/local_labels.json.
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
from benchmarks import provenance

from recordwise.labels import decode
from recordwise.pipeline import release
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.local import (
    Collision,
    LocalMechanism,
    RandomizedResponse,
    SubsetSelection,
    UnaryEncoding,
)
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.votes.ballot import Ballot, Votes

RESULTS = Path(__file__).parent / "results" / "local_labels.json"
RECORDS, CLASSES, PURITY, EPSILON = 30_000, 10, 0.86, Fraction(2, 5)
BALLOT = Ballot(num_queries=CLASSES, num_classes=CLASSES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=300)
    runs = parser.parse_args().runs
    terms = Terms(epsilon=EPSILON, trust=Trust.LOCAL)
    chosen = terms.protocols(BALLOT, RECORDS)[0]
    print(terms.reason(BALLOT, RECORDS))
    rows = []
    for kind in (RandomizedResponse, UnaryEncoding, Collision, SubsetSelection):
        mechanism = kind(ballot=BALLOT, epsilon=EPSILON)
        joint, alone = np.array([run(mechanism, seed) for seed in range(runs)]).T
        rows.append(
            {
                "method": kind.name,
                "chosen": kind is type(chosen),
                "epsilon": float(EPSILON),
                "records": RECORDS,
                "purity": PURITY,
                "runs": runs,
                "assignment": summary(joint),
                "argmax": summary(alone),
            }
        )
        print(f"{kind.name:<20} argmax {alone.mean():.1%}  assignment {joint.mean():.1%}", flush=True)
    made = provenance.row("local labels", size={}, ours=0, peers={}, unit="", packages=("scipy",))
    head = {key: made[key] for key in ("versions", "hardware", "command", "date")}
    RESULTS.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")


def summary(accuracy: np.ndarray) -> dict[str, float]:
    return {
        "mean": float(accuracy.mean()),
        "spread": float(accuracy.std(ddof=1)),
        "standard_error": float(accuracy.std(ddof=1) / np.sqrt(len(accuracy))),
    }


def run(mechanism: LocalMechanism, seed: int) -> tuple[float, float]:
    """Label accuracy by joint assignment, and by one argmax per cluster."""
    rng = seeded(seed, "clusters")
    clusters = np.repeat(np.arange(CLASSES), RECORDS // CLASSES)
    strays = (clusters + rng.integers(1, CLASSES, RECORDS)) % CLASSES
    labels = np.where(rng.random(RECORDS) < PURITY, clusters, strays)
    votes = Votes(BALLOT, clusters[:, None].astype(np.int32), labels[:, None].astype(np.int32))
    tally = release(votes, mechanism, SeededNoise(seed))
    share = votes.counts() / votes.counts().sum(axis=1, keepdims=True)
    rows = np.arange(CLASSES)
    joint = decode(tally, sizes=np.ones(CLASSES), graph=None, decoder="assignment", num_records=RECORDS).hard
    return float(share[rows, joint].mean()), float(share[rows, tally.scores().argmax(axis=1)].mean())


if __name__ == "__main__":
    main()
