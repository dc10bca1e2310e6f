"""What a budget buys on this very pool, before any of it is spent: how many queries to ask, and what to expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from recordwise.errors import RecordwiseError, whole
from recordwise.planner.outlook import Outlook
from recordwise.planner.predicting import Expected, Prediction, predict
from recordwise.planner.searching import search, usual_queries, visibility
from recordwise.planner.tasks import CHANCE
from recordwise.privacy.guarantee import Trust
from recordwise.progress import Progress, part, step
from recordwise.protocols.registry import names
from recordwise.protocols.terms import Terms
from recordwise.settings import AUTO

AS_CLEAR = 0.5  # of how far votes stand out from their noise: with so much left, as many queries are asked
MARGIN = 0.005  # by which more votes per record, and two partitions, must be better


@dataclass(frozen=True, kw_only=True)
class BudgetPlan:
    """Predictions for several choices, and the one to take.

    Attributes:
      considered: The numbers of queries and votes that were tried.
      compared: The recommended choice under other mechanisms and other trust, for the same budget.
      attainable: How often a student would be right that is taught true labels.
      commonest: The share of the commonest class: right so often is whoever knows nothing else.
      basis: What the prediction knows of the task.
      left_out: What the run's own student may have beyond the one that was simulated; empty where they are the same.
      shares_assumed: Nobody said how common classes are, and no sample shows it: they are taken to be equally common.
    """

    recommended: Prediction
    considered: tuple[Prediction, ...]
    compared: tuple[Prediction, ...]
    attainable: Expected
    commonest: float
    basis: str
    left_out: str = ""
    shares_assumed: bool = False

    @classmethod
    def of(
        cls,
        outlook: Outlook,
        recommended: Prediction,
        considered: Sequence[Prediction],
        compared: Sequence[Prediction] = (),
        *,
        rounds: int = 1,
    ) -> BudgetPlan:
        """Predictions, beside what the outlook itself says.

        Args:
          considered: The recommended one is among them.
          rounds: In which so many queries are asked each time.
        """
        most = max(one.num_queries * one.partitions * rounds for one in considered)
        return cls(
            recommended=recommended,
            considered=tuple(considered),
            compared=tuple(compared),
            attainable=Expected.of(outlook.attainable),
            commonest=round(float(outlook.known.shares.max()), 4),
            basis=basis(outlook),
            left_out=outlook.left_out if most >= outlook.left_out_from else "",
            shares_assumed=outlook.known.class_shares is None and outlook.known.seen is None,
        )

    @property
    def gain(self) -> Expected:
        """The part of what can be learnt beyond the commonest class that this budget buys."""
        return self.gain_of(self.recommended)

    @property
    def by_naming(self) -> str:
        """How often the commonest class is right, in words."""
        assumed = " (classes are taken to be equally common; class_shares says otherwise)"
        return f"{100 * self.commonest:.1f} %{assumed if self.shares_assumed else ''}"

    def gain_of(self, one: Prediction) -> Expected:
        room = max(self.attainable.mean - self.commonest, 1e-6)
        parts = [(value - self.commonest) / room for value in asdict(one.student_accuracy).values()]
        return Expected(*(round(min(1.0, max(0.0, part)), 4) for part in parts))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        lines = [
            f"Predicted from {self.basis}. In brackets: four plausible tasks of five.",
            f"With true labels a student would be right {self.attainable}; naming the commonest class "
            f"{self.by_naming}.",
            *([self.left_out] if self.left_out else []),
            "",
            _line("", "queries", "votes each", "labels right", "student right", "noise (std)", "votes per query"),
            *(_row("->" if one == self.recommended else "", one) + _split(one) for one in self.considered),
        ]
        if self.compared:
            lines += [
                "",
                "The same budget under other mechanisms and other trust, fewer queries where noise is higher:",
            ]
            lines += [f"{_row('', one)}  {one.trust}, {one.mechanism}" for one in self.compared]
        return "\n".join(line.rstrip() for line in lines)


def _line(mark: str, *cells: str) -> str:
    return f"{mark:<2} " + "  ".join(
        f"{cell:>{width}}" for cell, width in zip(cells, (7, 10, 15, 15, 11, 15), strict=True)
    )


def _row(mark: str, one: Prediction) -> str:
    return _line(
        mark,
        str(one.num_queries),
        str(one.votes_per_record),
        str(one.label_accuracy),
        str(one.student_accuracy),
        f"{one.noise_std:.1f}",
        f"{one.votes_per_query:.1f}",
    )


def _split(one: Prediction) -> str:
    """How to ask several partitions of the pool."""
    return "" if one.partitions == 1 else f"  {one.partitions} partitions: rounds = {one.partitions}, queries.focus = 0"


def plan(
    outlook: Outlook,
    terms: Terms,
    *,
    num_queries: Sequence[int] | None = None,
    votes_per_record: Sequence[int] | None = None,
    compare: bool = True,
    progress: Progress | None = None,
) -> BudgetPlan:
    """Predictions, and the choice whose student is expected to be right most often.

    Args:
      num_queries: Numbers of queries to consider; None searches from one per class upwards as long as it pays.
      votes_per_record: Votes per record to consider; None is 1 and, for the best number of queries, 2.
      compare: Also predict two partitions of the pool, other mechanisms and other trust at the same budget.
    """
    for votes in votes_per_record or ():
        whole(votes_per_record=votes)
    first, *more = votes_per_record or ((1,) if terms.one_vote else (1, 2))
    tried = search(outlook, terms, num_queries=num_queries, votes_per_record=first, progress=progress)
    considered, recommended = tried.found, tried.found[tried.best]
    size = recommended.num_queries
    with step(progress, "plan: votes per record"):
        for number, votes in enumerate(more):
            if votes <= size:
                with part(number, number + 1, len(more)):
                    considered.append(predict(outlook, terms, num_queries=size, votes_per_record=votes))
                if considered[-1].student_accuracy.mean > recommended.student_accuracy.mean + MARGIN:
                    recommended = considered[-1]
    compared = _compared(outlook, terms, recommended, progress) if compare else []
    if compare and terms.rounds == 1 and not terms.one_query_per_class:
        with step(progress, "plan: partitions"):
            considered.append(in_two(outlook, terms, recommended))
        if considered[-1].student_accuracy.mean > recommended.student_accuracy.mean + MARGIN:
            recommended = considered[-1]
    return BudgetPlan.of(outlook, recommended, considered, compared, rounds=terms.rounds)


def in_two(outlook: Outlook, terms: Terms, chosen: Prediction) -> Prediction:
    """The same choice with two partitions of the pool, at half the budget each."""
    evenly = replace(outlook, queries=replace(outlook.queries, focus=0.0))
    ballot = chosen.num_queries, chosen.votes_per_record
    told = predict(evenly, replace(terms, rounds=2), num_queries=ballot[0], votes_per_record=ballot[1])
    return replace(told, partitions=2)


def _compared(outlook: Outlook, terms: Terms, chosen: Prediction, progress: Progress | None) -> list[Prediction]:
    """The other mechanisms of the same trust, and what "auto" takes under each other trust that can keep the terms."""
    others = [_kept_by(terms, terms.trust, name) for name in names(terms.trust)]
    others += [_kept_by(terms, trust, AUTO) for trust in Trust if trust is not terms.trust]
    found: list[Prediction] = []
    with step(progress, "plan: mechanisms and trust"):
        for number, other in enumerate(others):
            if other is None:
                continue
            votes = 1 if other.one_vote else chosen.votes_per_record
            try:
                size = _bearable(outlook, terms, other, chosen, votes)
                with part(number, number + 1, len(others)):
                    one = predict(outlook, other, num_queries=size, votes_per_record=votes)
            except RecordwiseError:
                continue  # it cannot keep these terms on this ballot
            if (one.trust, one.mechanism) != (chosen.trust, chosen.mechanism) and one not in found:
                found.append(one)
    return found


def _bearable(outlook: Outlook, terms: Terms, other: Terms, chosen: Prediction, votes: int) -> int:
    """How many queries to ask under other terms: as many as were chosen, or what is usual where noise is higher."""
    size = chosen.num_queries
    if other.one_query_per_class:
        return outlook.known.num_classes
    clear = visibility(size, outlook, terms, chosen.votes_per_record)
    if visibility(size, outlook, other, votes) >= AS_CLEAR * clear:
        return size
    return min(size, usual_queries(outlook, other, votes))


def _kept_by(terms: Terms, trust: Trust, mechanism: str) -> Terms | None:
    """The same budget under another trust or mechanism; None where it cannot be kept so."""
    parties = max(2, terms.parties) if trust is Trust.DISTRIBUTED else terms.parties
    try:
        return replace(terms, trust=trust, mechanism=mechanism, parties=parties)
    except RecordwiseError:
        return None


def basis(outlook: Outlook) -> str:
    """What a prediction knows of the task, in words."""
    known = outlook.known
    parts = [f"the pool's geometry, {known.num_classes} classes and {outlook.num_records} records"]
    if known.class_shares is not None:
        parts.append("declared class shares")
    if known.seen is not None:
        apart = outlook.by_chance is None or outlook.by_chance <= CHANCE
        labelled = f"{len(known.seen.labels)} labelled pool samples"
        parts.append(labelled if apart else f"{labelled} (that predict each other no better than shuffled ones)")
    if known.attainable is not None:
        parts.append(f"{100 * known.attainable:.1f} % attainable with true labels, as declared")
    if known.seen is None and known.attainable is None:
        parts.append("a wide guess of how hard the task is")
    return ", ".join(parts)
