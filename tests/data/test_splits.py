from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from recordwise.data import DataSet, Loaded, Rule, Split, parts_of, split_of, splits
from recordwise.errors import InvalidInput

TRAIN = {"mnist": 60_000, "cifar10": 50_000, "svhn": 73_257, "adult": 32_561}
TEST = {"mnist": 10_000, "cifar10": 10_000, "svhn": 26_032, "adult": 16_281}


@pytest.mark.parametrize(("name", "rule"), list(splits._SHARES))
def test_a_split_deals_out_every_row_once(name: str, rule: Rule) -> None:
    split = split_of(name, rule)
    rows = np.concatenate([split.public, split.private, split.test])
    assert np.array_equal(np.sort(rows), np.arange(TRAIN[name] + TEST[name]))
    if rule is Rule.CLEAN:
        assert np.array_equal(split.test, np.arange(TRAIN[name], TRAIN[name] + TEST[name]))


def test_what_is_learnt_from_cifar10s_pool_serves_both_rules() -> None:
    clean, paper = split_of("cifar10", Rule.CLEAN), split_of("cifar10", Rule.PAPER)
    assert np.array_equal(clean.public, paper.public)
    assert set(clean.private) < set(paper.private)
    assert set(paper.test) < set(clean.test)


def test_a_split_that_changed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(splits._DIGESTS, ("mnist", Rule.CLEAN), "another")
    with pytest.raises(InvalidInput, match="must have digest another"):
        split_of("mnist", Rule.CLEAN)
    with pytest.raises(InvalidInput, match="there is no paper split of 'adult'"):
        split_of("adult", Rule.PAPER)


def test_overlapping_parts_are_refused() -> None:
    with pytest.raises(InvalidInput, match="disjoint"):
        Split(public=np.array([1, 2]), private=np.array([3]), test=np.array([2]))


def test_parts_leave_copies_out_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(splits._SHARES, ("tiny", Rule.CLEAN), {"public": (40, 0), "private": (40, 0), "test": (0, 20)})
    monkeypatch.setitem(splits._DIGESTS, ("tiny", Rule.CLEAN), "")
    with pytest.raises(InvalidInput) as caught:
        split_of("tiny", Rule.CLEAN)
    monkeypatch.setitem(splits._DIGESTS, ("tiny", Rule.CLEAN), str(caught.value).rsplit(" ", 1)[1])
    planned = split_of("tiny", Rule.CLEAN)
    samples = np.arange(200.0).reshape(100, 2)
    samples[planned.public[3]] = samples[planned.private[0]]
    samples[planned.public[4]] = samples[planned.test[0]]
    data = DataSet(
        name="tiny",
        train=Loaded(samples=samples[:80], labels=np.arange(80)),
        test=Loaded(samples=samples[80:], labels=np.arange(80, 100)),
        classes=("a",),
    )
    parts = parts_of(data, Rule.CLEAN)
    assert np.array_equal(parts.split.public, np.delete(planned.public, [3, 4]))
    assert parts.split.digest != planned.digest
    for part, index in (
        (parts.public, parts.split.public),
        (parts.private, planned.private),
        (parts.test, planned.test),
    ):
        assert np.array_equal(part.labels, index)
        assert np.array_equal(part.samples, samples[index])
    short = dataclasses.replace(data, test=Loaded(samples=samples[80:90], labels=np.arange(10)))
    with pytest.raises(InvalidInput, match="published number of samples, got 90"):
        parts_of(short, Rule.CLEAN)
