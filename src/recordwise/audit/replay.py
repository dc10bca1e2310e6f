"""Neighbouring data sets through the whole pipeline: encoder, queries, votes, connection rule.

A protocol's claim is about votes; that a record's votes depend on nothing but the record is the pipeline's. Here a
distiller is run again on data sets that differ in one record, with the releases of the first run put in place of its
own. Then the exact tallies may differ by what the ballot declares, and nothing else may differ at all: whatever a run
publishes must be a function of the public pool and of the releases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from recordwise.arrays import digest
from recordwise.data import Samples
from recordwise.data.samples import Kind, kind_of, rows
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import fingerprint
from recordwise.errors import InvalidInput
from recordwise.fits import uncounted
from recordwise.privacy.guarantee import Neighbours, members
from recordwise.protocols.protocol import Protocol
from recordwise.streams import stream
from recordwise.tally import Release

FAR = 1e4  # how many times as far out as any sample an outlier lies


@dataclass(frozen=True, kw_only=True)
class Change:
    """One neighbouring data set, and what came of it.

    Attributes:
      moved: The L1 distance of the exact tallies, the largest of all rounds; None where the run refused the data.
      allowed: What the ballot declares for this kind of neighbours.
      changed: Published things that were not the same.
    """

    name: str
    moved: int | None
    allowed: int
    changed: tuple[str, ...] = ()

    @property
    def violated(self) -> bool:
        return bool(self.changed) or (self.moved is not None and self.moved > self.allowed)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReplayResult:
    """Every neighbour that was tried. The protocols are those of the run, for an audit of their own."""

    neighbours: Neighbours
    changes: tuple[Change, ...]
    protocols: tuple[Protocol[Any], ...]

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
        lines = [f"replay of {len(self.changes)} neighbouring data sets through the pipeline: {verdict}"]
        for change in self.changes:
            moved = "refused" if change.moved is None else f"tally moved by {change.moved} of {change.allowed} allowed"
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
    labels = np.asarray(y)
    if distiller.classes is None:
        classes = np.arange(labels.shape[1]) if labels.ndim == 2 else np.unique(labels)
        distiller = clone(distiller, safe=False).set_params(classes=classes)
    first = _run(distiller, X, labels, X_public, {})
    ballot = first.protocols[0].ballot
    relation = first.protocols[0].guarantee.neighbours
    if relation is Neighbours.REPLACE:
        # Here "auto" may look at the number of records, which is public; tallies of n and of n ± 1 records can be
        # compared only if both ask as many queries.
        distiller = clone(distiller, safe=False).set_params(num_queries=ballot.num_queries)
    changes = []
    for name, kind, samples, targets in _neighbours(X, labels, X_public, distiller.classes, seed):
        allowed = ballot.cells_changed(kind)
        try:
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

    class Watched(type(distiller)):  # type: ignore[misc]  # whatever class is audited, its own methods run
        def _vote(self, *args: Any, **settings: Any) -> Any:
            votes = super()._vote(*args, **settings)
            tallies.append(votes.counts())
            return votes

        def _distil(self, X_public: Samples, gather: Any, **settings: Any) -> Any:
            def replayed(number: int, queries: Any, protocol: Protocol[Any], till: Any) -> Release:
                protocols.append(protocol)
                fresh = gather(number, queries, protocol, till)
                first = releases.get(number, fresh)
                kept[number] = first if first.ballot == fresh.ballot else fresh  # another ballot is a finding by itself
                return kept[number]

            return super()._distil(X_public, replayed, **settings)

    settings = clone(distiller, safe=False).get_params(deep=False)
    watched = Watched(**settings | {"ledger": None, "run_dir": None, "progress": None})
    with uncounted():  # nothing of it is released
        watched.fit(X, y, X_public=X_public)
    published = {
        "encoder": fingerprint(watched.encoder_),
        "classes": fingerprint(watched.classes_),
        "guarantee": str(watched.guarantee_),
        "labels of the pool": digest(watched.pool_labels_),
        "soft labels of the pool": digest(watched.pool_chances_),
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
    rng = stream(seed, "audit", "replay")
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
    for name, row in (("the first record", 0), ("the last record", n - 1), ("a record", at)):
        rest = np.delete(everyone, row)
        yield f"{name} is removed", Neighbours.ADD_REMOVE, rows(X, rest), y[rest]
    more = np.append(everyone, twin)
    doubled, with_twin = rows(X, more), y[more]
    yield "a duplicate is added", Neighbours.ADD_REMOVE, doubled, with_twin
    for name, sample in _strange_samples(X, X_public, twin):
        yield f"{name} is added", Neighbours.ADD_REMOVE, _put(doubled, n, sample), with_twin


def _strange_samples(X: Samples, X_public: Samples, row: int) -> Iterator[tuple[str, Samples]]:
    """One sample each: outliers for numbers, a sample between two of the pool, an empty or endless text."""
    kind = kind_of(X)
    if kind is Kind.TEXT:
        yield "an empty text", [""]
        yield "an endless text", [" ".join(list(X)[:50]) * 20]
    elif not hasattr(X, "iloc") and kind in (Kind.VECTORS, Kind.IMAGES):
        samples, pool = np.asarray(X), np.asarray(X_public)
        whole = np.issubdtype(samples.dtype, np.integer)
        most = np.iinfo(samples.dtype).max if whole else FAR * (np.abs(samples).max() + 1)
        yield "an outlier", np.full_like(samples[:1], most)
        yield "an outlier on the other side", np.full_like(samples[:1], 0 if whole else -most)
        middle = (pool[:1].astype(np.float64) + pool[-1:].astype(np.float64)) / 2
        yield "the middle of two pool samples", middle.astype(samples.dtype)


def _put(X: Samples, row: int, sample: Samples) -> Samples:
    if hasattr(X, "iloc"):
        import pandas as pd  # type: ignore[import-untyped]

        return pd.concat([X.iloc[:row], sample, X.iloc[row + 1 :]])
    if isinstance(X, np.ndarray):
        changed = X.copy()
        changed[row] = sample[0]
        return changed
    return [*X[:row], sample[0], *X[row + 1 :]]


def _other_label(y: NDArray[Any], row: int, classes: Any) -> Any:
    """A declared label, or a set of labels as large, that the record does not have."""
    if y.ndim == 2:
        return np.roll(y[row], 1)
    return next((one for one in np.asarray(classes) if one != y[row]), y[row])
