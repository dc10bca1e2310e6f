"""How good class probabilities are: how often they are right, and whether they are true."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from recordwise.arrays import Floats, Ints
from recordwise.randomness import seeded

BINS = 15
REPEATS = 20  # of labels drawn from the probabilities themselves


def calibration_error(probabilities: Floats, labels: Ints) -> float:
    """Expected calibration error over equally wide bins of confidence."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    which = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(confidence[which == one].sum() - right[which == one].sum()) for one in range(BINS)]
    return float(sum(gaps) / len(labels))


def calibration_floor(probabilities: Floats) -> float:
    """What calibration error to expect of these probabilities if they were true: with few samples it is not zero."""
    rng = seeded(0, "calibration floor")
    below = probabilities.cumsum(axis=1)[:, :-1]
    drawn = [(rng.random(len(below))[:, None] > below).sum(axis=1) for _ in range(REPEATS)]
    return float(np.mean([calibration_error(probabilities, labels) for labels in drawn]))


def measured(probabilities: Floats, labels: Ints) -> dict[str, float]:
    """Accuracy, calibration and, for two classes, the area under the curve and how much of the second is found."""
    found = {
        "accuracy": float((probabilities.argmax(axis=1) == labels).mean()),
        "calibration_error": calibration_error(probabilities, labels),
        "calibration_floor": calibration_floor(probabilities),
    }
    if probabilities.shape[1] == 2:
        found["auc"] = float(roc_auc_score(labels, probabilities[:, 1]))
        found["recall"] = float((probabilities.argmax(axis=1) == 1)[labels == 1].mean())
    return {key: round(value, 4) for key, value in found.items()}


def columns(way: str, every: list[dict[str, float]]) -> dict[str, list[float]]:
    """A row's columns: what was measured one way, over draws."""
    return {f"{way}_{key}": [one[key] for one in every] for key in every[0]}
