"""What a release says about its own labels: whether they can be relied on, and if not, why.

Nothing here looks at a record or at a test set. It is post-processing of what was released, so it may be published with
it, and costs nothing.

- *Nothing*: no test at a level of one in twenty shows that queries differ (`labels.shares.contrast`, and how much
  likelier held-out queries are under the student than under equal shares); or no sample has any of several labels.
- Else labels are judged by what they add: the share of the errors of the best guess without them, which is the
  commonest class, that they avoid (Cohen's kappa against that guess). *Weak* is less than one in three, *clear* two in
  three or more. How many are right is taken from the middle of what the decoder and the student expect.
- *Why not more*: whichever costs more, noise (the chance that a query's label is not its commonest class) or overlap
  (the records of a query that are of another class).
- *Unknown*: a release without counts shows what noise does to labels, and not how many of a query's records have them.
- *Elsewhere*: votes that gather in few queries say little of the pool, and nothing is expected of its labels then.
  This, a class without votes and records that did not vote are told in a line each (`labels.signs`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from recordwise.arrays import Ints
from recordwise.errors import shown
from recordwise.labels.shares import RARE, contrast, turnout
from recordwise.labels.signs import Signs, signs
from recordwise.pipeline import Round, Taught
from recordwise.privacy.guarantee import members
from recordwise.students.choice import FOLDS

WEAK, CLEAR = 1 / 3, 2 / 3  # of the errors that naming the commonest class makes: so many are avoided


class Level(StrEnum):
    """How much labels say, from nothing on; unknown where a release cannot tell."""

    UNKNOWN = "unknown"
    NOTHING = "nothing"
    WEAK = "weak"
    FAIR = "fair"
    CLEAR = "clear"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How far a run's labels can be relied on, as far as its release shows.

    Attributes:
      headline: The level and its reason.
      advice: What to do about it; empty where there is nothing to do.
      expected: Between which shares the pool's labels are expected to be right: how many records of a query carry its
        label, by the decoder, which a student can exceed; and how sure the student itself is, which is often too sure.
        None where labels say nothing, or where a release does not show it.
      commonest: What naming the commonest class everywhere would get right; None where samples have several labels.
      notices: What else the release shows that somebody should look at (`labels.signs`), a line each.
    """

    level: Level
    headline: str
    advice: str
    expected: tuple[float, float] | None
    commonest: float | None
    notices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        members(self, level=Level)

    def __str__(self) -> str:
        first = " ".join(part for part in (f"{self.headline}.", self.figures, self.advice) if part)
        return "\n".join((first, *self.notices))

    @property
    def figures(self) -> str:
        if self.expected is None:
            return ""
        share = in_percent(*self.expected)
        if self.commonest is None:
            return f"By the release alone, {share} of the queries' sets of labels are expected to be right."
        return (
            f"By the release alone, {share} of the pool's labels are expected to be right; naming the commonest class "
            f"everywhere would get {in_percent(self.commonest, self.commonest)}."
        )

    def as_dict(self) -> dict[str, Any]:
        expected = None if self.expected is None else list(self.expected)
        told = {"level": str(self.level), "expected": expected, "notices": list(self.notices), "text": str(self)}
        return {**asdict(self), **told}


def in_percent(low: float, high: float) -> str:
    """A range of shares in words, cut where more digits would say more than is known."""
    least, most = (min(99, round(100 * share)) for share in (low, high))
    return f"{least} %" if least == most else f"{least} to {most} %"


def verdict_on(rounds: Sequence[Round], taught: Taught, classes: Sequence[Any], num_records: int | None) -> Verdict:
    """The verdict on a run's labels, from its releases and what was made of them.

    Args:
      classes: Their names.
      num_records: Where it is public.
    """
    first = rounds[0]
    sizes = first.queries.sizes + 1e-9  # a query may have none
    leads = float(np.average(first.labels.leads, weights=sizes))
    if first.release.ballot.labels_per_record > 1:
        if not (taught.probabilities > 0.5).any():
            return _nothing(
                "Labels say nothing: no sample of the pool has one",
                "No label belongs to more than half of any query's records, as far as the noise shows. Are the records "
                "labelled, and their classes spelt as declared? If so, spend more, or ask other queries.",
            )
        return _judged((leads, leads), None, leads, leads)
    probabilities = taught.probabilities[taught.labels >= 0]
    if not len(probabilities):
        return _nothing("No label is as sure as decoder.min_confidence asks", "Ask for less, or spend more.")
    if probabilities.shape[1] == 1:
        return _nothing("Labels say nothing: there is one class", "")
    if not first.release.shows_purity:
        matched = first.labels.decoder == "assignment"
        return _unjudged(taught.labels[taught.labels >= 0], leads, probabilities.shape[1], matched=matched)
    tally = first.release.tally
    seen = Signs() if tally is None else signs(tally, first.queries.sizes, num_records=num_records)
    found = _from_counts(rounds, taught, leads, elsewhere=seen.gathered is not None)
    return replace(found, notices=tuple(_notices(seen, len(first.queries), classes, num_records)))


def _from_counts(rounds: Sequence[Round], taught: Taught, leads: float, *, elsewhere: bool) -> Verdict:
    """The verdict where a release shows how pure queries are.

    Args:
      leads: How often a query's label is the commonest class of its records.
      elsewhere: Whether the records lie elsewhere than the pool, so that most of its labels are of queries without any.
    """
    first, apart = rounds[0], _tells_apart(rounds, taught)
    if elsewhere:
        level, little = (Level.WEAK, "are weak") if apart else (Level.NOTHING, "may be noise")
        return replace(_nothing(f"Labels {little}: the records lie elsewhere than the pool", ""), level=level)
    if not apart:
        return _nothing(
            "Labels may be noise: within the noise, the released counts of all queries look alike",
            "Nothing shows that the student knows more than how common each class is. It may: through so much noise "
            "only large differences show. Spend more, ask fewer queries, gather more records, or use an encoder that "
            "tells the classes apart.",
        )
    probabilities = taught.probabilities[taught.labels >= 0]
    by_label = float(np.average(first.labels.probabilities.max(axis=1), weights=first.queries.sizes + 1e-9))
    by_student = float(probabilities.max(axis=1).mean())
    expected = (min(by_label, by_student), max(by_label, by_student))
    return _judged(expected, float(probabilities.mean(axis=0).max()), leads, by_label)


def _unjudged(labels: Ints, leads: float, num_classes: int, *, matched: bool) -> Verdict:
    """The verdict on a release without counts: whether noise flips labels is known, how pure queries are is not."""
    if len(np.unique(labels)) == 1:
        return _nothing("Labels say nothing: every query has the same one", "")
    why = "the release holds no counts, which would show how many of a query's records have its label"
    given = ", if each class has a query of its own" if matched else ""
    advice = (
        f"By the noise alone, {in_percent(leads, leads)} of the queries' labels are the commonest class of their "
        f"records{given}. How many records that is, the release cannot tell, and confidences take any share to be as "
        "likely. A mechanism that releases counts would show more."
    )
    if leads - 1 / num_classes < WEAK * (1 - 1 / num_classes):
        return replace(_nothing("Labels are weak: the noise is about as large as the votes", advice), level=Level.WEAK)
    return replace(_nothing(f"How good labels are is unknown: {why}", advice), level=Level.UNKNOWN)


def _notices(seen: Signs, num_queries: int, classes: Sequence[Any], num_records: int | None) -> Iterator[str]:
    if seen.gathered is not None:
        yield (
            f"The votes gather in about {seen.gathered:,} of {num_queries:,} queries, far fewer than the pool's "
            "samples do: do records and pool have the same units, scales and columns?"
        )
    for place in seen.unheard:
        yield (
            f"Class {shown(str(classes[place]))} has no votes beyond the noise: is it spelt as in the records, or that "
            "rare?"
        )
    if seen.voted is not None:
        yield (
            f"About {seen.voted:,} of {num_records:,} records voted, and labels speak for those alone: are the others' "
            "classes declared, their cells readable, their vectors near enough?"
        )


def _judged(expected: tuple[float, float], commonest: float | None, leads: float, by_label: float) -> Verdict:
    """Judge what labels add.

    Args:
      expected: Between which shares of the labels are right.
      leads: How often a query's label is the commonest class of its records.
      by_label: The share of a query's records that have its label.
    """
    base = commonest or 0.0
    gain = ((expected[0] + expected[1]) / 2 - base) / max(1 - base, 1e-9)
    # A query's label carries its records' share where it is right, and next to none of them where it is not.
    overlap = commonest is not None and 1 - min(1.0, by_label / max(leads, 1e-9)) >= 1 - leads
    if gain >= CLEAR:
        return Verdict(
            level=Level.CLEAR,
            headline="Labels are clear: the classes lie apart, well above the noise",
            advice="",
            expected=expected,
            commonest=commonest,
        )
    if overlap:
        advice = "More budget alone may change little: use an encoder, or columns, that tell the classes apart."
        apart = "hardly lie apart" if gain < WEAK else "overlap"
        why = f"the classes {apart} in these vectors"
    else:
        advice = "Spend more, ask fewer queries or gather more records."
        why = "the noise is about as large as the votes" if gain < WEAK else "the noise hides some of the votes"
    level = Level.WEAK if gain < WEAK else Level.FAIR
    return Verdict(
        level=level, headline=f"Labels are {level}: {why}", advice=advice, expected=expected, commonest=commonest
    )


def _nothing(headline: str, advice: str) -> Verdict:
    return Verdict(level=Level.NOTHING, headline=headline, advice=advice, expected=None, commonest=None)


def _tells_apart(rounds: Sequence[Round], taught: Taught) -> bool:
    """Whether any release shows that its queries differ; one without counts shows nothing against it."""
    learnt = taught.learnt
    if learnt is not None:
        # Held-out rows that are so much likelier, by fold, come by chance once in 1 / RARE times at most (Markov).
        # Class shifts and weights were fitted to them: one nat each (Akaike).
        fitted = taught.probabilities.shape[1] + len(learnt.weights)
        nats = (learnt.explained or 0.0) * sum(len(one.queries) for one in rounds) - fitted
        return any(one.separates for one in learnt.contrast) or nats / FOLDS > -math.log(RARE)
    tallies = [(one.release.tally, one) for one in rounds if one.release.tally is not None]
    return not tallies or any(
        contrast(tally, turnout(tally, one.queries.sizes).rates, one.graph).separates for tally, one in tallies
    )
