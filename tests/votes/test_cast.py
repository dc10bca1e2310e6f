from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.votes import oracle
from tests.votes.hard import hard_problem, kinds, seeds

from recordwise.errors import InvalidInput
from recordwise.privacy.guarantee import Neighbours
from recordwise.streams import stream
from recordwise.votes import NOBODY, Ballot, Metric, NumpyBackend, TorchBackend, cast_votes, count_votes
from recordwise.votes import backend as backends

Labels = list[set[int]]


def random_sets(rng: np.random.Generator, num_records: int, num_classes: int, r: int) -> Labels:
    return [set(rng.choice(num_classes, rng.integers(0, r + 1), replace=False).tolist()) for _ in range(num_records)]


@given(seed=seeds, kind=kinds, k=st.integers(1, 5), r=st.integers(1, 3), metric=st.sampled_from(Metric))
@settings(max_examples=60, deadline=None)
def test_one_record_changes_no_more_cells_than_the_ballot_says(
    seed: int, kind: str, k: int, r: int, metric: Metric
) -> None:
    records, queries = hard_problem(seed, kind, num_records=20)
    queries = queries[queries.any(axis=1)]
    form = Ballot(num_queries=len(queries), num_classes=4, votes_per_record=min(k, len(queries)), labels_per_record=r)
    labels = random_sets(stream(seed, "labels"), len(records), 4, r)

    def counts(keep: slice) -> NDArray[np.int64]:
        return cast_votes(records[keep], labels[keep], queries, form, metric=metric).counts()

    without_last, without_first, whole = counts(slice(None, -1)), counts(slice(1, None)), counts(slice(None))
    added = whole - without_last
    assert set(np.unique(added)) <= {0, 1}
    assert added.sum() <= form.cells_changed(Neighbours.ADD_REMOVE)
    replaced = np.abs(without_first - without_last)  # the first record turned into the last
    assert replaced.max() <= 1
    assert replaced.sum() <= form.cells_changed(Neighbours.REPLACE)
    assert (replaced**2).sum() <= form.cells_changed(Neighbours.REPLACE)


def test_votes_are_the_nearest_queries_and_the_classes() -> None:
    records, queries = hard_problem(3, "plain")
    form = Ballot(num_queries=len(queries), num_classes=5, votes_per_record=2)
    labels = stream(3, "labels").integers(0, 5, len(records))
    votes = cast_votes(records, labels, queries, form)
    np.testing.assert_array_equal(votes.queries, oracle.nearest(records, queries, 2))
    np.testing.assert_array_equal(votes.labels[:, 0], labels)
    tally = np.zeros((len(queries), 5), dtype=np.int64)
    for row, label in zip(oracle.nearest(records, queries, 2), labels, strict=True):
        tally[row, label] += 1
    np.testing.assert_array_equal(votes.counts(), tally)


@pytest.mark.parametrize("backend", [NumpyBackend(threads=1), NumpyBackend(threads=3), TorchBackend()])
@pytest.mark.parametrize("metric", Metric)
def test_counting_a_stream_is_casting_and_counting(
    backend: NumpyBackend | TorchBackend, metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "SPAN", 16)
    records, queries = hard_problem(8, "grid", num_records=100)
    queries = queries[queries.any(axis=1)]
    form = Ballot(num_queries=len(queries), num_classes=6, votes_per_record=3, labels_per_record=2)
    labels = random_sets(stream(8, "labels"), 100, 6, 2)
    rule = {"metric": metric, "max_distance": 1.5}
    expected = cast_votes(records, labels, queries, form, **rule).counts()  # type: ignore[arg-type]
    indicators = np.array([[one in chosen for one in range(6)] for chosen in labels])

    def blocks(rows: object) -> object:
        return (rows[start : start + 33] for start in range(0, 100, 33))  # type: ignore[index]

    for some_records, some_labels in [
        (records, labels),
        (records, indicators),
        (blocks(records), blocks(labels)),
        ([records[:1], records[1:]], [indicators[:1], indicators[1:]]),
    ]:
        counts = count_votes(some_records, some_labels, queries, form, **rule, backend=backend)  # type: ignore[arg-type]
        np.testing.assert_array_equal(counts, expected)


def test_a_record_far_from_every_query_casts_no_vote() -> None:
    form = Ballot(num_queries=2, num_classes=2)
    votes = cast_votes([[0.0], [50.0]], [0, 1], [[0.0], [1.0]], form, max_distance=3.0)
    assert votes.queries.tolist() == [[0], [NOBODY]]
    assert votes.counts().sum() == 1


def test_labels_above_r_are_truncated_only_when_asked() -> None:
    form = Ballot(num_queries=1, num_classes=3)
    assert cast_votes([[0.0]], [{2, 1}], [[0.0]], form).labels.tolist() == [[NOBODY]]
    assert cast_votes([[0.0]], [{2, 1}], [[0.0]], form, truncate_labels=True).labels.tolist() == [[1]]
    assert count_votes(np.zeros((1, 1)), [{2, 1}], [[0.0]], form, truncate_labels=True).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("label", [2, -1, 0.5, math.nan, None, "1", {0, 1}, {0, 7}, [0, 1, 1], 10**30], ids=str)
def test_a_record_that_cannot_vote_abstains_and_changes_no_other(label: object) -> None:
    form = Ballot(num_queries=3, num_classes=2)
    vectors, queries = np.array([[0.0, 0.0], [1.0, 5.0], [2.0, 1.0]]), [[0.0, 0.0], [1.0, 4.0], [9.0, 9.0]]
    rest = cast_votes(vectors[:2], [0, 1], queries, form)
    votes = cast_votes(vectors, [0, 1, label], queries, form)
    assert votes.labels[2].tolist() == [NOBODY]
    assert np.array_equal(votes.cells()[:2], rest.cells())
    assert np.array_equal(votes.counts(), rest.counts())
    assert np.array_equal(count_votes(vectors, [0, 1, label], queries, form), rest.counts())
    vectors[2, 1] = math.nan
    assert np.array_equal(count_votes(vectors, [0, 1, 1], queries, form), rest.counts())


@pytest.mark.parametrize("count", [cast_votes, count_votes])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0]}, "labels must be as many as the 2 vectors, got 1"),
        ({"queries": np.zeros((4, 2))}, "queries must be the 3 of the ballot, got shape"),
        ({"vectors": np.zeros((2, 5))}, r"vectors must have shape \(n, 2\)"),
    ],
)
def test_a_mistake_is_refused_in_one_line(count: Callable[..., object], change: object, message: str) -> None:
    form = Ballot(num_queries=3, num_classes=2)
    arguments = {"vectors": np.zeros((2, 2)), "labels": [0, 1], "queries": np.ones((3, 2)), "ballot": form}
    with pytest.raises(InvalidInput, match=message):
        count(**(arguments | change))  # type: ignore[operator]


def test_blocks_that_do_not_match_are_refused() -> None:
    form = Ballot(num_queries=3, num_classes=2)
    with pytest.raises(InvalidInput, match="as many blocks"):
        count_votes(iter([np.zeros((2, 2))] * 2), iter([[0, 1]]), np.ones((3, 2)), form)
    with pytest.raises(InvalidInput, match="an array or an iterable of arrays, got int"):
        count_votes(3, [0], np.ones((3, 2)), form)


def test_memory_does_not_grow_with_the_number_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "SPAN", 1024)
    form = Ballot(num_queries=30, num_classes=4, votes_per_record=2)
    rng = stream(0, "memory")
    queries, tile = rng.standard_normal((30, 16)), rng.standard_normal((4096, 16), dtype=np.float32)

    def peak(tiles: int) -> int:
        path = tmp_path / f"{tiles}.f32"
        path.write_bytes(tile.tobytes() * tiles)
        records = np.memmap(path, dtype=np.float32, mode="r", shape=(tiles * len(tile), 16))
        labels = np.zeros(len(records), dtype=np.int8)
        tracemalloc.start()
        counts = count_votes(records, labels, queries, form, backend=NumpyBackend(threads=2))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert counts.sum() == 2 * len(records)
        return highest

    few, many = peak(2), peak(82)
    assert many - few < 80 * tile.nbytes / 10  # what two threads hold varies by a MB; the records grew by 20 MB


@pytest.mark.slow
def test_ten_million_records_are_counted_in_less_than_a_gibibyte(tmp_path: Path) -> None:
    path, tile = tmp_path / "records.f32", stream(0, "ten million").standard_normal((100_000, 128), dtype=np.float32)
    with path.open("wb") as file:
        for _ in range(100):
            file.write(tile.tobytes())
    code = f"""
import pathlib, threading, numpy as np
from recordwise.votes import Ballot, count_votes
def own():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))  # without the mapped file
records = np.memmap({str(path)!r}, dtype=np.float32, mode="r", shape=(10_000_000, 128))
labels, before, seen, done = np.zeros(len(records), dtype=np.int8), own(), [], threading.Event()
def watch():
    while not done.wait(0.01):
        seen.append(own())
watcher = threading.Thread(target=watch)
watcher.start()
counts = count_votes(records, labels, records[:500], Ballot(num_queries=500, num_classes=2))
done.set()
watcher.join()
assert counts.sum() == len(records)
print(max(seen) - before)
"""
    try:
        grown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    finally:
        path.unlink()  # pytest keeps temporary folders for a while, and this file holds 5 GB
    assert int(grown) < 2**20  # KiB
