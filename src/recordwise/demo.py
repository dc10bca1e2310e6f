"""The first visit: scikit-learn's bundled digits, labelled privately at several epsilons."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

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

Fitted = TypeVar("Fitted", PrivateDistiller, NoisySGD1)
Method = tuple[str, str, Callable[[float, int], float]]  # its name, its privacy, and its score at an epsilon, in a run


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


@dataclass(frozen=True, kw_only=True)
class Digits:
    """One split of the digits, and what each method is worth on it.

    Attributes:
      pool, records, test: Which images are public, private, and held back.
      seed: Of everything but the privacy noise.
    """

    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    pool: NDArray[np.int64]
    records: NDArray[np.int64]
    test: NDArray[np.int64]
    seed: int

    @classmethod
    def split(cls, seed: int) -> Digits:
        images, labels = _digits()
        order = seeded(seed, "demo", "split").permutation(len(images))
        pool, records, test = np.split(order, [POOL, POOL + RECORDS])
        return cls(images=images, labels=labels, pool=pool, records=records, test=test, seed=seed)

    def score(self, fitted: Any, encode: Callable[[Any], Any] = lambda images: images) -> float:
        return float(fitted.score(encode(self.images[self.test]), self.labels[self.test]))

    def distil(self, epsilon: float, run: int) -> PrivateDistiller:
        """Private records label the pool, and a student learns it."""
        seed = self.seed + run
        return self._fit(
            PrivateDistiller(epsilon, num_queries=QUERIES[epsilon], classes=np.arange(10), random_state=seed)
        )

    def noisy_sgd(self, epsilon: float, run: int) -> NoisySGD1:
        """Noisy SGD on one linear layer over the same public features."""
        # All records in every step, and few steps: for 900 records the best of seven settings, tried on these digits.
        seed = self.seed + run
        return self._fit(NoisySGD1(epsilon, batch_rate=1.0, steps=20, classes=np.arange(10), random_state=seed))

    def without_privacy(self, run: int, encode: Callable[[Any], Any]) -> float:
        """What the same student is worth, taught with the pool's true labels."""
        student = student_from("linear", seed=self.seed + run).fit(
            encode(self.images[self.pool]), self.labels[self.pool]
        )
        return self.score(student, encode)

    def _fit(self, one: Fitted) -> Fitted:
        with uncounted():  # these digits are public: every run shows what one would cost
            one.fit(self.images[self.records], self.labels[self.records], X_public=self.images[self.pool])
        return one


def run_demo(folder: Path, *, seed: int, progress: Progress) -> Demo:
    """Label, teach, compare, and write `folder/report.html`.

    Three methods on the same split: ours (private records label the pool), the same student taught with the pool's true
    labels (no privacy), and noisy SGD on one linear layer over the same public features.
    """
    make_folder(folder)
    if not folder.is_dir() or not os.access(folder, os.W_OK):  # now, and not after all the work
        raise InvalidInput(f"--out must be a folder that can be written to, {str(folder)!r} is not")
    digits = Digits.split(seed)
    with step(progress, "distil"):
        shown = digits.distil(SHOWN, 0)
    encode = shown.encoder_.transform
    methods: list[Method] = [
        (
            "Recordwise",
            "pure epsilon-DP, one record, replace-one",
            lambda epsilon, run: digits.score(digits.distil(epsilon, run)),
        ),
        ("linear student, true labels", "none", lambda epsilon, run: digits.without_privacy(run, encode)),
        (
            "noisy SGD head",
            "(epsilon, 1e-5)-DP, one record, replace-one",
            lambda epsilon, run: digits.score(digits.noisy_sgd(epsilon, run)),
        ),
    ]
    with step(progress, "compare"):
        rows = _compared(methods)
    images, test = digits.images, digits.test
    summary = summarize(
        shown, images[digits.pool], name="Digits", test=(images[test], digits.labels[test]), comparison=rows
    )
    write_whole(folder / "summary.json", summary.to_json().encode())
    write_report(summary, folder / "report.html")
    return Demo(rows=rows, statement=summary.statement, page=folder / "report.html")


def _compared(methods: list[Method]) -> list[dict[str, Any]]:
    """One row for each method and epsilon: the mean and the spread over runs."""
    rows: list[dict[str, Any]] = []
    for name, privacy, measure in methods:
        for epsilon in EPSILONS:
            scores = [measure(epsilon, run) for run in range(RUNS)]
            mean, spread = float(np.mean(scores)), float(np.std(scores, ddof=1))
            rows.append(
                {
                    "method": name,
                    "privacy": privacy,
                    "epsilon": epsilon,
                    "accuracy": mean,
                    "spread": spread,
                    "runs": RUNS,
                }
            )
            done(len(rows), len(methods) * len(EPSILONS))
    return rows


def _digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return (bunch.images * (255 / 16)).round().astype(np.uint8), bunch.target.astype(np.int64)
