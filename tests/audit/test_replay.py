"""Neighbouring data sets through the whole pipeline: healthy settings pass, pipelines that look around do not.

Nothing here is a matter of chance: the check compares exact tallies and digests.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from recordwise import pipeline
from recordwise.audit.replay import ReplayResult, replay
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import Scaler, encode
from recordwise.errors import InvalidInput
from recordwise.pipeline import Question
from recordwise.randomness import seeded
from recordwise.records import Records
from recordwise.run_settings import RunSettings
from recordwise.votes.ballot import Votes


def blobs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = seeded(seed, "blobs")
    classes = rng.integers(3, size=count)
    centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    return centres[classes] + rng.normal(size=(count, 2)), classes


X, Y = blobs(60, 1)
POOL, _ = blobs(80, 2)


# The quickest way from a release to a student; one run below takes the usual one.
QUICK = {"decoder": "argmax", "student": "linear"}


def distiller(kind: type[PrivateDistiller] = PrivateDistiller, **settings: Any) -> PrivateDistiller:
    return kind(**{"epsilon": 2.0, "num_queries": 6, "encoder": "scaler", "classes": [0, 1, 2], **QUICK, **settings})


def replayed(one: PrivateDistiller, labels: np.ndarray = Y) -> ReplayResult:
    return replay(one, X, labels, X_public=POOL)


@pytest.mark.parametrize(
    "settings",
    [
        {"decoder": "auto", "student": "counts"},
        {"neighbours": "add-remove"},
        {"rounds": 2, "votes_per_record": 2},
        {"trust": "local"},
        {"trust": {"name": "distributed", "parties": 3}},
        {"queries": {"max_distance": 1.0, "metric": "cosine"}},
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
    def a_tenth(terms: Any, pool: Any, *, num_records: int, **_: Any) -> int:
        return num_records // 10

    monkeypatch.setattr("recordwise.run_settings.recommend_queries", a_tenth)
    result = replayed(distiller(num_queries="auto"))
    removed = [change.moved for change in result.changes if change.name.endswith("is removed")]
    assert not result.violated and removed == [1, 1, 1]


def test_records_with_several_labels_are_replayed_too() -> None:
    labels = np.zeros((len(Y), 3), dtype=int)
    labels[np.arange(len(Y)), Y] = 1
    labels[::3, 0] = 1
    result = replayed(distiller(records={"labels_per_record": 2}, decoder="auto"), labels)
    assert not result.violated and {change.allowed for change in result.changes} == {2, 4}


class Learning(Scaler):  # type: ignore[misc]
    """Learns from the private records as well."""

    def __init__(self, seen: Any) -> None:
        super().__init__()
        self.seen = seen

    def fit(self, pool: Any, y: object = None) -> Any:
        return super().fit(np.vstack([pool, np.nan_to_num(self.seen)]))


class LearnsFromRecords(PrivateDistiller):
    """Fits its encoder on the private records as well."""

    def prepare(self, X: Any, y: Any, **given: Any) -> Any:
        run = super().prepare(X, y, **given)
        return replace(run, design=replace(run.design, encoder=Learning(X)))


class Voting(PrivateDistiller):
    """A pipeline with another step 4 than ours: a subclass's own `vote`."""

    def fit_with(self, voters: Any, *arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "vote", partial(self.vote, pipeline.vote))
            return super().fit_with(voters, *arguments)


class AssignsJointly(Voting):
    """Balances the connections over all records together: every query gets equally many."""

    def vote(self, ours: Any, records: Records, question: Question, progress: Any = None) -> Votes:
        queries = question.queries
        vectors = np.nan_to_num(encode(question.encoder, np.nan_to_num(records.samples)))
        places = np.repeat(np.arange(len(queries)), -(-len(vectors) // len(queries)))
        cost = ((vectors[:, None] - queries.vectors[None, places]) ** 2).sum(axis=2)
        taken = linear_sum_assignment(cost)[1]
        return Votes(question.protocol.ballot, places[taken][:, None].astype(np.int32), records.labels)


class MixesRecords(Voting):
    """Pairs a record's queries with the label of the record before it, so that two votes depend on every record."""

    def vote(self, ours: Any, records: Records, question: Question, progress: Any = None) -> Votes:
        own = ours(records, question, progress)
        return Votes(own.ballot, own.queries, np.roll(own.labels, 1, axis=0))


class AsksAboutRecords(PrivateDistiller):
    """Chooses its queries where the private records are."""

    def prepare(self, X: Any, y: Any, **given: Any) -> Any:
        self.seen_ = X
        return super().prepare(X, y, **given)

    def fit_with(self, voters: Any, *arguments: Any) -> Any:
        ours = pipeline.ask

        def ask(pool: Any, *more: Any) -> Any:
            queries = ours(pool, *more)
            queries.vectors[0] = np.nan_to_num(self.seen_).mean(axis=0)
            return queries

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "ask", ask)
            return super().fit_with(voters, *arguments)


class CountsRecords(PrivateDistiller):
    """Publishes how many records there are, although that is private when one may be added or removed."""

    def prepare(self, X: Any, y: Any, **given: Any) -> Any:
        ours = RunSettings.ballot

        def ballot(settings: RunSettings, pool: Any, classes: Any, *, num_records: int) -> Any:
            planned = ours(settings, pool, classes, num_records=num_records)
            return replace(planned, num_queries=6 + num_records % 2)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunSettings, "ballot", ballot)
            return super().prepare(X, y, **given)


class PeeksAtLabels(PrivateDistiller):
    """Teaches its student something that no release said."""

    def prepare(self, X: Any, y: Any, **given: Any) -> Any:
        self.told_ = [label for label in y if label in (0, 1, 2)]
        return super().prepare(X, y, **given)

    def fit_with(self, voters: Any, *arguments: Any) -> Any:
        fitted = super().fit_with(voters, *arguments)
        fitted.pool_probabilities_ = fitted.pool_probabilities_ + np.bincount(self.told_, minlength=3) / len(self.told_)
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


class RefusesRecords(Voting):
    """Says no, for free, when a record holds what it does not like."""

    def vote(self, ours: Any, records: Records, question: Question, progress: Any = None) -> Votes:
        if not np.isfinite(records.samples).all():
            raise InvalidInput("row 17 is not finite")
        return ours(records, question, progress)  # type: ignore[no-any-return]


def test_a_refusal_that_depends_on_a_record_is_a_violation() -> None:
    result = replayed(distiller(RefusesRecords))
    assert result.violated and "a record becomes a gap: REFUSED" in result.as_text()


def test_a_record_with_too_many_labels_abstains() -> None:
    labels = np.zeros((len(Y), 3), dtype=int)
    labels[np.arange(len(Y)), Y] = 1
    labels[5] = 1
    assert not replayed(distiller(records={"labels_per_record": 2}, decoder="auto"), labels).violated


def test_texts_and_tables_are_replayed() -> None:
    import pandas as pd

    words = np.array(["ward", "fever", "cough", "bone", "plaster", "fall", "skin", "rash", "itch"])
    rng = seeded(3, "texts")

    def texts(count: int, offset: int) -> list[str]:
        return [f"{' '.join(rng.choice(words, 4))} {offset + number}" for number in range(count)]

    plain = PrivateDistiller(2.0, num_queries=4, classes=[0, 1, 2], encoder="text", **QUICK)
    assert not replay(plain, texts(60, 0), Y, X_public=texts(50, 1000)).violated
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(Y == 0, "yes", "no")})
    pool = pd.DataFrame({"a": POOL[:, 0], "b": np.where(POOL[:, 1] > 3, "yes", "no")})
    assert not replay(PrivateDistiller(2.0, num_queries=4, encoder="table", **QUICK), table, Y, X_public=pool).violated


def test_a_replay_shows_no_tallies() -> None:
    result = replayed(distiller())
    assert "array" not in repr(result.changes) and set(result.as_dict()) == {"neighbours", "violated", "changes"}
