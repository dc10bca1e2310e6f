"""Neighbouring data sets through the whole pipeline: healthy settings pass, pipelines that look around do not.

Nothing here is a matter of chance: the check compares exact tallies and digests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from recordwise.audit.replay import ReplayResult, replay
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import encode, encoder_from
from recordwise.errors import InvalidInput
from recordwise.streams import stream
from recordwise.votes.ballot import Votes


def blobs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = stream(seed, "blobs")
    classes = rng.integers(3, size=count)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    return centres[classes] + rng.normal(size=(count, 2)), classes


X, Y = blobs(60, 1)
POOL, _ = blobs(80, 2)


def distiller(kind: type[PrivateDistiller] = PrivateDistiller, **settings: Any) -> PrivateDistiller:
    return kind(**{"epsilon": 2.0, "num_queries": 6, "encoder": "scaler", "classes": [0, 1, 2], **settings})


def replayed(one: PrivateDistiller, labels: np.ndarray = Y) -> ReplayResult:
    return replay(one, X, labels, X_public=POOL)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"neighbours": "add-remove"},
        {"rounds": 2, "votes_per_record": 2},
        {"trust": "local"},
        {"trust": "distributed", "parties": 3},
        {"max_distance": 1.0, "metric": "cosine"},
    ],
    ids=str,
)
def test_healthy_pipelines_keep_the_declared_sensitivity(settings: dict[str, Any]) -> None:
    result = replayed(distiller(**settings))
    assert not result.violated
    assert len(result.changes) == 16
    assert all(change.moved is not None for change in result.changes)
    kr = settings.get("votes_per_record", 1)
    assert max(change.moved or 0 for change in result.changes) == 2 * kr  # the bound is met, so the check is not idle
    assert len(result.protocols) == settings.get("rounds", 1)


def test_tallies_are_compared_although_a_plan_depends_on_the_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    def a_tenth(terms: Any, *, num_records: int, **_: Any) -> int:
        return num_records // 10

    monkeypatch.setattr("recordwise.distiller.recommend_queries", a_tenth)
    result = replayed(distiller(num_queries="auto"))
    removed = [change.moved for change in result.changes if change.name.endswith("is removed")]
    assert not result.violated and removed == [1, 1, 1]


def test_records_with_several_labels_are_replayed_too() -> None:
    labels = np.zeros((len(Y), 3), dtype=int)
    labels[np.arange(len(Y)), Y] = 1
    labels[::3, 0] = 1
    result = replayed(distiller(labels_per_record=2), labels)
    assert not result.violated and {change.allowed for change in result.changes} == {2, 4}


class LearnsFromRecords(PrivateDistiller):
    """Fits its encoder on the private records as well."""

    def fit(self, X: Any, y: Any, *, X_public: Any) -> Any:
        self.seen_ = X
        return super().fit(X, y, X_public=X_public)

    def _fit_encoder(self, X_public: Any) -> Any:
        both = np.vstack([X_public, self.seen_])
        return encoder_from(self.encoder, both, seed=0).fit(both)


class AssignsJointly(PrivateDistiller):
    """Balances the connections over all records together: every query gets equally many."""

    def _vote(self, X: Any, labels: Any, queries: Any, ballot: Any, **more: Any) -> Votes:
        vectors = np.nan_to_num(encode(self.encoder_, np.nan_to_num(X)))
        places = np.repeat(np.arange(len(queries)), -(-len(vectors) // len(queries)))
        cost = ((vectors[:, None] - queries.vectors[None, places]) ** 2).sum(axis=2)
        taken = linear_sum_assignment(cost)[1]
        return Votes(ballot, places[taken][:, None].astype(np.int32), labels)


class MixesRecords(PrivateDistiller):
    """Pairs a record's queries with the label of the record before it, so that two votes depend on every record."""

    def _vote(self, X: Any, labels: Any, queries: Any, ballot: Any, **more: Any) -> Votes:
        own = super()._vote(X, labels, queries, ballot, **more)
        return Votes(ballot, own.queries, np.roll(own.labels, 1, axis=0))


class AsksAboutRecords(PrivateDistiller):
    """Chooses its queries where the private records are."""

    def fit(self, X: Any, y: Any, *, X_public: Any) -> Any:
        self.seen_ = X
        return super().fit(X, y, X_public=X_public)

    def _ask(self, pool: Any, material: Any, num_queries: int) -> Any:
        queries = super()._ask(pool, material, num_queries)
        queries.vectors[0] = encode(self.encoder_, self.seen_).mean(axis=0)
        return queries


class CountsRecords(PrivateDistiller):
    """Publishes how many records there are, although that is private when one may be added or removed."""

    def _num_queries(self, terms: Any, *, num_records: int, pool_size: int) -> int:
        return 6 + num_records % 2


class PeeksAtLabels(PrivateDistiller):
    """Teaches its student something that no release said."""

    def fit(self, X: Any, y: Any, *, X_public: Any) -> Any:
        fitted = super().fit(X, y, X_public=X_public)
        fitted.pool_chances_ = fitted.pool_chances_ + np.bincount(
            [label for label in y if label in (0, 1, 2)], minlength=3
        ) / len(y)
        return fitted


@pytest.mark.parametrize(
    ("kind", "settings", "changed"),
    [
        (LearnsFromRecords, {}, "encoder"),
        (AssignsJointly, {}, None),
        (MixesRecords, {}, None),
        (MixesRecords, {"neighbours": "add-remove"}, None),
        (AsksAboutRecords, {}, "queries of round 1"),
        (CountsRecords, {"neighbours": "add-remove"}, "protocol of round 1"),
        (PeeksAtLabels, {}, "soft labels of the pool"),
    ],
)
def test_pipelines_that_look_around_are_caught(
    kind: type[PrivateDistiller], settings: dict[str, Any], changed: str | None
) -> None:
    result = replayed(distiller(kind, **settings))
    assert result.violated and "VIOLATED" in result.as_text()
    if changed is None:
        assert any(change.moved is not None and change.moved > change.allowed for change in result.changes)
    else:
        assert any(changed in change.changed for change in result.changes)


class RefusesRecords(PrivateDistiller):
    """Says no, for free, when a record holds what it does not like."""

    def _vote(self, X: Any, labels: Any, queries: Any, ballot: Any, **more: Any) -> Votes:
        if not np.isfinite(X).all():
            raise InvalidInput("row 17 is not finite")
        return super()._vote(X, labels, queries, ballot, **more)


def test_a_refusal_that_depends_on_a_record_is_a_violation() -> None:
    result = replayed(distiller(RefusesRecords))
    assert result.violated and "a record becomes a gap: REFUSED" in result.as_text()


def test_a_record_with_too_many_labels_abstains() -> None:
    labels = np.zeros((len(Y), 3), dtype=int)
    labels[np.arange(len(Y)), Y] = 1
    labels[5] = 1
    assert not replayed(distiller(labels_per_record=2), labels).violated


def test_texts_and_tables_are_replayed() -> None:
    import pandas as pd

    words = np.array(["ward", "fever", "cough", "bone", "plaster", "fall", "skin", "rash", "itch"])
    rng = stream(3, "texts")

    def texts(count: int, offset: int) -> list[str]:
        return [f"{' '.join(rng.choice(words, 4))} {offset + number}" for number in range(count)]

    plain = PrivateDistiller(2.0, num_queries=4, classes=[0, 1, 2], encoder="text")
    assert not replay(plain, texts(60, 0), Y, X_public=texts(50, 1000)).violated
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(Y == 0, "yes", "no")})
    pool = pd.DataFrame({"a": POOL[:, 0], "b": np.where(POOL[:, 1] > 3, "yes", "no")})
    assert not replay(PrivateDistiller(2.0, num_queries=4, encoder="table"), table, Y, X_public=pool).violated


def test_a_replay_shows_no_tallies() -> None:
    result = replayed(distiller())
    assert "array" not in repr(result.changes) and set(result.as_dict()) == {"neighbours", "violated", "changes"}
