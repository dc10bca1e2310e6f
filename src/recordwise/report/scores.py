"""A student on a test set: how often it is right, beside what needs no student, and class by class.

The test set is outside the guarantee: these figures are computed from it exactly. Whoever publishes them publishes that
much about it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from recordwise.arrays import Bools
from recordwise.data import Samples, rows
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import encode
from recordwise.errors import InvalidInput
from recordwise.records import as_labels, read_labels

NORMAL = 1.959963984540054  # of 95 %
SPELLED = 20  # classes that a text lists one by one


@dataclass(frozen=True, kw_only=True)
class ClassScore:
    """One class on the test set.

    Attributes:
      samples: How many of the test samples are of it.
      found: Of these, the share that the student names it for (recall); None where there are none.
      right: Of what the student names it for, the share that is of it (precision); None where it never does.
    """

    name: str
    samples: int
    found: float | None
    right: float | None


@dataclass(frozen=True, kw_only=True)
class Scores:
    """A student on a test set.

    Attributes:
      accuracy: The share that is right; where samples have several labels, all of them.
      interval: In which the accuracy lies on other samples like these, 95 times in 100 (Wilson's score interval).
      majority: What naming the commonest class, or set of classes, everywhere would get right.
      balanced: The mean over the classes of what is found of each; None where samples have several labels.
      auc: Of two classes, the area under the ROC curve; None elsewhere, or where only one class is there.
    """

    samples: int
    accuracy: float
    interval: tuple[float, float]
    majority: float
    balanced: float | None
    auc: float | None
    classes: tuple[ClassScore, ...]

    def as_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        return plain | {"interval": list(self.interval), "classes": list(plain["classes"])}


def scores_of(distiller: PrivateDistiller, samples: Samples, labels: Any) -> Scores:
    """The figures of a fitted distiller's student.

    A sample that the encoder makes no finite vector of counts as wrong: the run is paid for by now, and ends well. So
    does one whose label is no class.

    Args:
      labels: The samples' classes, read as those of records are; a 0/1 matrix where a sample may have several.
    """
    names, model = distiller.classes_, distiller.published()
    several = distiller.settings.records.labels_per_record > 1
    held = as_labels(labels, len(samples))
    if not len(held):
        raise InvalidInput("a test set must hold at least one sample, got 0")
    true = np.asarray(held) == 1 if several else read_labels(held, names, 1)[0] == np.arange(len(names))
    answered: Bools = np.ones(len(held), dtype=bool)
    probabilities = None
    said = np.zeros((len(held), len(names)), dtype=bool)
    try:
        named, probabilities = model.answers(samples)
    except InvalidInput:
        vectors = encode(distiller.encoder_, samples, manner=distiller.manner_)
        answered = np.asarray(np.isfinite(vectors).all(axis=1))
        named = model.predict(rows(samples, np.flatnonzero(answered))) if answered.any() else names[:0]
    said[answered] = named == 1 if several else named[:, None] == names
    right = (true == said).all(axis=1) & answered if several else (true & said).any(axis=1)
    return _figures(true, said, right, names, several=several, probabilities=probabilities)


def as_text(accuracy: float, scores: Mapping[str, Any]) -> list[str]:
    """The figures as lines, from their plain values."""
    low, high = scores["interval"]
    lines = [
        f"test set: {_percent(accuracy)} of {scores['samples']:,} samples right (95 % interval {100 * low:.1f} to "
        f"{_percent(high)}); naming the commonest class everywhere: {_percent(scores['majority'])}"
    ]
    more = [("balanced accuracy", scores["balanced"]), ("area under the ROC curve", scores["auc"])]
    lines += [f"  {name}: {_percent(value)}" for name, value in more if value is not None]
    named = scores["classes"][:SPELLED]
    width = max((len(one["name"]) for one in named), default=0)
    lines += [
        f"  {one['name']}: {'':<{width - len(one['name'])}}{one['samples']:>6,} samples, {_percent(one['found']):>7} "
        f"of them found, {_percent(one['right']):>7} right where named so"
        for one in named
    ]
    if len(scores["classes"]) > SPELLED:
        lines.append(f"  and {len(scores['classes']) - SPELLED} more classes, in the report")
    return lines


def _figures(
    true: Bools,
    said: Bools,
    right: Bools,
    names: NDArray[Any],
    *,
    several: bool,
    probabilities: NDArray[np.float64] | None,
) -> Scores:
    """From (n, C) what samples are and what they were said to be."""
    _, times = np.unique(true, axis=0, return_counts=True)
    found = [_share(true[:, place] & said[:, place], true[:, place]) for place in range(len(names))]
    auc = None
    if not several and len(names) == 2 and true.any(axis=0).all() and probabilities is not None:
        auc = float(roc_auc_score(true[:, 1], probabilities[:, 1]))
    present = [one for one in found if one is not None]
    return Scores(
        samples=len(true),
        accuracy=float(right.mean()),
        interval=_wilson(int(right.sum()), len(right)),
        majority=float(times.max() / len(true)),
        balanced=None if several or not present else float(np.mean(present)),
        auc=auc,
        classes=tuple(
            ClassScore(
                name=str(name),
                samples=int(true[:, place].sum()),
                found=found[place],
                right=_share(true[:, place] & said[:, place], said[:, place]),
            )
            for place, name in enumerate(names.tolist())
        ),
    )


def _share(part: Bools, whole: Bools) -> float | None:
    return float(part.sum() / whole.sum()) if whole.any() else None


def _wilson(right: int, tries: int) -> tuple[float, float]:
    share, square = right / tries, NORMAL**2 / tries
    middle = (share + square / 2) / (1 + square)
    half = NORMAL / (1 + square) * math.sqrt(share * (1 - share) / tries + square / (4 * tries))
    return max(0.0, middle - half), min(1.0, middle + half)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
