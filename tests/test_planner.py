"""What the planner predicts, against what runs on real data measure."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits

from recordwise.data import Rule, load, parts_of
from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.planner import plan, predict
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.votes import Ballot

POINTS = 0.06  # how far a prediction may lie from the mean of a few runs, given the right guess of purity


def purity_of(queries: object, truth: np.ndarray, num_classes: int) -> float:
    cells = np.zeros((len(queries), num_classes))  # type: ignore[arg-type]
    np.add.at(cells, (queries.owner, truth), 1)  # type: ignore[attr-defined]
    return float(cells.max(axis=1).sum() / len(truth))


@pytest.mark.parametrize(("epsilon", "s"), [(0.3, 20), (1.0, 40), (4.0, 100)])
def test_predictions_hold_on_digits(epsilon: float, s: int) -> None:
    digits = load_digits()
    order = seeded(0, "planner").permutation(len(digits.data))
    pool, records = order[:800], order[800:]
    measured, purity = [], []
    for seed in range(5):
        fitted = PrivateDistiller(epsilon, encoder="pca", num_queries=s, random_state=seed)
        fitted.fit(digits.data[records], digits.target[records], X_public=digits.data[pool])
        measured.append(float((fitted.pool_labels_ == digits.target[pool]).mean()))
        purity.append(purity_of(fitted.rounds_[0].queries, digits.target[pool], 10))
    terms = Terms(epsilon=Fraction(str(epsilon)))
    told = predict(
        terms,
        Ballot(num_queries=s, num_classes=10),
        num_records=len(records),
        purity=float(np.mean(purity)),
        at_queries=s,
        pool_size=len(pool),
    )
    # Both sides are means of noisy runs: three standard errors of each are allowed on top.
    slack = POINTS + 3 * np.std(measured, ddof=1) / 5**0.5 + told.spread
    assert abs(told.label_accuracy - np.mean(measured)) < slack


@pytest.mark.real_data
def test_predictions_hold_on_adult() -> None:
    parts = parts_of(load("adult"), Rule.CLEAN)
    fitted = PrivateDistiller(0.5, num_queries=100)
    fitted.fit(parts.private.samples, parts.private.labels, X_public=parts.public.samples)
    truth = np.searchsorted(fitted.classes_, parts.public.labels)
    told = predict(
        Terms(epsilon=Fraction("0.5")),
        Ballot(num_queries=100, num_classes=2),
        num_records=len(parts.private),
        purity=purity_of(fitted.rounds_[0].queries, truth, 2),
        at_queries=100,
    )
    assert abs(told.label_accuracy - (fitted.pool_labels_ == truth).mean()) < POINTS


def test_more_budget_never_predicts_clearly_worse_labels() -> None:
    ballot = Ballot(num_queries=40, num_classes=10)
    told = [predict(Terms(epsilon=Fraction(e)), ballot, num_records=5000) for e in ("0.02", "0.1", "1")]
    for less, more in pairwise(told):
        assert more.label_accuracy > less.label_accuracy - 0.02
    assert told[0].noise_std == pytest.approx(5 * told[1].noise_std, rel=0.01)


def test_a_small_budget_asks_fewer_queries() -> None:
    few, many = (plan(Terms(epsilon=Fraction(e)), num_records=20_000, num_classes=10) for e in ("0.01", "1"))
    assert few.recommended.num_queries < many.recommended.num_queries
    assert few.recommended in few.considered


@pytest.mark.parametrize("trust", ["central", "distributed", "local", "shuffle"])
def test_every_trust_can_be_planned(trust: str) -> None:
    terms = Terms(epsilon=Fraction(4), delta=Fraction("1e-6"), trust=trust)  # type: ignore[arg-type]
    ballot = Ballot(num_queries=10, num_classes=5)
    told = predict(terms, ballot, num_records=20_000, purity=0.8)
    assert 0.3 < told.label_accuracy <= 1


def test_matching_is_planned_with_one_query_for_each_class() -> None:
    terms = Terms(epsilon=Fraction("0.02"), mechanism="matching")
    found = plan(terms, num_records=5000, num_classes=5, purity=0.9, at_queries=5)
    assert {one.num_queries for one in found.considered} == {5}
    assert found.recommended.label_accuracy > 0.5


def test_impossible_guesses_are_refused() -> None:
    with pytest.raises(InvalidInput, match="purity"):
        predict(Terms(epsilon=Fraction(1)), Ballot(num_queries=10, num_classes=10), num_records=100, purity=0.05)
    with pytest.raises(InvalidInput, match="num_queries"):
        plan(Terms(epsilon=Fraction(1)), num_records=100, num_classes=2, num_queries=[50], pool_size=20)
    with pytest.raises(InvalidInput, match="num_classes must be >= 2"):
        plan(Terms(epsilon=Fraction(1)), num_records=100, num_classes=1)
