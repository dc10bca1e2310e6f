"""Every decoder, on every kind of release that names it: labels that are distributions, and a function of the release.

A decoder gets all this by being registered (`labels.decode`), a kind of release by naming its decoders. One without a
case fails. Each test with a property has twins that break it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.labels.simulated import PROMISE, choices_of, matched_of, owned_counts, ring, tally_of

from recordwise.labels import Labels, decode
from recordwise.labels.argmax import decode_argmax
from recordwise.labels.decode import DECODERS
from recordwise.labels.facts import Facts
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Normal, SeededNoise
from recordwise.protocols.release import KINDS, Assigned, Release
from recordwise.randomness import seeded
from recordwise.settings import AUTO

CHOSEN = np.array([2, 0, 3, 1])
COUNTS = owned_counts(CHOSEN, np.full(4, 100), 0.8, 4, seeded(0, "contract"))
LAW = DiscreteLaplace(10)
RELEASES: list[Release] = [
    tally_of(COUNTS + LAW.sample((4, 4), SeededNoise(0)), LAW),
    tally_of(np.tile(COUNTS, (2, 1))[:7], DiscreteGaussian(9)),
    tally_of(-COUNTS, Normal(40.0)),
    tally_of(2 * COUNTS, LAW, r=2),
    choices_of(CHOSEN, 4, Fraction(20)),
    choices_of([0, 0, 1, 1, 1], 2, Fraction(20)),
    matched_of(CHOSEN, Fraction(20)),
    Assigned(tally_of(COUNTS, LAW).ballot, PROMISE, CHOSEN, np.full((4, 4), 0.25), 0.8),
    *(tally_of(np.ones(shape), LAW) for shape in ((1, 1), (3, 1), (1, 3))),  # one class, one query
]


def able(decoder: str, release: Release) -> bool:
    return decoder in (AUTO, *release.decoders)


def facts(release: Release) -> list[dict[str, Any]]:
    """What may be public beside a release. Some queries own no sample."""
    s = release.ballot.num_queries
    return [
        {"sizes": (np.arange(s) + 1) % 4, "graph": graph, "num_records": num_records}
        for graph, num_records in product((None, ring(s, 1)), (None, 400))
    ]


def check_labels(release: Release, given: dict[str, Any], decoder: Any) -> Labels:
    """Labels such as a decoder must give them; the same again, whatever else happened in the process."""
    labels = decode(release, decoder=decoder, **given)
    s, num_classes, r = release.ballot.num_queries, release.ballot.num_classes, release.ballot.labels_per_record
    assert labels.hard.dtype == np.int64 and labels.hard.shape == labels.confidence.shape == labels.leads.shape == (s,)
    assert ((labels.hard >= 0) & (labels.hard < num_classes)).all()
    assert labels.probabilities.shape == (s, num_classes)
    assert ((labels.probabilities >= 0) & (labels.probabilities <= 1 + 1e-9)).all()
    assert all(((one >= 0) & (one <= 1 + 1e-9)).all() for one in (labels.confidence, labels.leads))
    if labels.sets is None:
        assert (labels.confidence == labels.probabilities[np.arange(s), labels.hard]).all()
    if r == 1:
        np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1, atol=1e-9)
    else:
        assert labels.sets is not None and labels.sets.sum(axis=1).max() <= r
    again = decode(release, decoder=decoder, **given)
    assert (again.hard == labels.hard).all() and (again.confidence == labels.confidence).all()
    assert (again.probabilities == labels.probabilities).all()
    return labels


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_decoder_gives_labels_and_the_same_ones_again(decoder: str) -> None:
    able_to = [release for release in RELEASES if able(decoder, release)]
    assert able_to, f"{decoder} needs a release in {__name__}"
    for release in able_to:
        for given_facts in facts(release):
            labels = check_labels(release, given_facts, decoder)
            assert labels.decoder == (release.decoders[0] if decoder == AUTO else decoder)


def test_every_kind_of_release_is_tried() -> None:
    ours = {kind for kind in KINDS.values() if kind.__module__.startswith("recordwise.")}
    assert {type(release) for release in RELEASES} == ours


@settings(max_examples=40)
@given(
    decoder=st.sampled_from([name for name in DECODERS if able(name, RELEASES[0])]),
    counts=arrays(np.float64, (4, 4), elements=st.integers(0, 10**6).map(float)),
    noise=arrays(np.float64, (4, 4), elements=st.integers(-100, 100).map(float)),
    scale=st.sampled_from([Fraction(1, 1000), Fraction(1), Fraction(10**4)]),
    which=st.integers(0, 3),
)
def test_whatever_the_noise_did_every_decoder_gives_labels(
    decoder: str, counts: Any, noise: Any, scale: Fraction, which: int
) -> None:
    release = tally_of(counts + np.trunc(noise * float(scale)), DiscreteLaplace(scale))  # a hundred scales off
    check_labels(release, facts(release)[which], decoder)


@pytest.mark.parametrize("decoder", DECODERS)
def test_renaming_queries_or_classes_renames_the_labels(decoder: str) -> None:
    order = np.array([3, 0, 2, 1])
    for release in RELEASES:
        given_facts = {"sizes": np.ones(4), "graph": ring(4, 1), "num_records": 400}
        if not able(decoder, release) or release.ballot != RELEASES[0].ballot:
            continue
        labels = decode(release, decoder=decoder, **given_facts).hard
        moved, renamed = (replace(release, **parts) for parts in renamings(release, order))
        along = given_facts | {"graph": ring(4, 1)[order][:, order]}
        assert (decode(moved, decoder=decoder, **along).hard == labels[order]).all()
        assert (decode(renamed, decoder=decoder, **given_facts).hard == np.argsort(order)[labels]).all()


def renamings(release: Any, order: Any) -> list[dict[str, Any]]:
    """The same release with its queries, and with its classes, in this order."""
    tables = {name: getattr(release, name) for name in ("estimate", "probabilities") if hasattr(release, name)}
    by_query = {name: table[order] for name, table in tables.items()}
    by_class = {name: table[:, order] for name, table in tables.items()}
    if hasattr(release, "chosen"):
        by_query["chosen"], by_class["chosen"] = release.chosen[order], np.argsort(order)[release.chosen]
    return [by_query, by_class]


@pytest.mark.parametrize("decoder", DECODERS)
def test_labels_that_were_chosen_one_by_one_or_together_are_those_chosen(decoder: str) -> None:
    for release in RELEASES:
        if able(decoder, release) and hasattr(release, "chosen") and release.ballot == RELEASES[0].ballot:
            for num_records in (None, 400):
                labels = decode(release, sizes=np.ones(4), graph=ring(4, 1), decoder=decoder, num_records=num_records)
                assert labels.hard.tolist() == CHOSEN.tolist()


def restless(release: Release, facts: Facts) -> Labels:
    """A broken twin: what it says depends on who asked before."""
    labels = decode_argmax(release, facts)  # type: ignore[arg-type]
    return replace(labels, confidence=labels.confidence * seeded(len(ASKED), "restless").random())


def loud(release: Release, facts: Facts) -> Labels:
    """A broken twin: it gives what it read, noise and all."""
    return replace(decode_argmax(release, facts), probabilities=release.scores() / 100)  # type: ignore[arg-type]


ASKED: list[None] = []


@pytest.mark.parametrize("twin", [restless, loud])
def test_broken_twins_are_caught(twin: Callable[..., Labels]) -> None:
    def asked(release: Release, facts: Facts) -> Labels:
        ASKED.append(None)
        return twin(release, facts)

    with pytest.raises(AssertionError):
        check_labels(RELEASES[0], facts(RELEASES[0])[0], asked)
