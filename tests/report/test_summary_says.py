"""A run says on what its guarantee rests where an encoder could only be checked."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA

from recordwise.distiller import PrivateDistiller
from recordwise.encoders import Manner
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded
from recordwise.report import summarize

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


def test_a_release_that_tells_nothing_is_said_to() -> None:
    # One table in twenty seems to tell something by chance, so the noise is replayable.
    alike = PrivateDistiller(2.0, num_queries=6, classes=[0, 1], encoder="scaler")
    labels = np.arange(120) % 2  # nothing to do with the samples
    alike.fit(X[:120], labels, X_public=X[120:], noise=SeededNoise(0))
    assert "all queries look alike" in summarize(alike, X[120:], name="alike").as_text()
    assert "look alike" not in told("scaler")[1]
