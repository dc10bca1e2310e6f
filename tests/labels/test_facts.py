from __future__ import annotations

import numpy as np
import pytest

from recordwise.errors import InvalidInput
from recordwise.labels.facts import Facts


@pytest.mark.parametrize(
    ("facts", "rule"),
    [
        ({"sizes": [[1, 2]]}, "sizes"),
        ({"sizes": [0, 0]}, "sizes"),
        ({"sizes": [1, -1]}, "sizes"),
        ({"sizes": [1, float("nan")]}, "sizes"),
        ({"sizes": [1, 1], "graph": np.zeros((3, 3))}, "graph must have shape"),
        ({"sizes": [1, 1], "graph": [[0, 1], [2, 0]]}, "symmetric"),
        ({"sizes": [1, 1], "graph": [[0, float("nan")], [float("nan"), 0]]}, "symmetric"),
        ({"sizes": [1, 1], "graph": [[0, -1], [-1, 0]]}, ">= 0"),
        ({"sizes": [1, 1], "num_records": 0}, "num_records"),
        ({"sizes": [1, 1], "class_shares": [0.5, 0.6]}, "class_shares"),
        ({"sizes": [1, 1], "class_shares": [0.0, 1.0]}, "class_shares"),
        ({"sizes": [1, 1], "class_shares": [float("nan"), 1.0]}, "class_shares"),
    ],
)
def test_what_breaks_a_rule_is_refused_in_one_line(facts, rule):
    with pytest.raises(InvalidInput, match=rule) as refusal:
        Facts(**facts)
    assert "\n" not in str(refusal.value)


def test_the_affinity_has_largest_eigenvalue_one_and_ignores_loops_and_lonely_queries():
    graph = np.array([[9.0, 2, 1, 0], [2, 0, 3, 0], [1, 3, 0, 0], [0, 0, 0, 0]])
    affinity = Facts(sizes=[1, 1, 1, 1], graph=graph).affinity
    assert np.linalg.eigvalsh(affinity)[-1] == pytest.approx(1)
    assert (np.diag(affinity) == 0).all()
    assert (affinity[3] == 0).all()
    assert (Facts(sizes=[1, 2]).affinity == 0).all()
