"""A run says on what its guarantee rests where an encoder could only be checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from recordwise.distiller import PrivateDistiller
from recordwise.encoders import Manner
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded
from recordwise.report import summarize
from recordwise.report.settled import settled

RNG = seeded(0, "encoding")
Y = RNG.integers(2, size=200)
X = RNG.normal(size=(200, 3)) + 4 * Y[:, None]


def told(encoder: object) -> tuple[str, str]:
    fitted = PrivateDistiller(2.0, num_queries=6, classes=[0, 1], encoder=encoder)
    fitted.fit(X[:120], Y[:120], X_public=X[120:])
    summary = summarize(fitted, X[120:], name="encoding")
    return summary.encoding, summary.as_text()


def test_an_encoder_that_was_checked_and_not_proved_is_said_to_be() -> None:
    ours, text = told("scaler")
    assert ours == Manner.EXACT and "not proved" not in text
    theirs, text = told(PCA(2))
    assert ("not proved" in text) == (theirs == Manner.CHECKED)


@pytest.mark.parametrize(
    ("student", "words"),
    [
        ({"name": "linear", "class_weight": {1: 10}}, "class weights: 1 10, 0 1"),
        ({"name": "counts", "class_weight": [10, 1]}, "class weights: 1 10, 0 1"),
        ({"name": "counts", "threshold": 0.3}, "threshold: it answers 0 where its probability is at least 0.3"),
        (LogisticRegression(class_weight={1: 10}), "class weights: 1 10, 0 1"),
        (LogisticRegression(class_weight="balanced"), "class weights: balanced"),
        ("linear", None),
        ("counts", None),
    ],
    ids=str,
)
def test_weights_and_a_threshold_are_said_with_the_declared_names(student: Any, words: str | None) -> None:
    fitted = PrivateDistiller(2.0, num_queries=6, classes=[1, 0], student=student)
    fitted.fit(X[:120], Y[:120], X_public=X[120:], noise=SeededNoise(0))
    said = settled(fitted)["student"]
    assert said.partition("; ")[2] == (words or "") and "class_weight=" not in said and "threshold=" not in said


def test_a_release_that_tells_nothing_is_said_to() -> None:
    # One table in twenty seems to tell something by chance, so the noise is replayable.
    alike = PrivateDistiller(2.0, num_queries=6, classes=[0, 1], encoder="scaler")
    labels = np.arange(120) % 2  # nothing to do with the samples
    alike.fit(X[:120], labels, X_public=X[120:], noise=SeededNoise(0))
    assert "all queries look alike" in summarize(alike, X[120:], name="alike").as_text()
    assert "look alike" not in told("scaler")[1]
