"""Neighbouring data sets through the whole pipeline: encoder, queries, votes, connection rule.

A protocol's claim is about votes; that a record's votes depend on nothing but the record is the pipeline's. Here a
distiller is run again on data sets that differ in one record, with the releases of the first run put in place of its
own. Then the exact tallies may differ by what the ballot declares, and nothing else may differ at all: whatever a run
publishes must be a function of the public pool and of the releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from recordwise import pipeline
from recordwise.data import Samples
from recordwise.data.cells import word_of
from recordwise.data.samples import rows
from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.hashing import digest, fingerprint
from recordwise.pipeline import Question
from recordwise.privacy.guarantee import Neighbours, members
from recordwise.privacy.noise import SystemNoise
from recordwise.progress import part
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import Release
from recordwise.randomness import seeded
from recordwise.records import as_labels

NO_CLASS = "a class nobody declared"
FIRST = 0.1  # of the work, about: the run that the others are compared with
FAR = 1e4  # how many times as far out as any sample an outlier lies


@dataclass(frozen=True, kw_only=True)
class Change:
    """One neighbouring data set, and what came of it.

    Attributes:
      moved: The L1 distance of the exact tallies, the largest of all rounds; None where the run refused the data, which
        nobody paid for and which tells something about a record.
      allowed: What the ballot declares for this kind of neighbours.
      changed: Published things that were not the same.
    """

    name: str
    moved: int | None
    allowed: int
    changed: tuple[str, ...] = ()

    @property
    def violated(self) -> bool:
        return bool(self.changed) or self.moved is None or self.moved > self.allowed


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayResult:
    """Every neighbour that was tried. The protocols are those of the run, for an audit of their own."""

    neighbours: Neighbours
    changes: tuple[Change, ...]
    protocols: tuple[Protocol[Any], ...]
    what: str = "data sets"

    def __post_init__(self) -> None:
        members(self, neighbours=Neighbours)

    @property
    def violated(self) -> bool:
        return any(change.violated for change in self.changes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "neighbours": str(self.neighbours),
            "violated": self.violated,
            "changes": [{**vars(change), "changed": list(change.changed)} for change in self.changes],
        }

    def as_text(self) -> str:
        verdict = "VIOLATED" if self.violated else "not violated"
        lines = [f"replay of {len(self.changes)} neighbouring {self.what} through the pipeline: {verdict}"]
        for change in self.changes:
            moved = "REFUSED" if change.moved is None else f"tally moved by {change.moved} of {change.allowed} allowed"
            public = f"; CHANGED: {', '.join(change.changed)}" if change.changed else ""
            lines.append(f"  - {change.name}: {moved}{public}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class _Run:
    """One run: exact tallies per round (private, never shown), what it published, and its releases."""

    tallies: list[NDArray[np.int64]]
    published: dict[str, str]
    releases: dict[int, Release]
    protocols: tuple[Protocol[Any], ...]


def replay(distiller: PrivateDistiller, X: Samples, y: ArrayLike, *, X_public: Samples, seed: int = 0) -> ReplayResult:
    """Run a distiller's settings on (X, y) and on its neighbours, and compare.

    Nothing is charged and nothing is kept: the runs have no ledger and no folder.

    Args:
      seed: Chooses the records that are exchanged; experiment randomness, not noise.
    """
    labels = np.asarray(as_labels(y, len(X)))
    if distiller.classes is None:
        classes = distiller.settings.public_classes(labels)
        distiller = clone(distiller, safe=False).set_params(classes=classes)
    with part(0, FIRST):
        first = _run(distiller, X, labels, X_public, {})
    ballot = first.protocols[0].ballot
    relation = first.protocols[0].guarantee.neighbours
    if relation is Neighbours.REPLACE:
        # Here "auto" may look at the number of records, which is public; tallies of n and of n ± 1 records can be
        # compared only if both ask as many queries.
        distiller = clone(distiller, safe=False).set_params(num_queries=ballot.num_queries)
    changes = []
    near = partial(_neighbours, X, labels, X_public, distiller.classes, seed)
    total = sum(1 for _ in near())  # each is a copy of all records: they are made one at a time
    for number, (name, kind, samples, targets) in enumerate(near()):
        allowed = ballot.cells_changed(kind)
        try:
            with part(FIRST, 1.0), part(number, number + 1, total):
                other = _run(distiller, samples, targets, X_public, first.releases)
        except InvalidInput:
            changes.append(Change(name=name, moved=None, allowed=allowed))
            continue
        changed = _differences(first.published, other.published)
        moved = _moved(first, other)
        # Under replace-one the number of records is public, so what follows from it may change when one is added.
        if kind is not relation and kind is not Neighbours.REPLACE:
            changed = ()
        changes.append(Change(name=name, moved=moved, allowed=allowed, changed=changed))
    return ReplayResult(neighbours=relation, changes=tuple(changes), protocols=first.protocols)


def _run(
    distiller: PrivateDistiller, X: Samples, y: NDArray[Any], X_public: Samples, releases: dict[int, Release]
) -> _Run:
    tallies: list[NDArray[np.int64]] = []
    protocols: list[Protocol[Any]] = []
    kept: dict[int, Release] = {}
    account = replace(distiller.settings.account, ledger=None, run_dir=None)
    watched = clone(distiller, safe=False).set_params(account=account)
    run = watched.prepare(X, y, X_public=X_public, noise=SystemNoise())

    def voters(question: Question) -> Release:
        votes = pipeline.vote(run.records, question)
        tallies.append(votes.counts())
        protocols.append(question.protocol)
        admitted = run.account.admit(votes, question.protocol, whose=run.records.fingerprint)
        fresh = pipeline.release(admitted, question.protocol, run.noise, parties=run.parties, senders=run.senders)
        first = releases.get(question.round, fresh)
        kept[question.round] = first if first.ballot == fresh.ballot else fresh  # another ballot is a finding by itself
        return kept[question.round]

    watched.fit_with(voters, run.pool, run.design, run.account, run.classes)
    published = {
        "encoder": fingerprint(watched.encoder_),
        "classes": fingerprint(watched.classes_),
        "guarantee": str(watched.guarantee_),
        "labels of the pool": digest(watched.pool_places_),
        "soft labels of the pool": digest(watched.pool_probabilities_),
        "student's answers": fingerprint(watched.predict(X_public)),
    }
    for number, (one, protocol) in enumerate(zip(watched.rounds_, protocols, strict=True), start=1):
        published[f"queries of round {number}"] = digest(one.queries.vectors)
        published[f"protocol of round {number}"] = repr(protocol)
    return _Run(tallies, published, kept, tuple(protocols))


def _differences(one: dict[str, str], other: dict[str, str]) -> tuple[str, ...]:
    return tuple(key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key))


def _moved(one: _Run, other: _Run) -> int:
    """The largest change of a tally, over the rounds until the two runs ask different things."""
    moved = 0
    for number, (a, b) in enumerate(zip(one.tallies, other.tallies, strict=True), start=1):
        asked = {f"queries of round {number}", f"protocol of round {number}"}
        if asked & set(_differences(one.published, other.published)):
            break
        moved = max(moved, int(np.abs(a - b).sum()))
    return moved


def _neighbours(
    X: Samples, y: NDArray[Any], X_public: Samples, classes: Any, seed: int
) -> Iterator[tuple[str, Neighbours, Samples, NDArray[Any]]]:
    """Data sets one record away from (X, y): ordinary ones, and those that break rules which look at other records."""
    rng = seeded(seed, "audit", "replay")
    n = len(y)
    at, twin = (int(row) for row in rng.choice(n, size=2, replace=False))
    everyone = np.arange(n)

    def swap(row: int, by: Samples, label: Any) -> tuple[Samples, NDArray[Any]]:
        changed = y.copy()
        changed[row] = label
        return _put(X, row, by), changed

    other_label = _other_label(y, at, classes)
    yield "a record takes another label", Neighbours.REPLACE, *swap(at, rows(X, np.array([at])), other_label)
    yield "a record becomes another's duplicate", Neighbours.REPLACE, *swap(at, rows(X, np.array([twin])), y[twin])
    for name, sample in _strange_samples(X, X_public, twin):
        yield f"a record becomes {name}", Neighbours.REPLACE, *swap(at, sample, other_label)
    for name, label in (("a class nobody declared", NO_CLASS), ("no class", None)):
        strange = y.astype(object)
        strange[at] = label
        yield f"a record takes {name}", Neighbours.REPLACE, X, strange
    for name, row in (("the first record", 0), ("the last record", n - 1), ("a record", at)):
        rest = np.delete(everyone, row)
        yield f"{name} is removed", Neighbours.ADD_REMOVE, rows(X, rest), y[rest]
    more = np.append(everyone, twin)
    doubled, with_twin = rows(X, more), y[more]
    yield "a duplicate is added", Neighbours.ADD_REMOVE, doubled, with_twin
    for name, sample in _strange_samples(X, X_public, twin):
        yield f"{name} is added", Neighbours.ADD_REMOVE, _put(doubled, n, sample), with_twin


def _strange_samples(X: Samples, X_public: Samples, row: int) -> Iterator[tuple[str, Samples]]:
    """One sample each: outliers for numbers, a sample between two of the pool, gaps, an empty or endless text."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "iuf":
        samples, pool = X, np.asarray(X_public)
        whole = np.issubdtype(samples.dtype, np.integer)
        with np.errstate(all="ignore"):
            largest = float(np.nan_to_num(np.abs(samples.astype(np.float64)), posinf=0).max(initial=0))
        most = np.iinfo(samples.dtype).max if whole else FAR * (largest + 1)
        yield "an outlier", np.full_like(samples[:1], most)
        yield "an outlier on the other side", np.full_like(samples[:1], 0 if whole else -most)
        if not whole:
            yield "a gap", np.full_like(samples[:1], np.nan)
        if pool.shape[1:] == samples.shape[1:]:
            middle = (pool[:1].astype(np.float64) + pool[-1:].astype(np.float64)) / 2
            yield "the middle of two pool samples", middle.astype(samples.dtype)
        return
    one = rows(X, np.array([row]))
    if hasattr(X, "iloc"):
        width = X.shape[1]
    elif isinstance(one[0], str):
        yield "an empty text", [""]
        yield "an endless text", [" ".join(str(text) for text in list(X)[:50]) * 20]
        yield "no text", [None]
        return
    else:
        width = 0 if np.ndim(one[0]) != 1 else len(one[0])
    for name, cell in (("a row of gaps", None), ("a row of words", "A"), ("a row of outliers", 1e300)) if width else ():
        yield name, [[cell] * width]


def _put(X: Samples, row: int, sample: Samples) -> Samples:
    if hasattr(X, "iloc"):
        changed = X.astype(object)
        changed.iloc[row] = sample.iloc[0].to_list() if hasattr(sample, "iloc") else sample[0]
        return changed
    if isinstance(X, np.ndarray):
        changed = X.copy()
        changed[row] = sample[0]
        return changed
    return [*X[:row], sample[0], *X[row + 1 :]]


def _other_label(y: NDArray[Any], row: int, classes: Any) -> Any:
    """A declared label, or a set of labels as large, that the record does not have."""
    if y.ndim == 2:
        return np.roll(y[row], 1)
    return next((one for one in np.asarray(classes) if word_of(one) != word_of(y[row])), y[row])
