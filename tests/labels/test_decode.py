from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from tests.labels.simulated import choices_of, matched_of, tally_of

import recordwise.labels
from recordwise.errors import InvalidInput
from recordwise.labels import decode
from recordwise.privacy.noise import DiscreteLaplace, Normal

LAW = DiscreteLaplace(10)


def test_the_package_exports_what_it_says():
    assert sorted(recordwise.labels.__all__) == recordwise.labels.__all__ or set(recordwise.labels.__all__) == {
        name for name in recordwise.labels.__all__ if hasattr(recordwise.labels, name)
    }


def test_auto_matches_when_queries_are_as_many_as_classes_and_is_the_field_otherwise():
    assert decode(tally_of(np.eye(3), LAW), sizes=np.ones(3), graph=None).decoder == "model-average"
    assert decode(tally_of(np.ones((4, 3)), LAW), sizes=np.ones(4), graph=None).decoder == "field"
    several = decode(tally_of(np.ones((4, 3)), LAW, r=2), sizes=np.ones(4), graph=None)
    assert several.decoder == "sets"


@pytest.mark.parametrize(
    ("release", "arguments", "rule"),
    [
        (tally_of(np.ones((2, 2)), LAW), {"decoder": "magic"}, "decoder must be one of auto, argmax"),
        (tally_of(np.ones((3, 2)), LAW), {}, "sizes must be those of the 3 queries, got 2"),
        (tally_of([[1.0, float("nan")], [0, 0]], LAW), {}, "estimate must be finite"),
        (choices_of([0, 2], 2, Fraction(1)), {}, "chosen must be one of 2 classes"),
        (matched_of([1, 1], Fraction(1)), {}, "chosen must be all different"),
        (tally_of(np.ones((2, 2)), LAW, r=2), {"decoder": "field"}, "decoder must be 'auto' or one of sets"),
        (tally_of(np.ones((2, 2)), Normal(1.0)), {"num_records": 0}, "num_records"),
        (
            tally_of(np.ones((2, 3)), LAW),
            {"decoder": "model-average"},
            "one of field, argmax, posterior for .* 2 queries and 3",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(release, arguments, rule):
    with pytest.raises(InvalidInput, match=rule) as refusal:
        decode(release, sizes=np.ones(2), graph=None, **arguments)
    assert "\n" not in str(refusal.value)
