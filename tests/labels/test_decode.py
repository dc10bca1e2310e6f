from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.labels.simulated import choices_of, matched_of, ring, tally_of

import recordwise.labels
from recordwise.errors import InvalidInput
from recordwise.labels import decode
from recordwise.privacy.noise import DiscreteLaplace, Normal

LAW = DiscreteLaplace(10)
ABLE = (
    "auto",
    *tally_of(np.eye(3), LAW).decoders,
)  # of any release with one label per record that is no assignment yet


def test_the_package_exports_what_it_says():
    assert sorted(recordwise.labels.__all__) == recordwise.labels.__all__ or set(recordwise.labels.__all__) == {
        name for name in recordwise.labels.__all__ if hasattr(recordwise.labels, name)
    }


@settings(max_examples=40)
@given(
    decoder=st.sampled_from(ABLE),
    estimate=arrays(np.float64, (4, 4), elements=st.integers(-(10**6), 10**6).map(float)),
    scale=st.sampled_from([Fraction(1, 1000), Fraction(1), Fraction(10**4)]),
    with_graph=st.booleans(),
)
def test_whatever_the_noise_did_every_decoder_gives_labels_shares_and_probabilities(
    decoder, estimate, scale, with_graph
):
    release = tally_of(estimate, DiscreteLaplace(scale))
    facts = {"sizes": np.array([1, 0, 5, 2]), "graph": ring(4, 1) if with_graph else None}
    labels = decode(release, decoder=decoder, **facts)
    assert labels.hard.dtype == np.int64
    assert ((labels.hard >= 0) & (labels.hard < 4)).all()
    assert (labels.probabilities >= 0).all()
    np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1, atol=1e-9)
    assert ((labels.confidence >= 0) & (labels.confidence <= 1 + 1e-9)).all()
    again = decode(release, decoder=decoder, **facts)
    assert (again.hard == labels.hard).all()
    assert (again.probabilities == labels.probabilities).all()


@pytest.mark.parametrize("decoder", ABLE)
def test_every_decoder_reads_choices(decoder):
    for num_records in (None, 400):
        labels = decode(
            choices_of([0, 1, 2], 3, Fraction(20)),
            sizes=np.ones(3),
            graph=ring(3, 1),
            decoder=decoder,
            num_records=num_records,
        )
        assert labels.hard.tolist() == [0, 1, 2]
        np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1)


@pytest.mark.parametrize("decoder", ABLE)
@pytest.mark.parametrize("num_records", [None, 400])
def test_labels_of_a_matched_release_are_those_it_chose(decoder, num_records):
    chosen = [2, 0, 3, 1]
    labels = decode(
        matched_of(chosen, Fraction(20)), sizes=np.ones(4), graph=ring(4, 1), decoder=decoder, num_records=num_records
    )
    assert labels.hard.tolist() == chosen
    assert labels.decoder == ("assignment" if decoder == "auto" else decoder)
    np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1)


def test_labels_of_queries_that_own_nothing_are_those_chosen_too():
    sizes = np.array([0, 0, 5, 1])
    labels = decode(matched_of([2, 0, 3, 1], Fraction(20)), sizes=sizes, graph=None, num_records=400)
    assert labels.hard.tolist() == [2, 0, 3, 1]


def test_auto_matches_when_queries_are_as_many_as_classes_and_is_the_field_otherwise():
    assert decode(tally_of(np.eye(3), LAW), sizes=np.ones(3), graph=None).decoder == "matching"
    assert decode(tally_of(np.ones((4, 3)), LAW), sizes=np.ones(4), graph=None).decoder == "field"
    several = decode(tally_of(np.ones((4, 3)), LAW, r=2), sizes=np.ones(4), graph=None)
    assert several.decoder == "sets"


def test_a_single_class_or_query_is_no_special_case():
    for shape in ((1, 1), (3, 1), (1, 3)):
        for decoder in ("auto", "argmax", "posterior", "field"):
            labels = decode(tally_of(np.ones(shape), LAW), sizes=np.ones(shape[0]), graph=None, decoder=decoder)
            np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1)


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
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(release, arguments, rule):
    with pytest.raises(InvalidInput, match=rule) as refusal:
        decode(release, sizes=np.ones(2), graph=None, **arguments)
    assert "\n" not in str(refusal.value)
