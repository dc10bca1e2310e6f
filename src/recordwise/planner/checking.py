"""What can go wrong, as far as public data shows it before anything is paid. Each finding is one line, with what to do.

Nothing private is looked at: columns are the pool's, clusters are the pool's, and what a budget buys is a plan's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recordwise.data.cells import DATE_FORMATS, days_of, number_of
from recordwise.data.samples import Kind, Samples
from recordwise.data.schema import CATEGORY, NUMBER, Column, Schema
from recordwise.encoders.table import MOST_VALUES
from recordwise.errors import InvalidInput
from recordwise.planner.outlook import Outlook
from recordwise.planner.planning import BudgetPlan
from recordwise.planner.predicting import Prediction
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded

MOSTLY = 0.8  # of a column's cells
MANY = 0.5  # different values, as a share of the rows: hardly any row tells something about another
FEW_ROWS = 20  # below so many rows a column shows nothing
MOST_CODES = 200  # more whole numbers than that are taken as numbers
LONGEST_CODE = 1e15  # floats tell whole numbers below it apart
WORDS = 3  # from so many words on, on average, a cell is text
MORE_DATES = ("%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%Y%m%d", "%d %b %Y", "%b %d, %Y")
OUTSIDE, WITHIN = 0.01, 0.02  # of the cells beyond a declared range; of a declared range that the pool fills
SINGLE = 0.1  # of the queries that may hold one sample
ENOUGH = 10  # samples per query, from which on clusters of one sample are rare
NOISE = 0.25  # of what can be learnt: below, a budget goes on noise
LITTLE = 0.6
BETTER = 0.02  # by which other numbers of queries are worth a word
APART = 0.02  # of the variance that clusters must explain beyond those of a pool without structure
LIKELY_ID = re.compile(r"(^|[_\s])(id|uuid|guid|key|number|nr|no)$", re.IGNORECASE)


class Likely(StrEnum):
    """What a column may hold, other than what it is read as."""

    IDENTIFIERS = "identifiers"
    FREE_TEXT = "free text"
    CODES = "codes"


class Doubt(NamedTuple):
    """What is odd about a column, in words that follow its name."""

    text: str
    likely: Likely | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something to look at before anything is paid.

    Attributes:
      stops: Whether a run stops at it, unless it is told to go on.
      about: What it is about: a column's name, "queries", "budget", "pool" or "records".
      text: One line: what was found, and what to do.
      likely: What a column may really hold, where that decides what becomes of it.
    """

    stops: bool
    about: str
    text: str
    likely: Likely | None = None

    def __str__(self) -> str:
        return f"{'stop' if self.stops else 'note'}: {self.text}"


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
    found += [*_pool(outlook, made), *_queries(outlook, made, asked)]
    if outlook.labels_per_record == 1:  # plans are about one label each, and sets of labels are another matter
        found += budget_findings(outlook, made, asked)
    return Checked(findings=tuple(found), plan=made)


def _columns(schema: Schema, samples: Samples) -> Iterator[Finding]:
    if schema.kind != Kind.TABLE and not (schema.kind == Kind.VECTORS and schema.columns):
        return
    # Read without declared ranges: what lies beyond them would be missing.
    free = replace(schema, columns=tuple(replace(column, range=None) for column in schema.columns))
    for place, (column, cells) in enumerate(zip(schema.columns, free.read(samples).samples.T, strict=True)):
        named = f"column {column.name or place!r}"
        doubt = _category(cells) if column.kind == CATEGORY else _number(column, cells)
        if doubt:
            text, about = f"{named} {doubt.text}", column.name or str(place)
            yield Finding(stops=False, about=about, text=text, likely=doubt.likely)


def _category(cells: NDArray[Any]) -> Doubt | None:
    words = [cell for cell in cells if cell is not None]
    if len(words) < FEW_ROWS:
        return None
    different = len(set(words)) / len(words)
    some = words[:: max(1, len(words) // 500)]
    dates = np.mean([not np.isnan(days_of(word, (*DATE_FORMATS, *MORE_DATES))) for word in some])
    if dates >= MOSTLY and np.mean([word.isdigit() and len(word) != 8 for word in some]) < MOSTLY:
        return Doubt("holds dates but is read as categories: declare it as kind 'date', with their formats")
    if np.mean([not np.isnan(number_of(word)) for word in some]) >= MOSTLY and different > 0.1:
        return Doubt(
            "holds numbers but is read as categories: declare it as kind 'number', and other cells are missing"
        )
    if np.mean([len(word.split()) for word in some]) >= WORDS and different > MANY / 2:
        text = "holds free text but is read as categories: leave it out, or make the text the sample"
        return Doubt(text, Likely.FREE_TEXT)
    if different > MANY:
        text = f"has {len(set(words))} values in {len(words)} rows, as identifiers do: leave it out of samples"
        return Doubt(text, Likely.IDENTIFIERS)
    if len(set(words)) > MOST_VALUES:
        return Doubt(
            f"has {len(set(words))} values, of which the {MOST_VALUES} most frequent are told apart and all others are "
            "alike: group them, or raise the encoder's max_values"
        )
    return None


def _number(column: Column, cells: NDArray[Any]) -> Doubt | None:
    values = np.asarray(cells, dtype=np.float64)
    values = values[np.isfinite(values)]
    if len(values) < FEW_ROWS:
        return None
    if column.range is not None:
        low, high = column.range
        outside = float(((values < low) | (values > high)).mean())
        if outside > OUTSIDE:
            return Doubt(
                f"lies outside its declared range [{low:g}, {high:g}] in {100 * outside:.0f} % of the pool, which then "
                "counts as missing: declare the range in the pool's unit"
            )
        if np.ptp(values) < WITHIN * (high - low):
            return Doubt(
                f"fills [{values.min():g}, {values.max():g}] of its declared range [{low:g}, {high:g}]: if records "
                "fill the rest, they are not like the pool; declare the range in the pool's unit"
            )
    if column.kind != NUMBER or not (values == np.floor(values)).all():
        return None
    if _spell_dates(values):
        return Doubt("holds dates written as numbers (YYYYMMDD): write them as dates, or declare kind 'date'")
    dense = np.ptp(values) + 1 <= 2 * len(values)
    if len(np.unique(values)) > 0.99 * len(values) and len(values) >= 50 and (dense or LIKELY_ID.search(column.name)):
        text = "has a different whole number in every row, as identifiers do: leave it out of samples"
        return Doubt(text, Likely.IDENTIFIERS)
    if _like_codes(values):
        return Doubt(
            f"is read as numbers, and its {len(np.unique(values))} different values look like codes: if they are, name "
            "it in records.categorical",
            Likely.CODES,
        )
    return None


def _like_codes(values: NDArray[np.float64]) -> bool:
    """Whether whole numbers look like postcodes and such: few, long, far apart, not in steps of ten or more."""
    different = np.unique(values)
    few = 2 < len(different) <= MOST_CODES and len(values) >= FEW_ROWS * len(different)
    long = different[0] >= 100 and different[-1] < LONGEST_CODE
    if not few or not long or np.ptp(different) < FEW_ROWS * len(different):
        return False
    return int(np.gcd.reduce(np.diff(different.astype(np.int64)))) < 10  # else they are amounts, in steps


def _spell_dates(values: NDArray[np.float64]) -> bool:
    year, month, day = values // 10_000, values // 100 % 100, values % 100
    return bool(((year >= 1800) & (year <= 2200) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


def _pool(outlook: Outlook, made: BudgetPlan) -> Iterator[Finding]:
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
    if outlook.known.seen is not None and made.attainable.mean < made.commonest + 0.05:
        text = (
            f"labelled pool samples show that classes hardly lie apart: with true labels a student would be right "
            f"{made.attainable}, and {100 * made.commonest:.1f} % without any; use another encoder, or other columns"
        )
        yield Finding(stops=False, about="pool", text=text)
    elif structure(vectors, min(10 * classes, len(vectors) // 10)) < APART:
        text = (
            "the pool has no clusters that classes could follow (columns vary independently of each other): use "
            "another encoder, or say how right a student is with true labels (attainable)"
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
        f"expected to be right {chosen.student_accuracy}, and {100 * made.commonest:.1f} % without any budget"
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
