from __future__ import annotations

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from recordwise.errors import InvalidInput
from recordwise.students import TorchStudent, student_from


def test_classifiers_are_copied_and_seeded_modules_wrapped() -> None:
    own = make_pipeline(StandardScaler(), RandomForestClassifier())
    first, again, other = (student_from(own, seed=seed)[-1].random_state for seed in (1, 1, 2))
    assert first == again != other
    assert own[-1].random_state is None
    assert student_from(RandomForestClassifier(random_state=9), seed=1).random_state == 9
    assert isinstance(student_from(nn.Linear(2, 2), seed=0), TorchStudent)


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("tree", "student must be one of counts, linear, mlp, held, got 'tree'"),
        (
            {"name": "linear", "depth": 3},
            "student 'linear' has no setting 'depth', it has class_weight, max_iter",
        ),
        (None, "got None"),
        (StandardScaler(), "classifier with predict_proba"),
    ],
)
def test_other_students_are_refused(spec: object, rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        student_from(spec, seed=0)
