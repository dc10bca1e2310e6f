"""Bytes that claim to be a release: refused with one line, or as good as a release of ours."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recordwise.errors import MOST_RECORDS, InvalidInput, LedgerFault
from recordwise.labels import accuracy, decode
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Law,
    Normal,
    PolyaDifference,
    SumOfEstimates,
)
from recordwise.protocols.local import Collision
from recordwise.protocols.release import Assigned, Choices, Matched, Release, Tally, pack, unpack
from recordwise.votes import Ballot

BALLOT = Ballot(num_queries=3, num_classes=3, votes_per_record=1, labels_per_record=1)
PROMISE = Guarantee(epsilon=Fraction(1, 3))
COUNTS, CLASSES = np.arange(9.0).reshape(3, 3), np.arange(3)
TALLY = Tally(BALLOT, PROMISE, COUNTS, DiscreteLaplace(Fraction(2)))
CHOICES, MATCHED = (kind(BALLOT, PROMISE, CLASSES, Fraction(2)) for kind in (Choices, Matched))
ASSIGNED = Assigned(BALLOT, PROMISE, CLASSES, np.eye(3), 0.5)


def forged(release: Release, change: Callable[[dict[str, Any]], object], **arrays: NDArray[Any]) -> bytes:
    with np.load(io.BytesIO(pack(release))) as file:
        held = dict(file)
    about = json.loads(held.pop("about").tobytes())
    change(about)
    content = io.BytesIO()
    as_bytes = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(content, about=as_bytes, **(held | arrays))  # type: ignore[arg-type]
    return content.getvalue()


def untouched(about: dict[str, Any]) -> None:
    pass


@pytest.mark.parametrize("release", [TALLY, CHOICES, MATCHED, ASSIGNED], ids=lambda one: type(one).__name__)
def test_what_was_packed_is_read_back(release: Release) -> None:
    assert pack(unpack(forged(release, untouched))) == pack(release)


@pytest.mark.parametrize("release", [CHOICES, MATCHED, ASSIGNED], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize(
    "classes",
    [
        CLASSES.astype(np.float64),
        CLASSES.astype(np.uint64),
        np.array(["a", "b", "c"]),
        np.array(["2020", "2021", "2022"], dtype="M8[D]"),
        np.array([0, 1, 3]),
        np.array([-1, 0, 1]),
        np.zeros((3, 1), dtype=np.int64),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_classes_are_whole_numbers_of_the_ballot(release: Release, classes: NDArray[Any]) -> None:
    with pytest.raises(LedgerFault):
        unpack(forged(release, untouched, array=classes))


@pytest.mark.parametrize(
    "counts",
    [COUNTS.astype(np.complex128), np.full((3, 3), np.nan), np.full((3, 3), "1"), COUNTS[:2], COUNTS[..., None]],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_counts_are_finite_numbers_one_for_each_cell(counts: NDArray[Any]) -> None:
    with pytest.raises(LedgerFault):
        unpack(forged(TALLY, untouched, array=counts))


EVERY_LAW: list[Law] = [
    DiscreteLaplace(Fraction(2)),
    DiscreteLaplace(Fraction(1, 2**40)),
    DiscreteLaplace(Fraction(2**40)),
    DiscreteGaussian(Fraction(1, 2**40)),
    DiscreteGaussian(Fraction(2**78)),
    PolyaDifference(Fraction(1, 100), Fraction(20)),
    PolyaDifference(Fraction(3, 2), Fraction(20)),
    PolyaDifference(Fraction(2**40), Fraction(2**40)),  # far beyond any table: by Chernoff's bound alone
    Normal(3.0),
    Normal(1e-300),
    SumOfEstimates(messages=1_000, variance=20.0, largest_variance=25.0, below=3.0, above=8.0),
    SumOfEstimates(messages=1, variance=1e-320, largest_variance=1e-320, below=1.0, above=1.0),
]


@pytest.mark.parametrize("cell", [1e308, -1e308, 2.0**100, -(2.0**100), 1e17, -1e17, 1e15, -1e15, -1e6])
def test_cells_that_no_records_and_no_noise_make_are_refused(cell: float) -> None:
    """Finite, but a decoder would be the first to find out: squares overflow, and large cells leave no digits."""
    refused = (
        r"estimate must be votes of at most 1,099,511,627,776 records plus noise of deviation 2.799, got a cell of"
    )
    with pytest.raises(LedgerFault, match=refused) as refusal:
        unpack(forged(TALLY, untouched, array=np.where(np.eye(3), cell, COUNTS)))
    assert "\n" not in str(refusal.value) and str(refusal.value).endswith(f"{cell:.4g}")


@pytest.mark.parametrize("law", EVERY_LAW, ids=repr)
def test_a_release_that_honest_noise_makes_once_in_1e30_is_read(law: Law) -> None:
    """And one a little farther out, for a bound that refuses it might refuse the other by a rounding."""
    reach = accuracy(law, COUNTS.size, 1e-30)
    for cell in (-reach, -2 * reach, MOST_RECORDS + reach, MOST_RECORDS + 2 * reach):
        replace(TALLY, estimate=np.where(np.eye(3), cell, COUNTS), law=law).check()
    with pytest.raises(InvalidInput, match="estimate must be votes of"):
        replace(TALLY, estimate=COUNTS - 1e4 * max(1.0, reach), law=law).check()


def test_senders_who_lie_do_not_stop_a_release_under_local_trust() -> None:
    """All of ten thousand send what takes most away from one cell; noise would have done it about never."""
    law = Collision(ballot=BALLOT, epsilon=Fraction(1)).law(10_000)
    assert law.two_sided_tail(law.messages * law.below / 2) < 1e-30
    replace(TALLY, estimate=np.where(np.eye(3), -law.messages * law.below, COUNTS), law=law).check()


@pytest.mark.parametrize("std", [1e31, 1e200, float("inf")])
def test_noise_louder_than_floats_are_large_is_refused(std: float) -> None:
    with pytest.raises(InvalidInput, match=r"^law must have a deviation <= 2\^100, got [^\n]*$"):
        replace(TALLY, law=Normal(std)).check()


@pytest.mark.parametrize("release", [CHOICES, MATCHED], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("scale", [Fraction(1, 10**400), Fraction(10**300)])
def test_choices_at_any_scale_are_decoded(release: Choices, scale: Fraction) -> None:
    """A scale that no float holds is as sure as one that a float does."""
    read = unpack(pack(replace(release, scale=scale)))
    for decoder in read.decoders:
        labels = decode(read, sizes=np.ones(3), graph=None, num_records=1_000, decoder=decoder)
        np.testing.assert_allclose(labels.probabilities.sum(axis=1), 1)


def test_shares_of_more_parties_than_there_are_are_refused() -> None:
    with pytest.raises(LedgerFault, match=r"shape must be at most 2\^40") as refusal:
        unpack(
            forged(
                TALLY, lambda about: about.update(law="PolyaDifference", parameters={"shape": "1e308", "scale": "2"})
            )
        )
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "rows", [np.ones(3), np.array(1.0), np.full((3, 3), np.nan), 2 * np.eye(3), -np.eye(3), np.full((3, 3), "1")]
)
def test_probabilities_are_distributions(rows: NDArray[Any]) -> None:
    with pytest.raises(LedgerFault):
        unpack(forged(ASSIGNED, untouched, probabilities=rows))


@pytest.mark.parametrize(
    ("release", "name", "value"),
    [
        (TALLY, "parameters", []),
        (TALLY, "parameters", {"scale": "1/0"}),
        (TALLY, "law", "Path"),
        (TALLY, "release", "Undecoded"),
        (TALLY, "release", []),
        (TALLY, "guarantee", None),
        (TALLY, "ballot", {"num_queries": 10**400}),
        (MATCHED, "scale", "0"),
        (CHOICES, "scale", -1),
        (ASSIGNED, "purity", float("nan")),
        (ASSIGNED, "purity", 2.0),
    ],
)
def test_settings_are_those_of_a_release(release: Release, name: str, value: Any) -> None:
    with pytest.raises(LedgerFault):
        unpack(forged(release, lambda about: about.update({name: value})))
