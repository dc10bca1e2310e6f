"""Figures on a test set, against scikit-learn's and against counting by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, precision_score, recall_score, roc_auc_score

from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded
from recordwise.report import summarize
from recordwise.report.scores import scores_of

RNG = seeded(0, "scores")
Y = RNG.choice(["a", "b"], size=500, p=[0.8, 0.2])
X = RNG.normal(size=(500, 3)) + 1.5 * (Y == "b")[:, None]


@pytest.fixture(scope="module")
def fitted() -> PrivateDistiller:
    one = PrivateDistiller(5.0, num_queries=8, classes=["a", "b"])
    return one.fit(X[:200], Y[:200], X_public=X[200:300], noise=SeededNoise(0))


def test_figures_are_scikit_learn_s(fitted: PrivateDistiller) -> None:
    test, truth = X[300:], Y[300:]
    said, found = fitted.predict(test), scores_of(fitted, test, truth)
    assert found.samples == 200 and found.accuracy == pytest.approx((said == truth).mean())
    assert found.majority == pytest.approx((truth == "a").mean())
    assert found.balanced == pytest.approx(balanced_accuracy_score(truth, said))
    assert found.auc == pytest.approx(roc_auc_score(truth == "b", fitted.predict_proba(test)[:, 1]))
    interval = binomtest(int((said == truth).sum()), 200).proportion_ci(0.95, method="wilson")
    assert found.interval == pytest.approx((interval.low, interval.high))
    for one in found.classes:
        assert one.samples == (truth == one.name).sum()
        assert one.found == pytest.approx(recall_score(truth, said, pos_label=one.name))
        assert one.right == pytest.approx(precision_score(truth, said, pos_label=one.name))


def test_a_sample_without_a_vector_or_of_no_class_is_wrong(fitted: PrivateDistiller) -> None:
    class Picky:
        """An encoder that makes nothing of large numbers."""

        def fit(self, pool: Any, y: object = None) -> Picky:
            return self

        def transform(self, samples: Any) -> Any:
            return np.where(np.abs(samples) < 50, samples, np.nan)

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return {}

        def set_params(self) -> Picky:
            return self

    one = PrivateDistiller(5.0, num_queries=8, classes=["a", "b"], encoder=Picky())
    one.fit(X[:200], Y[:200], X_public=X[200:300], noise=SeededNoise(0))
    test = X[300:].copy()
    whole, test[:50] = scores_of(one, test, Y[300:]), 99.0
    right = (one.predict(X[350:]) == Y[350:]).sum()
    assert scores_of(one, test, Y[300:]).accuracy == pytest.approx(right / 200) and whole.accuracy > right / 200
    assert scores_of(one, test, Y[300:]).auc is None
    nobody = np.full(200, 99.0)[:, None] * np.ones(3)
    assert scores_of(one, nobody, Y[300:]).accuracy == 0.0
    assert scores_of(fitted, X[300:302], ["neither", "a"]).accuracy in (0.0, 0.5)
    with pytest.raises(InvalidInput, match="at least one sample"):
        scores_of(fitted, X[:0], Y[:0])


def test_a_class_that_is_never_there_or_never_named_has_no_figure(fitted: PrivateDistiller) -> None:
    only = Y[300:] == "a"
    found = scores_of(fitted, X[300:][only], Y[300:][only])
    assert found.majority == 1.0 and found.auc is None and found.classes[1].found is None
    summary = summarize(fitted, X[200:300], name="x", test=(X[300:][only], Y[300:][only]))
    assert "test set: " in summary.as_text() and "–" in summary.as_text()


def test_sets_of_labels_are_right_as_a_whole() -> None:
    labels = np.stack([X[:, 0] > 0, X[:, 1] > 0, X[:, 2] > 0], axis=1).astype(int)
    one = PrivateDistiller(50.0, num_queries=20, records={"labels_per_record": 3}, classes=["x", "y", "z"])
    one.fit(X[:200], labels[:200], X_public=X[200:300], noise=SeededNoise(0))
    found = scores_of(one, X[300:], labels[300:])
    said = one.predict(X[300:])
    assert found.accuracy == pytest.approx((said == labels[300:]).all(axis=1).mean()) and found.balanced is None
    assert found.classes[0].found == pytest.approx(recall_score(labels[300:, 0], said[:, 0]))
    assert summarize(one, X[200:300], name="x").verdict["commonest"] is None
