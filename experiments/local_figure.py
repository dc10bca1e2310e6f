"""Mean squared error of the local mechanisms, for one record with s = 200, C = 50, k = 2, r = 2.

    python -m experiments.local_figure

The paper's figure of Appendix B, with honest estimators. Curves are exact: every mechanism's variance formula, averaged
over the 10,000 cells of a record that casts all its votes. Points are measured through the real clients and server.
Two more curves belong to Concatenation's product estimator as the paper prints it: its error as it really is, and as it
would be if the two factors were independent, which is what the paper's bound assumes.

Writes experiments/results/local_figure.json and docs/figures/local_error.svg; a minute or two on one core.
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import provenance

from recordwise.pipeline import release
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.local import (
    Collision,
    Concatenation,
    LocalMechanism,
    RandomizedResponse,
    Separation,
    UnaryEncoding,
)
from recordwise.protocols.local.channel import Channel
from recordwise.votes.ballot import Ballot, Votes

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results" / "local_figure.json"
FIGURE = ROOT / "docs" / "figures" / "local_error.svg"
BALLOT = Ballot(num_queries=200, num_classes=50, votes_per_record=2, labels_per_record=2)
EPSILONS = [Fraction(step, 4) for step in range(2, 33)]  # 0.5 to 8
MEASURED = [Fraction(e) for e in ("1/2", "1", "2", "3", "4", "5", "6", "7", "8")]
KINDS: tuple[type[LocalMechanism], ...] = (RandomizedResponse, UnaryEncoding, Collision, Separation, Concatenation)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=4000, help="messages behind each measured point")
    records = parser.parse_args().records
    rows: list[dict[str, Any]] = []
    for epsilon in EPSILONS:
        for kind in KINDS:
            mechanism = kind(ballot=BALLOT, epsilon=epsilon)
            measured = measure(mechanism, records) if epsilon in MEASURED else None
            rows.append(row(kind.name, epsilon, mechanism.mean_variance, true_cell=1.0, measured=measured))
        printed = paper_channel(epsilon)
        rows.append(row("concatenation-as-printed", epsilon, *product_error(printed, independent=False)))
        rows.append(row("concatenation-if-independent", epsilon, *product_error(printed, independent=True)))
        print(
            f"epsilon {float(epsilon):<5}", *(f"{r['method']} {r['mse']:.4g}" for r in rows[-7:]), sep="  ", flush=True
        )
    head = {"size": {"n": 1, **vars(BALLOT)}, "records_per_measured_point": records, "rows": rows}
    RESULTS.parent.mkdir(exist_ok=True)
    provenance_of_run = provenance.row("local figure", size={}, ours=0, peers={}, unit="")
    head |= {key: provenance_of_run[key] for key in ("versions", "hardware", "command", "date")}
    RESULTS.write_text(json.dumps(head, indent=1) + "\n")
    draw(rows)


def row(method: str, epsilon: Fraction, mse: float, true_cell: float, measured: float | None = None) -> dict[str, Any]:
    """`true_cell` is the estimate's mean on a cell the record voted for: one, if the estimator is honest."""
    return {"method": method, "epsilon": float(epsilon), "mse": mse, "true_cell": true_cell, "measured_mse": measured}


def measure(mechanism: LocalMechanism, records: int) -> float:
    """Squared error per record and cell of a real tally of records that all vote alike."""
    ballot = mechanism.ballot
    votes = Votes(
        ballot,
        np.tile(np.arange(ballot.votes_per_record, dtype=np.int32), (records, 1)),
        np.tile(np.arange(ballot.labels_per_record, dtype=np.int32), (records, 1)),
    )
    noise = SeededNoise(1)
    estimate = release(votes, mechanism, noise).scores()
    return float(((estimate - votes.counts()) ** 2).mean() / records)


def paper_channel(epsilon: Fraction) -> Channel:
    """Concatenation's message with the paper's number of buckets, rounded: 2c - 1 + c·e^eps, c = k + r."""
    capacity = BALLOT.votes_per_record + BALLOT.labels_per_record
    return Channel(
        domain=BALLOT.num_queries + BALLOT.num_classes,
        capacity=capacity,
        epsilon=epsilon,
        buckets=round(2 * capacity - 1 + capacity * float(np.exp(float(epsilon)))),
        independence=capacity + 2,
    )


def product_error(channel: Channel, *, independent: bool) -> tuple[float, float]:
    """Mean squared error over cells, and mean on a true cell, of the product (I_t - q)(I_y - q) / (p - q)².

    A query and a class of the same record are both hit with probability p·q in truth (they must collide), and with p²
    if their indicators were independent. Other cells are the same either way.
    """
    indicator = channel.indicator
    p, q = float(indicator.hit), float(indicator.miss)
    low, high = indicator.reach
    both = p * p if independent else p * q
    mean = both * high**2 + 2 * (p - both) * low * high + (1 - 2 * p + both) * low**2
    square = both * high**4 + 2 * (p - both) * (low * high) ** 2 + (1 - 2 * p + both) * low**4
    queried = BALLOT.votes_per_record / BALLOT.num_queries
    labelled = BALLOT.labels_per_record / BALLOT.num_classes
    off = indicator.second_moment(voted=False)
    on = indicator.second_moment(voted=True)
    mse = (
        queried * labelled * (square - 2 * mean + 1)
        + (queried * (1 - labelled) + (1 - queried) * labelled) * on * off
        + (1 - queried) * (1 - labelled) * off * off
    )
    return mse, mean


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "recordwise"  # the same picture is the same file
    from matplotlib import pyplot as plt

    looks = {
        "randomized-response": ("randomized response", "#999999", "-"),
        "unary-encoding": ("optimized unary encoding", "#7570b3", "-"),
        "collision": ("Collision", "#1b9e77", "-"),
        "separation": ("Separation", "#d95f02", "-"),
        "concatenation": ("Concatenation, repaired", "#e7298a", "-"),
        "concatenation-as-printed": ("Concatenation, as printed", "#e7298a", ":"),
        "concatenation-if-independent": ("Concatenation, if its factors were independent", "#666666", "--"),
    }
    figure, (errors, means) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(3, 2), layout="constrained")
    for method, (name, colour, line) in looks.items():
        mine = [r for r in rows if r["method"] == method]
        epsilon = [r["epsilon"] for r in mine]
        errors.plot(epsilon, [r["mse"] for r in mine], line, color=colour, label=name)
        dots = [(r["epsilon"], r["measured_mse"]) for r in mine if r["measured_mse"] is not None]
        errors.plot(*zip(*dots, strict=True), "o", color=colour, markersize=4) if dots else None
        if method in ("collision", "concatenation-as-printed"):
            label = "every honest estimator" if method == "collision" else name
            means.plot(epsilon, [r["true_cell"] for r in mine], line, color=colour, label=label)
    zero = BALLOT.cells_per_record / BALLOT.num_cells
    errors.axhline(zero, color="black", linewidth=0.8, linestyle=":", label="always answering zero")
    errors.set(yscale="log", xlabel="ε", ylabel="mean squared error per cell", title="one record, 10,000 cells")
    means.set(xlabel="ε", ylabel="mean of the estimate", title="on a cell the record voted for", ylim=(-2.6, 1.4))
    for panel in (errors, means):
        panel.grid(alpha=0.25)
        panel.legend(fontsize=8, frameon=False)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
