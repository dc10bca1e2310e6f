"""The first visit: scikit-learn's bundled digits, labelled privately at several epsilons."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.baselines import NoisySGD1
from recordwise.distiller import PrivateDistiller
from recordwise.durable import make_folder, write_whole
from recordwise.errors import InvalidInput
from recordwise.fits import uncounted
from recordwise.progress import Progress, done, step
from recordwise.randomness import seeded
from recordwise.report import summarize, write_report
from recordwise.students import student_from

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0)
QUERIES = {0.1: 10, 0.25: 10, 0.5: 40, 1.0: 100, 2.0: 200}  # as `num_queries="auto"` finds them, which takes longer
SHOWN = 1.0  # the epsilon whose run fills the report page
RUNS = 5
POOL, RECORDS = 600, 900  # of 1,797 digits; the rest is the test set


@dataclass(frozen=True, kw_only=True)
class Demo:
    """What the demo measured, row by row, and where its page is."""

    rows: list[dict[str, Any]]
    statement: str
    page: Path

    def as_dict(self) -> dict[str, Any]:
        return {"rows": self.rows, "statement": self.statement, "report": str(self.page)}

    def as_text(self) -> str:
        methods = list(dict.fromkeys(row["method"] for row in self.rows))
        cells = {(row["method"], row["epsilon"]): row for row in self.rows}
        head = f"{'test accuracy at epsilon':<34}" + "".join(f"{epsilon:>13g}" for epsilon in EPSILONS)
        lines = [head, "-" * len(head)]
        for method in methods:
            shown = [cells[method, epsilon] for epsilon in EPSILONS]
            lines.append(
                f"{method:<34}"
                + "".join(f"{100 * row['accuracy']:>7.1f} ± {100 * row['spread']:<3.1f}" for row in shown)
            )
        privacy = [f"  {method}: {cells[method, EPSILONS[0]]['privacy']}" for method in methods]
        return "\n".join([*lines, "", *privacy, "", f"at epsilon {SHOWN:g}: {self.statement}", f"report: {self.page}"])


def run_demo(folder: Path, *, seed: int, progress: Progress) -> Demo:
    """Label, teach, compare, and write `folder/report.html`.

    Three methods on the same split: ours (private records label the pool), the same student taught with the pool's true
    labels (no privacy), and noisy SGD on one linear layer over the same public features.
    """
    make_folder(folder)
    if not folder.is_dir() or not os.access(folder, os.W_OK):  # now, and not after all the work
        raise InvalidInput(f"--out must be a folder that can be written to, {str(folder)!r} is not")
    images, digits = _digits()
    order = seeded(seed, "demo", "split").permutation(len(images))
    pool, records, test = np.split(order, [POOL, POOL + RECORDS])

    def distil(epsilon: float, run: int) -> PrivateDistiller:
        distiller = PrivateDistiller(
            epsilon, num_queries=QUERIES[epsilon], classes=np.arange(10), random_state=seed + run
        )
        with uncounted():  # these digits are public: every run shows what one would cost
            return distiller.fit(images[records], digits[records], X_public=images[pool])

    def ours(epsilon: float, run: int) -> float:
        return float(distil(epsilon, run).score(images[test], digits[test]))

    with step(progress, "distil"):
        shown = distil(SHOWN, 0)
    encode = shown.encoder_.transform

    def without_privacy(epsilon: float, run: int) -> float:
        student = student_from("linear", seed=seed + run).fit(encode(images[pool]), digits[pool])
        return float(student.score(encode(images[test]), digits[test]))

    def noisy_sgd(epsilon: float, run: int) -> float:
        # All records in every step, and few steps: for 900 records the best of seven settings, tried on these digits.
        head = NoisySGD1(epsilon, batch_rate=1.0, steps=20, classes=np.arange(10), random_state=seed + run)
        with uncounted():
            head.fit(images[records], digits[records], X_public=images[pool])
        return float(head.score(images[test], digits[test]))

    methods: list[tuple[str, str, Callable[[float, int], float]]] = [
        ("Recordwise", "pure epsilon-DP, one record, replace-one", ours),
        ("linear student, true labels", "none", without_privacy),
        ("noisy SGD head", "(epsilon, 1e-5)-DP, one record, replace-one", noisy_sgd),
    ]
    rows = []
    with step(progress, "compare"):
        for name, privacy, measure in methods:
            for epsilon in EPSILONS:
                scores = [measure(epsilon, run) for run in range(RUNS)]
                rows.append(
                    {
                        "method": name,
                        "privacy": privacy,
                        "epsilon": epsilon,
                        "accuracy": float(np.mean(scores)),
                        "spread": float(np.std(scores, ddof=1)),
                        "runs": RUNS,
                    }
                )
                done(len(rows), len(methods) * len(EPSILONS))
    summary = summarize(shown, images[pool], name="Digits", test=(images[test], digits[test]), comparison=rows)
    write_whole(folder / "summary.json", summary.to_json().encode())
    write_report(summary, folder / "report.html")
    return Demo(rows=rows, statement=summary.statement, page=folder / "report.html")


def _digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.images * (255 / 16)).round().astype(np.uint8), bunch.target.astype(np.int64)
