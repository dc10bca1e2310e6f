"""From private records to a student that learnt from counts, end to end, under every trust model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score, roc_auc_score

from recordwise import PrivateDistiller
from recordwise.arrays import Floats, Ints
from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded
from recordwise.students import TorchStudent
from recordwise.students.counts import TableStudent

NOISE = SeededNoise(0)


def _apart(size: int) -> tuple[Floats, Ints]:
    """Three classes, well apart in the plane; two loud directions more."""
    rng = seeded(size, "from counts")
    label = rng.integers(0, 3, size)
    place = np.array([[0, 0], [4, 0], [0, 4]])[label] + rng.normal(size=(size, 2))
    return np.hstack([place, rng.normal(size=(size, 2))]).astype(np.float32), label


POOL, RECORDS, TEST = _apart(600)[0], _apart(4001), _apart(1000)


@pytest.mark.parametrize(
    ("trust", "epsilon", "more"),
    [
        ("central", 0.5, {}),
        ({"name": "distributed", "parties": 3}, 0.5, {}),
        ("local", 4.0, {}),
        ("shuffle", 1.0, {"delta": 1e-5}),
        ("central", 0.5, {"rounds": 2}),
        ("central", 0.5, {"votes_per_record": 2}),
    ],
)
def test_every_trust_model_and_several_rounds_teach_from_counts(trust: Any, epsilon: float, more: Any) -> None:
    distiller = PrivateDistiller(epsilon=epsilon, trust=trust, num_queries=12, student="counts", **more)
    distiller.fit(*RECORDS, X_public=POOL, noise=NOISE)
    assert isinstance(distiller.student_, TableStudent)
    assert distiller.score(*TEST) > 0.9  # 0.96 at best


def test_a_network_joins_by_default_where_the_release_shows_that_lines_do_not_do() -> None:
    rng = seeded(0, "curved")
    pool, records, test = (rng.uniform(-2, 2, size=(size, 3)).astype(np.float32) for size in (1_500, 10_000, 2_000))
    labels, truth = ((np.abs(x[:, 0]) + 0.3 * x[:, 1] > 1).astype(np.int64) for x in (records, test))
    by_default, line = (
        PrivateDistiller(epsilon=1.0, num_queries=60, student=student).fit(records, labels, X_public=pool, noise=NOISE)
        for student in ("counts", {"name": "counts", "hidden": None})
    )
    assert by_default.student_.network is not None and line.student_.network is None
    assert by_default.score(test, truth) > max(0.95, line.score(test, truth) + 0.02)
    plain = PrivateDistiller(epsilon=0.5, num_queries=12).fit(*RECORDS, X_public=POOL, noise=NOISE)
    assert plain.student_.network is None


@pytest.mark.parametrize("other", ["linear", {"name": "mlp", "epochs": 20}, LogisticRegression(), "torch"])
def test_any_other_student_is_taught_what_the_counts_say(other: Any) -> None:
    if other == "torch":
        torch = pytest.importorskip("torch")
        other = TorchStudent(lambda: torch.nn.Linear(4, 3), epochs=60, rate=0.03)
    student = {"name": "counts", "teaches": other}
    distiller = PrivateDistiller(epsilon=0.5, num_queries=12, student=student)
    distiller.fit(*RECORDS, X_public=POOL, noise=NOISE)
    assert not isinstance(distiller.student_, TableStudent)
    assert distiller.score(*TEST) > 0.9


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        ({"teaches": "linear", "class_weight": "balanced"}, "must be left out where another student is taught"),
        ({"threshold": 0.3}, "threshold must lie in"),
        ({"class_weight": [1, 2]}, "class_weight must hold one weight for each of"),
        ({"teaches": "oracle"}, "student must be one of"),
        ({"hidden": 0}, "hidden must be"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_paid(settings: Any, rule: str) -> None:
    distiller = PrivateDistiller(epsilon=0.5, num_queries=12, student={"name": "counts", **settings})
    with pytest.raises(InvalidInput, match=rule):
        distiller.fit(*RECORDS, X_public=POOL, noise=NOISE)
    assert not getattr(distiller, "rounds_", ())


def _imbalanced(size: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """94 : 6 in rounded columns, so that records equal pool rows by coincidence; the common class lies denser."""
    rare = rng.random(size) < 0.06
    x = rng.normal(size=(size, 8)) * np.where(rare[:, None], 1.0, 0.5)
    x[:, :3] += 1.3 * rare[:, None]
    return (x * 1.7).round().astype(np.float32), rare.astype(np.int64)


def test_a_rare_class_is_found_and_more_budget_helps_though_copies_abstain() -> None:
    rng = seeded(0, "imbalanced")
    (pool, pool_labels), records, (test, truth) = (_imbalanced(size, rng) for size in (4_000, 20_000, 10_000))
    rows = {row.tobytes() for row in pool + 0.0}
    copies = np.array([row.tobytes() in rows for row in records[0] + 0.0])
    assert 0.15 < copies.mean() < 0.6 and copies[records[1] == 0].mean() > 3 * copies[records[1] == 1].mean()

    best = LogisticRegression().fit(pool, pool_labels)
    areas, recalls = [], []
    for epsilon in (0.05, 1.0):
        distiller = PrivateDistiller(
            epsilon=epsilon, num_queries=40, student="counts", records={"overlap": "abstain"}, classes=[1, 0]
        )
        distiller.fit(*records, X_public=pool, noise=NOISE)
        assert list(distiller.classes_) == [1, 0]  # as declared
        areas.append(roc_auc_score(truth, distiller.predict_proba(test)[:, 0]))
        recalls.append(recall_score(truth, distiller.predict(test)))
    cells, soft = distiller.rounds_[0].release.estimate, distiller.rounds_[0].labels.probabilities
    common = (cells[:, 1] > 400) & (cells[:, 0] < 20)  # votes that are missing are not read as rare ones
    assert common.any() and soft[common, 0].max() < 0.1
    assert areas[1] > areas[0] - 0.005
    assert areas[1] > roc_auc_score(truth, best.predict_proba(test)[:, 1]) - 0.02
    assert recalls[1] > recall_score(truth, best.predict(test)) - 0.05
