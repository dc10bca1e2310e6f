"""What can go wrong, as far as public data shows it before anything is paid. Each finding is one line, with what to do.

Nothing private is looked at: columns are the pool's, clusters are the pool's, and what a budget buys is a plan's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Kind, Samples
from recordwise.data.schema import Column, Schema
from recordwise.errors import InvalidInput
from recordwise.planner.columns import Likely, beyond, odd
from recordwise.planner.outlook import Outlook
from recordwise.planner.planning import BudgetPlan
from recordwise.planner.predicting import Prediction
from recordwise.planner.tasks import CHANCE, SHUFFLES
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded

SINGLE = 0.1  # of the queries that may hold one sample
ENOUGH = 10  # samples per query, from which on clusters of one sample are rare
NOISE = 0.25  # of what can be learnt: below, a budget goes on noise
LITTLE = 0.6
BETTER = 0.02  # by which other numbers of queries are worth a word
APART = 0.02  # of the variance that clusters must explain beyond those of a pool without structure


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something to look at before anything is paid.

    Attributes:
      stops: Whether a run stops at it, unless it is told to go on.
      about: What it is about: a column's name, "queries", "budget", "pool" or "records".
      text: One line: what was found, and what to do.
      likely: What a column may really hold, where that decides what becomes of it.
      warns: Whether it can hardly be meant; a run goes on nevertheless.
    """

    stops: bool
    about: str
    text: str
    likely: Likely | None = None
    warns: bool = False

    def __str__(self) -> str:
        return f"{'stop' if self.stops else 'warning' if self.warns else 'note'}: {self.text}"


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What a check found, and the plan behind it where there is one."""

    findings: tuple[Finding, ...]
    plan: BudgetPlan | None = None

    @property
    def stops(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.stops)

    def as_dict(self) -> dict[str, Any]:
        return {
            "findings": [asdict(one) for one in self.findings],
            "plan": None if self.plan is None else self.plan.as_dict(),
        }

    def as_text(self) -> str:
        return "\n".join(map(str, self.findings)) or "Nothing found that public data can show."

    def refuse(self) -> None:
        """Refuse what would stop a run, in one line."""
        if self.stops:
            why = ". ".join(one.text for one in self.stops)
            raise InvalidInput(f"{why}. Nothing was paid; --anyway, or account.go_on, runs it nevertheless")


def check(
    schema: Schema,
    samples: Samples,
    outlook: Outlook | None,
    made: BudgetPlan | None,
    *,
    num_queries: int | None = None,
) -> Checked:
    """All findings.

    Args:
      schema: By which the pool is read.
      samples: The pool as it stands in its file.
      outlook: None leaves it at the columns.
      made: A plan of the run.
      num_queries: How many queries the run asks; None is the plan's choice.
    """
    found = list(_columns(schema, samples))
    if outlook is None or made is None:
        return Checked(findings=tuple(found))
    asked = num_queries or made.recommended.num_queries
    found += [*_pool(outlook), *_queries(outlook, made, asked)]
    if outlook.labels_per_record == 1:  # plans are about one label each, and sets of labels are another matter
        found += budget_findings(outlook, made, asked)
    return Checked(findings=tuple(found), plan=made)


def _columns(schema: Schema, samples: Samples) -> Iterator[Finding]:
    for column, name, cells in _cells(schema, samples):
        if doubt := odd(column, cells):
            text = f"column {name!r} {doubt.text}"
            yield Finding(stops=False, about=str(name), text=text, likely=doubt.likely, warns=doubt.grave)


def beside_test(schema: Schema, pool: Samples, test: Samples) -> Iterator[Finding]:
    """The columns whose numbers or dates lie elsewhere in a public test file than in the pool."""
    for (column, name, known), (_, _, new) in zip(_cells(schema, pool), _cells(schema, test), strict=True):
        if doubt := beyond(column, known, new):
            yield Finding(stops=False, about=str(name), text=f"column {name!r} {doubt.text}")


def has_columns(schema: Schema) -> bool:
    """Whether samples are rows of columns that can be looked at one by one."""
    return schema.kind == Kind.TABLE or (schema.kind == Kind.VECTORS and bool(schema.columns))


def _cells(schema: Schema, samples: Samples) -> Iterator[tuple[Column, str | int, NDArray[Any]]]:
    """Each column, its name or place, and its cells; none where samples have no columns."""
    if not has_columns(schema):
        return
    # Read without declared ranges: what lies beyond them would be missing.
    free = replace(schema, columns=tuple(replace(column, range=None) for column in schema.columns))
    for place, (column, cells) in enumerate(zip(schema.columns, free.read(samples).samples.T, strict=True)):
        yield column, column.name or place, cells


def _pool(outlook: Outlook) -> Iterator[Finding]:
    vectors = outlook.sample()
    classes = outlook.known.num_classes
    different = len(np.unique(vectors, axis=0))
    if different < 2 * classes:
        text = (
            f"the pool has {different} different samples for {classes} classes: add columns that tell samples apart, "
            "or another encoder"
        )
        yield Finding(stops=True, about="pool", text=text)
        return
    known = outlook.known
    if known.seen is not None and outlook.by_chance is not None and outlook.by_chance > CHANCE:
        text = (
            f"the {len(known.seen.labels)} labelled pool samples do not show that classes can be told apart: with "
            f"shuffled labels they predict each other as well in {100 * outlook.by_chance:.0f} % of {SHUFFLES + 1} "
            f"cases (told apart: {100 * CHANCE:.0f} % at most); use another encoder, other columns, or label more"
        )
        yield Finding(stops=False, about="pool", text=text)
    unknown = known.seen is None and known.attainable is None
    if unknown and structure(vectors, min(10 * classes, len(vectors) // 10)) < APART:
        text = (
            "the pool shows no groups beyond what correlations explain, so queries cut one cloud into regions: that "
            "works, but how hard the task is does not show; label some pool samples, or say attainable"
        )
        yield Finding(stops=False, about="pool", text=text)


def structure(vectors: NDArray[np.float32], clusters: int) -> float:
    """The share of variance that clusters explain, beyond clusters of the same axes shuffled each on its own."""
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh(centred.T.astype(np.float64) @ centred)
    turned = (centred @ axes).astype(np.float32)
    shuffled = seeded(0, "planner", "shuffled").permuted(turned, axis=0)
    total = float((turned.astype(np.float64) ** 2).sum())
    if clusters < 2 or not total > 0:
        return 0.0

    def explained(points: NDArray[np.float32]) -> float:
        queries = KMeansQueries(num_queries=clusters, seed=0).ask(points)
        return 1 - float(((points - queries.vectors[queries.owner]).astype(np.float64) ** 2).sum()) / total

    return explained(turned) - explained(shuffled)


def _queries(outlook: Outlook, made: BudgetPlan, asked: int) -> Iterator[Finding]:
    if outlook.num_samples < ENOUGH * asked:
        alone = outlook.queries_with_one_sample(asked)
        if alone > SINGLE * asked:
            fewer = "" if asked == made.recommended.num_queries else "ask fewer (num_queries), or "
            text = f"{alone} of {asked} queries would hold a single pool sample: {fewer}add samples to the pool"
            yield Finding(stops=False, about="queries", text=text)
    chosen, better = _chosen(made, asked), made.recommended
    if better.student_accuracy.mean > chosen.student_accuracy.mean + BETTER:
        text = (
            f"{better.num_queries} queries would be better than {asked}: {better.student_accuracy} right instead of "
            f"{chosen.student_accuracy}; set num_queries = {better.num_queries}"
        )
        yield Finding(stops=False, about="queries", text=text)


def _chosen(made: BudgetPlan, asked: int) -> Prediction:
    return next((one for one in made.considered if one.num_queries == asked), made.recommended)


def budget_findings(outlook: Outlook, made: BudgetPlan, asked: int) -> Iterator[Finding]:
    """Whether so many queries leave more than noise."""
    chosen = _chosen(made, asked)
    gain = made.gain_of(chosen)
    words = (
        f"for {outlook.known.num_classes} classes, {outlook.num_records} records and {asked} queries the student is "
        f"expected to be right {chosen.student_accuracy}, and {made.by_naming} without any budget"
    )
    if gain.mean < NOISE or _drowned(chosen):
        text = f"the budget would go on noise: {words}; raise epsilon, gather more records or merge classes"
        yield Finding(stops=True, about="budget", text=text)
    elif gain.mean < LITTLE:
        text = f"the budget is small: {words}; raise epsilon, gather more records or merge classes"
        yield Finding(stops=False, about="budget", text=text)


def _drowned(chosen: Prediction) -> bool:
    """Whether all votes together stand out from their noise by less than one deviation, however they are read.

    A few simulated runs with few queries are right by chance now and then. This is not.
    """
    return chosen.votes_per_query * math.sqrt(chosen.num_queries) < chosen.noise_std
