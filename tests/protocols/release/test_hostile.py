"""Bytes that claim to be a release: refused with one line, or as good as a release of ours."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from recordwise.errors import LedgerFault
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.noise import DiscreteLaplace
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


@pytest.mark.parametrize("sign", [1, -1])
def test_counts_beyond_all_counting_are_refused(sign: int) -> None:
    """Finite, but their squares are not: else a decoder would be the first to find out."""
    with pytest.raises(LedgerFault, match=r"estimate must lie within") as refusal:
        unpack(forged(TALLY, untouched, array=np.where(np.eye(3), sign * 1e308, COUNTS)))
    assert "\n" not in str(refusal.value)
    unpack(forged(TALLY, untouched, array=COUNTS + sign * 1e15))


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
