"""Methods side by side: what each protects and costs, and how well it did. One table and one figure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Self

from recordwise.baselines import rivals
from recordwise.privacy.guarantee import Guarantee
from recordwise.report import charts

OURS = {"protects": "one record", "public": "an unlabelled pool", "rounds": "one", "data_dependent": "no"}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One method at one epsilon.

    Attributes:
      protects: What one unit of protection is.
      data_dependent: Whether an epsilon in use for this method depends on the records.
      data_dependent_epsilon: A sanitised one, where it was asked for.
      accuracy: On the test set; None where the method refused.
      error: One standard error of it, from the size of the test set alone.
      refusal: Why there is no accuracy.
    """

    method: str
    epsilon: float
    delta: float
    neighbours: str
    protects: str
    public: str
    rounds: str
    data_dependent: str
    data_dependent_epsilon: float | None = None
    accuracy: float | None = None
    error: float = 0.0
    seconds: float = 0.0
    refusal: str = ""

    @classmethod
    def of(
        cls,
        method: str,
        promise: Guarantee,
        *,
        accuracy: float,
        error: float,
        seconds: float,
        data_dependent_epsilon: float | None,
    ) -> Self:
        """A method that was fitted."""
        return replace(
            cls._named(method),
            epsilon=float(promise.epsilon),
            delta=float(promise.delta),
            neighbours=str(promise.neighbours),
            accuracy=accuracy,
            error=error,
            seconds=round(seconds, 1),
            data_dependent_epsilon=data_dependent_epsilon,
        )

    @classmethod
    def refused(cls, method: str, epsilon: float, why: str) -> Self:
        """A method that said no."""
        return replace(cls._named(method), epsilon=epsilon, refusal=why)

    @classmethod
    def _named(cls, method: str) -> Self:
        facts = _facts(method)
        return cls(
            method=method,
            epsilon=0.0,
            delta=0.0,
            neighbours="",
            protects=facts["protects"],
            public=facts["public"],
            rounds=facts["rounds"],
            data_dependent=facts["data_dependent"],
        )


def _facts(method: str) -> dict[str, str]:
    if method not in rivals():
        return OURS
    facts = rivals()[method].facts
    return {name: getattr(facts, name) for name in OURS}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All methods, and what comparing them cost."""

    name: str
    price: str
    public_only: bool
    rows: list[Measured]

    def as_text(self) -> str:
        wide = max(len(row.method) for row in self.rows) + 1
        names = f"{'epsilon':>9}{'delta':>9}  {'neighbours':<12}{'accuracy':>15}  rounds, public, protects"
        head = f"{'method':<{wide}}{names}"
        lines = [head, "-" * len(head)]
        for row in self.ranked():
            found = f"{100 * row.accuracy:.1f} ± {100 * row.error:.1f} %" if row.accuracy is not None else "refused"
            said = row.refusal or f"{row.rounds}; {row.public}; {row.protects}"
            lines.append(
                f"{row.method:<{wide}}{row.epsilon:>9g}{row.delta:>9g}  {row.neighbours:<12}{found:>15}  {said}"
            )
        return "\n".join(lines)

    def ranked(self) -> list[Measured]:
        """By epsilon, the most accurate first."""
        return sorted(self.rows, key=lambda row: (row.epsilon, -1 if row.accuracy is None else -row.accuracy))

    def figure(self) -> str:
        """Accuracy against epsilon, or a bar for each method where there is one epsilon."""
        measured = [row for row in self.ranked() if row.accuracy is not None]
        if len({row.epsilon for row in measured}) < 2:
            return charts.shares([(row.method, row.accuracy or 0.0, row.error) for row in measured], x_label="accuracy")
        series: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
        for row in measured:
            series[row.method].append((row.epsilon, row.accuracy or 0.0, row.error))
        return charts.curves(series, x_label="epsilon", y_label="accuracy")


def comparison_page(made: Comparison) -> str:
    """The page as HTML, in the manner of the report page."""
    from recordwise.report.page import template

    page: str = template("comparison.html.j2").render(made=made)
    return page
