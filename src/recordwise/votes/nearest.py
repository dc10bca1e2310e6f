"""Reverse k-nearest neighbours: every record picks its k nearest queries, exactly, in bounded memory.

Scores of a batch come from one fast matrix product; `certificate` says which records they decide, and the rule of
`poll` decides the rest. Either way the answer is the rule's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput
from recordwise.votes.backend import Backend, NumpyBackend, Scorer
from recordwise.votes.ballot import NOBODY
from recordwise.votes.certificate import Certificate
from recordwise.votes.poll import Metric, Poll

NUMPY = NumpyBackend()


def nearest_queries(
    vectors: object,
    queries: object,
    k: int,
    *,
    metric: Metric = Metric.EUCLIDEAN,
    max_distance: float | None = None,
    prices: object | None = None,
    backend: Backend = NUMPY,
) -> NDArray[np.int32]:
    """Each record's k nearest queries, by the exact rule of `recordwise.votes.poll`.

    Guarantees:
      - a row depends on that record and on public arguments alone: the same bits for any batch, order of records,
        number of threads, BLAS library, backend and device;
      - ties go to the lower query index;
      - a query farther than `max_distance` is never picked; a zero vector, which has no direction, picks nothing under
        the cosine metric; a vector with NaN, infinity or a value beyond float32 picks nothing at all.

    Args:
      vectors: (n, dim) records, rounded to float32; a memory-mapped file is read piece by piece.
      queries: (s, dim) public.
      max_distance: Euclidean distance, or cosine distance 1 - cos, beyond which a record does not vote.
      prices: (s,) public, added to the squared distances; see `recordwise.votes.connection`.

    Returns:
      (n, k) indices, ascending in each row; NOBODY, last, where a record casts fewer than k votes. Private.
    """
    poll = Poll.open(queries, k, metric, max_distance, prices)
    records = as_records(vectors, poll)
    picks = np.empty((len(records), k), dtype=np.int32)

    def work(rows: slice, nearest: NDArray[np.int32]) -> None:
        picks[rows] = nearest

    for_each_span(records, poll, backend, work)
    return picks


def as_records(vectors: object, poll: Poll) -> NDArray[np.generic]:
    """An (n, dim) array of numbers, not copied and not yet read."""
    records = np.asarray(vectors)
    if records.dtype.kind not in "fiub":
        raise InvalidInput(f"vectors must be numeric, got {records.dtype}")
    if records.ndim != 2 or records.shape[1] != poll.dim:
        raise InvalidInput(f"vectors must have shape (n, {poll.dim}) as the queries have, got {records.shape}")
    return records


def for_each_span(
    records: NDArray[np.generic], poll: Poll, backend: Backend, work: Callable[[slice, NDArray[np.int32]], None]
) -> None:
    """Call `work` with every span of rows and their picks, from several threads at a time and in no fixed order."""
    certificate = Certificate.of(poll)
    span = backend.span()
    spans = deque(slice(start, min(start + span, len(records))) for start in range(0, len(records), span))

    def worker() -> None:
        scorer = backend.scorer(certificate.lifted, poll.votes_per_record)
        while True:
            try:
                rows = spans.popleft()
            except IndexError:
                return
            try:
                work(rows, _pick(records, rows, certificate, scorer))
            except BaseException:
                spans.clear()  # the other threads stop too
                raise

    workers = min(backend.workers(), len(spans)) if len(spans) > 1 else 1
    if workers == 1:
        worker()
        return
    with _one_blas_thread_each(), ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(worker) for _ in range(workers)]:
            done.result()


@contextmanager
def _one_blas_thread_each() -> Iterator[None]:
    """Our threads work on separate batches; BLAS threads inside each would only wait for one another."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        yield


def _pick(records: NDArray[np.generic], rows: slice, certificate: Certificate, scorer: Scorer) -> NDArray[np.int32]:
    poll, k = certificate.poll, certificate.poll.votes_per_record
    num_records = rows.stop - rows.start
    squares, t = np.empty(num_records), np.empty(num_records)
    silent = np.zeros(num_records, dtype=np.bool_)
    picks, least = np.empty((num_records, k), dtype=np.int32), np.empty((num_records, k + 1), dtype=np.float32)
    room = np.empty((min(scorer.batch, num_records), poll.dim + 2), dtype=np.float32)
    with np.errstate(all="ignore"):  # what overflows here has an infinite slack and is decided by the rule
        for start in range(0, num_records, scorer.batch):
            part = slice(start, min(start + scorer.batch, num_records))
            lifted = room[: part.stop - part.start]
            lifted[:, :-2] = records[rows.start + part.start : rows.start + part.stop]
            squares[part], t[part] = certificate.lift(lifted)
            if not np.isfinite(squares[part]).all():
                silent[part] = ~np.isfinite(lifted[:, :-2]).all(axis=1)
                lifted[silent[part]] = 0
            picks[part], least[part] = scorer.least(lifted)
        slack = certificate.slack(squares, t)
        ceiling = least[:, k - 1] + 2 * slack
        decided = least[:, k] > ceiling
        if poll.limit < np.inf:
            half = certificate.half_distances(least[:, :k], t, picks)
            error = (2 * slack / t)[:, None]
            far = half > poll.limit / 2 + error
            decided &= (far | (half < poll.limit / 2 - error)).all(axis=1)
            picks[far] = NOBODY
        picks[silent] = NOBODY
        undecided = np.flatnonzero(~(decided | silent))
        for start in range(0, len(undecided), scorer.batch):
            some = undecided[start : start + scorer.batch]
            lifted = room[: len(some)]
            lifted[:, :-2] = records[rows.start + some]
            certificate.lift(lifted)
            near = ~(scorer.scores(lifted) > ceiling[some, None])  # a score that is not a number is near
            if poll.metric is Metric.COSINE:
                near &= lifted[:, :-2].any(axis=1, keepdims=True)  # a zero vector has no direction
            picks[some] = poll.pick(lifted[:, :-2], *near.nonzero())
    if k > 1:
        picks.view(np.uint32).sort(axis=1)  # NOBODY, the largest when unsigned, comes last
    return picks
