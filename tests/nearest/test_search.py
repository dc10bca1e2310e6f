from __future__ import annotations

import math
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.nearest import oracle
from tests.nearest.hard import KINDS, hard_problem, kinds, seeds

from recordwise.errors import InvalidInput
from recordwise.nearest import Metric, NumpyBackend, TorchBackend, nearest_queries
from recordwise.nearest import backend as backends
from recordwise.nearest.certificate import Certificate
from recordwise.nearest.poll import Poll
from recordwise.nearest.search import for_each_span
from recordwise.randomness import seeded
from recordwise.votes import NOBODY

metrics = st.sampled_from(Metric)


def directed(queries: NDArray[np.float32]) -> NDArray[np.float32]:
    """The queries, without zero rows: under the cosine metric those are refused."""
    return queries[queries.any(axis=1)]


def limits(records: NDArray[np.float32], queries: NDArray[np.float32], metric: Metric) -> list[float | None]:
    """No limit, and limits that some pairs meet exactly, or miss by one bit."""
    one, other = [float(v) for v in records[1]], [float(v) for v in queries[0]]
    if metric is Metric.COSINE:
        one, other = (oracle.unit(one) if any(one) else other), oracle.unit(other)
        touching = oracle.distance(one, other) / 2
    else:
        touching = math.sqrt(oracle.distance(one, other))
    return [None, touching, math.nextafter(touching, 0), math.nextafter(touching, math.inf)]


@given(seed=seeds, kind=kinds, metric=metrics, k=st.integers(1, 12), limit=st.integers(0, 3), priced=st.booleans())
@settings(max_examples=400, deadline=None)
def test_the_votes_are_those_of_the_rule(
    seed: int, kind: str, metric: Metric, k: int, limit: int, priced: bool
) -> None:
    records, queries = hard_problem(seed, kind)
    queries = directed(queries)
    assume(len(queries))
    k = min(k, len(queries))
    max_distance = limits(records, queries, metric)[limit]
    prices = list(seeded(seed, "prices").integers(-2, 3, len(queries)) / 4) if priced else None
    ours = nearest_queries(records, queries, k, metric=metric, max_distance=max_distance, prices=prices)
    theirs = oracle.nearest(records, queries, k, metric=metric, max_distance=max_distance, prices=prices)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dim", [1, 2, 127, 784])
@pytest.mark.parametrize("kind", KINDS)
def test_the_votes_are_those_of_the_rule_in_many_dimensions(kind: str, dim: int) -> None:
    records, queries = hard_problem(dim, kind, num_records=24, num_queries=30, dim=dim)
    for metric in Metric:
        asked = directed(queries)
        ours = nearest_queries(records, asked, 3, metric=metric)
        np.testing.assert_array_equal(ours, oracle.nearest(records, asked, 3, metric=metric))


def test_scores_alone_would_get_the_hard_cases_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Certificate, "slack", lambda self, squares, t: np.zeros_like(squares))
    wrong = set()
    for kind in KINDS:
        for seed in range(20):
            records, queries = hard_problem(seed, kind)
            if (nearest_queries(records, queries, 3) != oracle.nearest(records, queries, 3)).any():
                wrong.add(kind)
    assert wrong >= {"one ulp", "midpoints", "far"}


@pytest.mark.parametrize("kind", ["plain", "grid", "one ulp", "mixed"])
@pytest.mark.parametrize("metric", Metric)
def test_a_vote_does_not_depend_on_batches_spans_or_threads(
    kind: str, metric: Metric, monkeypatch: pytest.MonkeyPatch
) -> None:
    records, queries = hard_problem(5, kind, num_records=120, num_queries=40, dim=20)
    queries = directed(queries)
    expected = nearest_queries(records, queries, 3, metric=metric, max_distance=0.9)
    one_by_one = [nearest_queries(row[None], queries, 3, metric=metric, max_distance=0.9)[0] for row in records]
    np.testing.assert_array_equal(expected, one_by_one)
    backwards = nearest_queries(records[::-1], queries, 3, metric=metric, max_distance=0.9)
    np.testing.assert_array_equal(expected, backwards[::-1])
    for span, scores, threads in [(7, 1, 3), (64, 700, 2), (119, 5000, 5), (1000, 1, 1)]:
        monkeypatch.setattr(backends, "SPAN", span)
        monkeypatch.setattr(backends, "CACHED_SCORES", scores)
        for way in (NumpyBackend(threads=threads), TorchBackend()):
            again = nearest_queries(records, queries, 3, metric=metric, max_distance=0.9, backend=way)
            np.testing.assert_array_equal(expected, again)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", Metric)
def test_pytorch_gives_the_same_votes(kind: str, metric: Metric) -> None:
    for seed in range(5):
        records, queries = hard_problem(seed, kind, num_records=200, num_queries=50, dim=33)
        queries = directed(queries)
        for k in (1, 4, len(queries)):
            ours = nearest_queries(records, queries, k, metric=metric)
            np.testing.assert_array_equal(
                ours, nearest_queries(records, queries, k, metric=metric, backend=TorchBackend())
            )


class Worst:
    """A scorer as wrong as the certificate allows: every score is moved by almost the slack, up or down."""

    batch = 16

    def __init__(self, poll: Poll, k: int, seed: int, times: float) -> None:
        self._certificate, self._k, self._times = Certificate.of(poll), k, times
        self._rng = seeded(seed, "worst")

    def scores(self, records: NDArray[np.float32]) -> NDArray[np.float32]:
        exact = records.astype(np.float64) @ self._certificate.lifted.astype(np.float64)
        squares = np.einsum("ij,ij->i", records[:, :-2], records[:, :-2], dtype=np.float64)
        slack = self._certificate.slack(squares, records[:, -2].astype(np.float64))
        moved = exact + self._times * slack[:, None] * self._rng.choice([-1.0, 1.0], exact.shape)
        return moved.astype(np.float32)

    def least(self, records: NDArray[np.float32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        scores = self.scores(records)
        order = np.argsort(scores, axis=1)
        ranked = np.take_along_axis(scores, order, axis=1)
        return order[:, : self._k].astype(np.int32), ranked[:, : self._k + 1]


class WorstBackend:
    def __init__(self, poll: Poll, seed: int, times: float) -> None:
        self._poll, self._seed, self._times = poll, seed, times

    def span(self) -> int:
        return 64

    def workers(self) -> int:
        return 1

    def scorer(self, lifted: NDArray[np.float32], k: int) -> Worst:
        return Worst(self._poll, k, self._seed, self._times)


def disagreements(times: float) -> int:
    found = 0
    for seed in range(30):
        for kind in ("plain", "midpoints", "one ulp"):
            records, queries = hard_problem(seed, kind)
            poll = Poll.open(queries, 2, Metric.EUCLIDEAN, None, None)
            votes = nearest_queries(records, queries, 2, backend=WorstBackend(poll, seed, times))
            found += int((votes != oracle.nearest(records, queries, 2)).any(axis=1).sum())
    return found


def test_errors_within_the_slack_never_change_a_vote_and_larger_ones_are_noticed() -> None:
    assert disagreements(0.8) == 0
    assert disagreements(40.0) > 0


def test_ties_go_to_the_lower_query() -> None:
    queries = np.zeros((5, 3), dtype=np.float32)
    assert nearest_queries(np.ones((4, 3)), queries, 2).tolist() == [[0, 1]] * 4


def test_a_query_too_far_away_gets_no_vote() -> None:
    votes = nearest_queries([[0.0, 0.0], [9.0, 0.0]], [[0.0, 1.0], [0.0, 2.0], [3.0, 4.0]], 3, max_distance=2.0)
    assert votes.tolist() == [[0, 1, NOBODY], [NOBODY] * 3]
    assert nearest_queries([[1.0]], [[1.0], [2.0]], 1, max_distance=0).tolist() == [[0]]
    assert nearest_queries([[1.5]], [[1.0], [2.0]], 1, max_distance=0).tolist() == [[NOBODY]]


def test_a_zero_vector_has_no_direction_and_abstains() -> None:
    records = [[0.0, 0.0], [0.0, 1e-45], [-3.0, 0.1]]
    votes = nearest_queries(records, [[1.0, 0.0], [0.0, 5.0]], 1, metric=Metric.COSINE)
    assert votes.tolist() == [[NOBODY], [1], [1]]
    assert nearest_queries(records, [[1.0, 0.0], [0.0, 5.0]], 1).tolist() == [[0], [0], [0]]


def test_prices_shift_votes_from_dear_queries_to_cheap_ones() -> None:
    records, queries = [[0.375], [0.625]], [[0.0], [1.0]]
    assert nearest_queries(records, queries, 1).tolist() == [[0], [1]]
    assert nearest_queries(records, queries, 1, prices=[1.0, 0.0]).tolist() == [[1], [1]]
    assert nearest_queries(records, queries, 1, prices=[0.25, 0.0]).tolist() == [[0], [1]]  # a tie, exactly


def test_records_of_any_numeric_type_are_rounded_to_float32_first() -> None:
    rng = seeded(1, "types")
    queries = rng.standard_normal((9, 5))
    wide = rng.standard_normal((50, 5))
    np.testing.assert_array_equal(
        nearest_queries(wide, queries, 2), nearest_queries(wide.astype(np.float32), queries.astype(np.float32), 2)
    )
    pixels = rng.integers(0, 256, (50, 5)).astype(np.uint8)
    np.testing.assert_array_equal(
        nearest_queries(pixels, queries * 100, 2), nearest_queries(pixels.astype(np.float32), queries * 100, 2)
    )
    assert nearest_queries(np.empty((0, 5)), queries, 2).shape == (0, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vectors": [[0.0]]}, r"vectors must have shape \(n, 2\)"),
        ({"vectors": [["a", "b"]]}, "vectors must be numeric"),
        ({"queries": [[math.nan, 0.0], [1.0, 1.0]]}, "queries must be finite"),
        ({"queries": np.empty((0, 2))}, "k must be <= the 0 queries"),
        ({"k": 3}, "k must be <= the 2 queries, got 3"),
        ({"k": 0}, "k must be a whole number >= 1"),
        ({"metric": "manhattan"}, "metric must be one of"),
        ({"metric": Metric.COSINE, "queries": [[0.0, 0.0], [1.0, 1.0]]}, "row 0 is zero"),
        ({"max_distance": math.nan}, "max_distance must be >= 0, got nan"),
        ({"max_distance": -1.0}, "max_distance must be >= 0"),
        ({"prices": [1.0]}, "prices must be 2 finite numbers"),
        ({"prices": [1.0, math.nan]}, "prices must be 2 finite numbers"),
        ({"backend": TorchBackend(device="nowhere")}, "device must be one PyTorch can use"),
    ],
)
def test_a_mistake_is_refused_in_one_line(change: dict[str, object], message: str) -> None:
    arguments = {"vectors": [[0.0, 0.0]], "queries": [[0.0, 1.0], [1.0, 0.0]], "k": 1} | change
    with pytest.raises(InvalidInput, match=message) as refusal:
        nearest_queries(**arguments)  # type: ignore[arg-type]
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e300])
def test_a_vector_that_is_not_finite_picks_nothing_and_changes_nothing(metric: Metric, bad: float) -> None:
    records, queries = hard_problem(3, "one ulp", num_records=60, num_queries=20, dim=5)
    queries = directed(queries)
    wide = records.astype(np.float64)
    wide[[0, 17, 59], [0, 4, 2]] = bad
    for limit in (None, 0.9):
        for way in (NumpyBackend(), NumpyBackend(threads=2), TorchBackend()):
            votes = nearest_queries(wide, queries, 3, metric=metric, max_distance=limit, backend=way)
            expected = nearest_queries(records, queries, 3, metric=metric, max_distance=limit)
            expected[[0, 17, 59]] = NOBODY
            np.testing.assert_array_equal(votes, expected)


def test_a_fault_in_one_thread_stops_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "SPAN", 4)
    done = []

    def work(rows: slice, picks: NDArray[np.int32]) -> None:
        if rows.start == 16:
            raise MemoryError
        done.append(rows)

    poll = Poll.open(np.eye(3), 1, Metric.EUCLIDEAN, None, None)
    with pytest.raises(MemoryError):
        for_each_span(np.zeros((40_000, 3)), poll, NumpyBackend(threads=3), work)
    assert len(done) < 9_999
    with pytest.raises(InvalidInput, match="threads must be a whole number"):
        NumpyBackend(threads=0)


def test_a_mapped_file_is_read_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "SPAN", 1024)
    rng = seeded(0, "memory")
    queries, tile = rng.standard_normal((30, 16)), rng.standard_normal((4096, 16), dtype=np.float32)

    def peak(tiles: int) -> int:
        path = tmp_path / f"{tiles}.f32"
        path.write_bytes(tile.tobytes() * tiles)
        records = np.memmap(path, dtype=np.float32, mode="r", shape=(tiles * len(tile), 16))
        tracemalloc.start()
        nearest_queries(records, queries, 2, backend=NumpyBackend(threads=2))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return highest

    few, many = peak(2), peak(82)
    # The picks grew by 2.6 MB, what two threads hold varies by a MB; the records grew by 20 MB.
    assert many - few < 80 * tile.nbytes / 4


def test_products_coarser_than_float32_are_refused() -> None:
    class Coarse:
        """PyTorch whose matrix products keep ten bits, as TF32 does."""

        def __init__(self, values: NDArray[np.float32]) -> None:
            self.values, self.shape, self.device = values, values.shape, "cpu"

        def __matmul__(self, other: Coarse) -> NDArray[np.float32]:
            return (self.values.astype(np.float16) @ other.values.astype(np.float16)).astype(np.float32)

        def __setitem__(self, where: object, value: float) -> None:
            self.values[where] = value  # type: ignore[index]

        @staticmethod
        def full(shape: tuple[int, int], value: float, device: str) -> Coarse:
            return Coarse(np.full(shape, value, dtype=np.float32))

        @staticmethod
        def ones_like(other: Coarse) -> Coarse:
            return Coarse(np.ones_like(other.values))

    with pytest.raises(InvalidInput, match="needs IEEE float32 products"):
        backends._refuse_coarse_products(Coarse, Coarse(np.ones((4, 3), dtype=np.float32)))


def test_voting_with_numpy_loads_nothing_heavier() -> None:
    code = (
        "import sys, numpy as np, recordwise.nearest as v; v.nearest_queries(np.eye(3), np.eye(3), 1);"
        "print([m for m in ('torch', 'sklearn', 'scipy', 'pandas') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
