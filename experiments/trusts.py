"""What is left of a linear probe where nobody is trusted with records: dp-linear under every trust, beside Recordwise.

    python -m experiments.trusts mnist      (ten minutes on one core)

Replace-one neighbours, delta 1e-5 for the probe. Its class sums are made as each trust allows:

- distributed: a hundred silos add shares of discrete Gaussian noise under a secure sum, enough of it if half of them
  deviate. So it is the central noise, times the root of two.
- local: every record adds the noise of a central release of itself alone, so a sum over n of them has √n times that.
- shuffle: the same with a larger epsilon for each, by Feldman, McMillan and Talwar's bound; the messages' own deltas
  are paid for out of the whole.

Recordwise asks 60 queries under every trust, with as many silos, and else runs by default. Nothing was tuned. The noise
is seeded. Writes experiments/results/trusts.json.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from benchmarks.provenance import hardware, versions
from scipy.optimize import brentq

from experiments.rivals import DELTA, OURS, WAYS, Parts, read
from recordwise.baselines import DPLinear
from recordwise.baselines.gaussian_sums import gaussian_delta
from recordwise.distiller import PrivateDistiller
from recordwise.fits import uncounted
from recordwise.privacy.amplification import largest_epsilon0_fmt
from recordwise.privacy.noise import SeededNoise

RESULTS = Path(__file__).parent / "results" / "trusts.json"
SEEDS = (0, 1, 2)
SILOS = 100
QUERIES = 60
TRUSTS = ("central", "distributed", "shuffle", "local")
EPSILONS = (1.0, 4.0)


@dataclass(eq=False, repr=False)
class ProbeElsewhere(DPLinear):
    """`dp-linear` with the noise of its trust. Only its accuracy is meant; nothing is sent anywhere."""

    name: ClassVar[str] = "dp-linear"

    trust: str = field(default="central", kw_only=True)

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        super().check(num_records, dim, num_classes)
        if self.trust == "distributed":
            self.noise_multiplier_ *= math.sqrt(2)
        elif self.trust == "local":
            self.noise_multiplier_ *= math.sqrt(num_records)
        elif self.trust == "shuffle":
            alone = shuffled_noise(float(self.epsilon), float(self.delta), num_records=num_records)
            self.noise_multiplier_ = alone * math.sqrt(num_records)


def shuffled_noise(epsilon: float, delta: float, *, num_records: int) -> float:
    """The deviation of the normal noise in one record's message, where n of them are shuffled together.

    A message that is (e0, d0)-DP is within d0 of one that is e0-DP (Feldman et al. 2021, Theorem 3.8), so n of them
    cost what pure ones do and (1 + e^epsilon)(1 + e^-e0 / 2)·n·d0 of delta: a tenth of it here, and no more.
    """
    alone = delta / (10 * num_records * (1 + math.exp(epsilon)) * 1.5)
    epsilon0 = largest_epsilon0_fmt(epsilon, 0.9 * delta, senders=num_records)
    return float(brentq(lambda sigma: gaussian_delta(2 / sigma, epsilon0) - alone, 0.1, 1e6))


def measure(method: str, trust: str, epsilon: float, parts: Parts, seed: int) -> float:
    vectors, labels = parts
    shared: dict[str, Any] = {
        "epsilon": epsilon,
        "classes": np.unique(labels["private"]),
        "encoder": "scaler",
        "random_state": seed,
    }
    if method == OURS:
        named: Any = {"name": trust, "parties": SILOS} if trust == "distributed" else trust
        delta = DELTA if trust == "shuffle" else 0.0
        model: Any = PrivateDistiller(**shared, delta=delta, trust=named, num_queries=QUERIES)
    else:
        model = ProbeElsewhere(**shared, delta=DELTA, trust=trust)
    with uncounted():
        model.fit(vectors["private"], labels["private"], X_public=vectors["public"], noise=SeededNoise(seed))
    return round(float(model.score(vectors["test"], labels["test"])), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", choices=[*WAYS, "adult"])
    data = parser.parse_args().data
    held = {seed: read(data, seed) for seed in SEEDS}
    rows = [row for row in json.loads(RESULTS.read_text()) if row["data"] != data] if RESULTS.exists() else []
    for epsilon in EPSILONS:
        for trust in TRUSTS:
            for method in (OURS, "dp-linear"):
                found = [measure(method, trust, epsilon, held[seed][1], seed) for seed in SEEDS]
                print(data, epsilon, trust, method, found, flush=True)
                rows.append(
                    {
                        "method": method,
                        "data": data,
                        "trust": trust,
                        "epsilon": epsilon,
                        "delta": DELTA if method != OURS or trust == "shuffle" else 0.0,
                        "neighbours": "replace",
                        "records": len(held[SEEDS[0]][1][1]["private"]),
                        "encoder": held[SEEDS[0]][0],
                        "seeds": [str(seed) for seed in SEEDS],
                        "test_accuracy": found,
                        "versions": versions("numpy", "scipy", "scikit-learn", "dp-accounting"),
                        "hardware": hardware(),
                        "command": f"python -m experiments.trusts {data}",
                        "date": time.strftime("%Y-%m-%d", time.gmtime()),
                    }
                )
                RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
