"""A further round is asked where the release says that it pays, and only there; what is not asked is not charged."""

from __future__ import annotations

import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordwise import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.labels import query_graph
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.students.again import WORTH, PossibleRound, expected_gain
from recordwise.votes import Ballot


def made(count: int, *path: str) -> tuple[np.ndarray, np.ndarray]:
    rng = seeded(0, *path)
    labels = rng.integers(0, 3, count)
    return (3 * np.eye(3, 4)[labels] + rng.normal(size=(count, 4))).astype(np.float32), labels


POOL, TRUE = made(300, "pool")
X, Y = made(600, "records")


def plan(epsilon: Fraction, seed: int) -> PossibleRound:
    queries = KMeansQueries(num_queries=20, seed=seed).ask(POOL)
    return PossibleRound(
        queries=queries,
        graph=query_graph(POOL, queries.vectors, metric=queries.metric),
        protocol=CentralLaplace(ballot=Ballot(num_queries=20, num_classes=3), epsilon=epsilon),
    )


def test_a_clear_round_is_worth_much_after_a_loud_one_and_little_after_a_clear_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same bits every time: records, votes and noise of the rehearsal are seeded. One rehearsal, to be quick."""
    monkeypatch.setattr("recordwise.students.again.REHEARSALS", 1)
    truth = 0.9 * np.eye(3)[TRUE] + 0.1 / 3
    loud, clear = plan(Fraction(1, 50), 0), plan(Fraction(5), 1)
    settings = {"num_records": 600, "seed": 0}
    assert expected_gain(POOL, truth, [loud, clear], **settings) > 20 * WORTH
    assert abs(expected_gain(POOL, truth, [clear, loud], **settings)) < 5 * WORTH
    flat = np.full((300, 3), 1 / 3)  # where classes do not lie apart, there is nothing to learn
    assert abs(expected_gain(POOL, flat, [clear, clear], **settings)) < WORTH


def test_a_rehearsal_takes_the_pool_s_room_however_many_records_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordwise.students.again.REHEARSALS", 1)
    truth = 0.9 * np.eye(3)[TRUE] + 0.1 / 3
    tracemalloc.start()
    try:
        gain = expected_gain(POOL, truth, [plan(Fraction(5), 0), plan(Fraction(5), 1)], num_records=10**6, seed=0)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.isfinite(gain) and most < 16e6  # labels of a million records alone would take 24 MB


def fitted(epsilon: float, noise: Any = None, **settings: Any) -> PrivateDistiller:
    model = PrivateDistiller(epsilon, classes=[0, 1, 2], num_queries=20, rounds="auto", **settings)
    return model.fit(X, Y, X_public=POOL, noise=noise or SeededNoise(0))


def gains(monkeypatch: pytest.MonkeyPatch, *given: float) -> list[dict[str, Any]]:
    """Lets each rehearsal come to the next of these; what each was asked about."""
    asked: list[dict[str, Any]] = []

    def rehearsed(pool: np.ndarray, truth: np.ndarray, plans: list[PossibleRound], **more: Any) -> float:
        asked.append({"truth": truth, "plans": plans, **more})
        return given[len(asked) - 1]

    monkeypatch.setattr("recordwise.pipeline.expected_gain", rehearsed)
    return asked


def test_rounds_go_on_while_they_pay_and_the_rehearsal_knows_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = gains(monkeypatch, WORTH, WORTH / 2)
    model = fitted(9.0)
    assert len(model.rounds_) == 2
    assert [len(one["plans"]) for one in asked] == [2, 3]
    for one in asked:
        assert one["truth"].shape == (300, 3)
        assert 500 < one["num_records"] < 700  # by the release: 600 voted
        assert {plan.protocol.guarantee.epsilon for plan in one["plans"]} == {3}


def test_no_more_than_three_rounds_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    gains(monkeypatch, 1.0, 1.0)
    assert len(fitted(9.0).rounds_) == 3


def test_what_is_not_asked_is_not_charged_then_or_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on in its folder remembers that it stopped: the second fit would find a gain, if it looked."""
    gains(monkeypatch, 0.0, 1.0, 1.0)
    account = {
        "ledger": tmp_path / "ledger.sqlite",
        "budget": "b",
        "budget_epsilon": 30.0,
        "run_dir": tmp_path / "run",
    }
    first = fitted(30.0, SystemNoise(), account=account)
    again = fitted(30.0, SystemNoise(), account=account)
    (entry,) = Ledger.open(tmp_path / "ledger.sqlite").history("b")
    assert entry.guarantee.epsilon == 10 and first.guarantee_.epsilon == 30
    assert len(first.rounds_) == len(again.rounds_) == 1
    assert np.array_equal(first.predict_proba(X), again.predict_proba(X))


def test_a_release_without_counts_cannot_tell_and_is_refused_before_it_is_paid() -> None:
    with pytest.raises(InvalidInput, match="rounds='auto' needs counts"):
        fitted(1.0, mechanism="permute-and-flip")
    with pytest.raises(InvalidInput, match="rounds must be a whole number"):
        PrivateDistiller(1.0, classes=[0, 1, 2], rounds="many").fit(X, Y, X_public=POOL)
