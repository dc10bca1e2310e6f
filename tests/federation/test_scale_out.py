"""Votes of records in many Parquet files are the same on one process and on Ray's workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest

from federation.world import CLASSES, blobs
from recordwise.data import Schema
from recordwise.encoders import encoder_from
from recordwise.errors import InvalidInput
from recordwise.federation import encoder_bytes
from recordwise.federation.nodes import voters
from recordwise.federation.plan import Ask, Plan
from recordwise.federation.records import SiloRecords
from recordwise.federation.scale_out import Here, OnRay, ParquetFolder
from recordwise.federation.settings import PolicySection, SiloFile
from recordwise.nearest import Metric
from recordwise.protocols.central import CentralLaplace
from recordwise.randomness import seeded
from recordwise.sections import Source
from recordwise.votes import Ballot

FILES, ROWS = 5, 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    samples, labels = blobs(FILES * ROWS, "parquet")
    for number in range(FILES):
        part = slice(number * ROWS, (number + 1) * ROWS)
        table = pd.DataFrame(samples[part], columns=list("abcd")).assign(tree=labels[part])
        table.to_parquet(tmp_path / f"part-{number}.parquet")
    return tmp_path


def plan_of(encoder: str) -> tuple[Plan, Ask]:
    pool, _ = blobs(60, "pool")
    fitted = encoder_from(encoder, pool, seed=0).fit(pool)
    width = fitted.transform(pool[:1]).shape[1]
    ballot = Ballot(num_queries=6, num_classes=3, votes_per_record=2)
    plan = Plan(
        run="scale",
        rounds=1,
        protocol=CentralLaplace(ballot=ballot, epsilon=Fraction(1)),
        classes=CLASSES,
        pool="pool",
        schema=Schema.of(pool, columns=list("abcd")),
        encoder=encoder_bytes.to_bytes(fitted),
        metric=Metric.EUCLIDEAN,
        dim=width,
        roster={"north": bytes(32)},
        threshold=1,
    )
    queries = seeded(0, "queries").normal(size=(6, width)).astype(np.float32)
    return plan, Ask(plan=plan.digest, run=plan.run, round=1, queries=queries)


def test_files_vote_as_one_array_would(folder: Path) -> None:
    plan, ask = plan_of("scaler")
    parts = ParquetFolder(folder=folder, samples=list("abcd"), labels="tree", engine=Here()).votes(plan, ask)
    samples, labels = blobs(FILES * ROWS, "parquet")
    whole = SiloRecords.of(samples, labels).votes(plan, ask)
    assert np.array_equal(parts.queries, whole.queries)
    assert np.array_equal(parts.labels, whole.labels)


class StandIn(ModuleType):
    """What we call of Ray, in this process: work, files and votes still travel as bytes, and come back out of turn."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.calls: list[str] = []
        self.sent: list[bytes] = []

    def is_initialized(self) -> bool:
        return False

    def init(self, **settings: Any) -> None:
        assert settings["num_cpus"] == 2
        self.calls.append("init")

    def remote(self, work: Callable[..., Any]) -> Any:
        kept = cloudpickle.dumps(work)
        handle = ModuleType("handle")
        handle.remote = lambda *given: self.sent.append(cloudpickle.dumps((kept, given))) or len(self.sent) - 1  # type: ignore[attr-defined, func-returns-value]
        return handle

    def get(self, asked: list[int]) -> list[Any]:
        done = {}
        for number in reversed(asked):
            work, given = cloudpickle.loads(self.sent[number])
            done[number] = cloudpickle.loads(cloudpickle.dumps(cloudpickle.loads(work)(*given)))
        return [done[number] for number in asked]

    def shutdown(self) -> None:
        self.calls.append("shutdown")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Ray leaves sockets to the collector
@pytest.mark.parametrize("real", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["a stand-in", "Ray"])
def test_two_ray_workers_vote_bit_for_bit_as_one_process(
    folder: Path, real: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path("src").resolve()), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else a busy machine lets Ray's workers wait for minutes
    stand_in = StandIn()
    if not real:
        monkeypatch.setitem(sys.modules, "ray", stand_in)
    plan, ask = plan_of("pca")
    told = SiloFile(
        name="north",
        workers=2,
        records=Source(path=folder, samples=list("abcd"), labels="tree"),
        policy=PolicySection(epsilon=1.0),
    )
    here = ParquetFolder(folder=folder, samples=list("abcd"), labels="tree", engine=Here()).votes(plan, ask)
    ray = voters(told).votes(plan, ask)
    assert np.array_equal(here.queries, ray.queries)
    assert np.array_equal(here.labels, ray.labels)
    assert len(ray) == FILES * ROWS
    assert real or stand_in.calls == ["init", "shutdown"]


def test_mistakes_are_refused(tmp_path: Path) -> None:
    plan, ask = plan_of("scaler")
    with pytest.raises(InvalidInput, match=r"a folder of \.parquet files"):
        ParquetFolder(folder=tmp_path, labels="tree", engine=Here()).votes(plan, ask)
    with pytest.raises(InvalidInput, match="workers"):
        OnRay(workers=0)
    told = SiloFile(name="n", workers=1, records=Source(path=tmp_path), policy=PolicySection(epsilon=1.0))
    with pytest.raises(InvalidInput, match=r"records\.labels"):
        voters(told)
