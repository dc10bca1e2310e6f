"""Memory beyond the input: a few bytes a record under every trust, whatever the mechanism sends."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from recordwise import PrivateDistiller, SystemNoise, fits, pipeline, records
from recordwise.protocols.local import mechanism
from recordwise.protocols.shuffle import multi
from recordwise.votes import ballot

FEW, MANY = 2_000, 6_000
DIM, CLASSES, QUERIES = 4, 4, 80
TRUSTS: dict[str, dict[str, Any]] = {
    "central": {"trust": "central"},
    "distributed": {"trust": {"name": "distributed", "parties": 5}},
    "local": {"trust": "local"},
    "local, long messages": {"trust": "local", "mechanism": "randomized-response"},  # 40 bytes a record
    "shuffle": {"trust": "shuffle", "delta": 1e-6, "mechanism": "collision"},
    "shuffle, long messages": {"trust": "shuffle", "delta": 1e-6, "mechanism": "randomized-response"},
    "shuffle, many messages": {"trust": "shuffle", "delta": 1e-6, "mechanism": "multi-message"},
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So small that the fewest records are several of each: what is left to grow, grows with the records."""
    for module, name, size in (
        (records, "CHUNK", 512),
        (ballot, "PIECE", 512),
        (mechanism, "ROWS", 512),
        (mechanism, "VALUES", 1 << 15),
        (multi, "AT_ONCE", 512),
    ):
        monkeypatch.setattr(module, name, size)


def peak(num_records: int, settings: dict[str, Any]) -> list[int]:
    """The most bytes that a fit holds beyond its arguments, in each step that touches records.

    Clusters and students take more, at other times, but that is the pool's; and one step must not hide another.
    """
    highest: list[int] = []

    def measured(step: Callable[..., Any], *, last: bool = False) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            tracemalloc.reset_peak()
            made = step(*given, **named)
            highest.append(tracemalloc.get_traced_memory()[1])
            if last:
                tracemalloc.stop()  # it makes everything slow, and no record is touched from here on
            return made

        return run

    rng = np.random.default_rng(0)
    vectors, pool = (rng.normal(size=(n, DIM)).astype(np.float32) for n in (num_records, 200))
    labels = rng.integers(0, CLASSES, num_records)
    task = {"num_queries": QUERIES, "classes": list(range(CLASSES)), "decoder": "argmax", "student": "linear"}
    distiller = PrivateDistiller(epsilon=2.0, **task, **settings)
    distiller.prepare(vectors, labels, X_public=pool, noise=SystemNoise())  # the mechanism is searched for untraced
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    with (
        patch("recordwise.distiller.count_fit", measured(fits.count_fit)),
        patch("recordwise.distiller.vote", measured(pipeline.vote)),
        patch("recordwise.distiller.release", measured(pipeline.release, last=True)),
    ):
        distiller.fit(vectors, labels, X_public=pool)
    assert not tracemalloc.is_tracing()
    return [most - before for most in highest]


def bytes_per_record(settings: dict[str, Any], place: Path | None = None) -> float:
    peaks = []
    for number, num_records in enumerate((1_000, FEW, MANY)):  # the first one fills what later ones share
        at: dict[str, Any] = {"go_on": True}
        if place is not None:
            at |= {"ledger": place / f"{number}.sqlite", "budget_epsilon": 2, "budget_delta": 0.1}
        fits._seen.forget()
        peaks.append(peak(num_records, {**settings, "account": at}))
    return max(many - few for few, many in zip(*peaks[1:], strict=True)) / (MANY - FEW)


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_record_more_takes_a_few_bytes_more(trust: str, tmp_path: Path) -> None:
    """Its votes, its label twice, and why it abstains: 4·(1 + 2) + 4, and a mask or two."""
    assert bytes_per_record(TRUSTS[trust], tmp_path) < 24


def test_counting_fits_without_a_ledger_takes_a_few_more(tmp_path: Path) -> None:
    """A hash of each record, sorted beside another copy, and what its fits have cost."""
    assert bytes_per_record(TRUSTS["central"]) < 60


def test_a_whole_batch_of_messages_in_memory_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: one client's message for all records."""
    monkeypatch.setattr(
        mechanism.LocalMechanism, "clients", lambda self, votes, noise, **_: iter([self.client(votes, noise)])
    )
    assert bytes_per_record(TRUSTS["local, long messages"], tmp_path) > 24
