"""What a fit leaves, and what is published, is a function of the pool and of the release: a walk over all of it.

Two fits on neighbouring records get the same release. Whatever else they leave must then be the same, bit by bit.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recordwise import checkpoint, pipeline
from recordwise.distiller import PrivateDistiller
from recordwise.job import read_job
from recordwise.privacy.noise import Noise
from recordwise.progress import Silent
from recordwise.protocols.central import CentralLaplace, ExactCounts
from recordwise.protocols.release import Tally
from recordwise.randomness import seeded
from recordwise.records import Records
from recordwise.report import summarize, summary, write_report
from recordwise.run import run_job

TRUTH = np.arange(160) % 2
POINTS = 9.0 * TRUTH[:, None] + seeded(0, "points").normal(size=(160, 3))
POOL, X, Y = POINTS[:60], POINTS[60:], TRUTH[60:]
TODAY = "2026-01-01T00:00:00+00:00"


@pytest.fixture(autouse=True)
def _one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release is the same, every run has the same name, and it is always the same day."""

    def server(self: CentralLaplace, messages: Iterable[ExactCounts], noise: Noise) -> Tally:
        list(messages)  # the real votes are cast and counted, and nothing of them is released
        shape = (self.ballot.num_queries, self.ballot.num_classes)
        estimate = np.arange(np.prod(shape), dtype=np.float64).reshape(shape) * 7 % 31
        return Tally(self.ballot, replace(self.guarantee, private=noise.private), estimate, self.law)

    monkeypatch.setattr(CentralLaplace, "server", server)
    monkeypatch.setattr(checkpoint.uuid, "uuid4", lambda: SimpleNamespace(hex="0" * 32))
    monkeypatch.setattr(
        summary, "datetime", SimpleNamespace(now=lambda zone: SimpleNamespace(isoformat=lambda timespec: TODAY))
    )


NEIGHBOURS: dict[str, tuple[str, Any, Any]] = {
    "replaced": ("replace", np.vstack([[[-50.0, 90.0, 7e5]], X[1:]]), np.append(1 - Y[0], Y[1:])),
    "removed": ("add-remove", X[1:], Y[1:]),
    "added": ("add-remove", np.vstack([X, [[1e6, -1e6, 0.0]]]), np.append(Y, 1)),
}


def leaves(value: Any, path: str, seen: set[int]) -> dict[str, Any]:
    """Everything inside a value, by the way that leads to it."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return {path: (str(value.dtype), value.shape, value.tobytes())}
    if isinstance(value, str | bytes | int | float | complex | bool | type(None) | np.generic):
        return {path: (type(value).__name__, repr(value))}
    if id(value) in seen:
        return {}
    seen.add(id(value))
    if isinstance(value, dict):
        parts = {f"[{key!r}]": part for key, part in value.items()}
    elif isinstance(value, list | tuple | np.ndarray):
        parts = {f"[{place}]": part for place, part in enumerate(value)}
    elif isinstance(value, set | frozenset):
        parts = {f"[{place}]": part for place, part in enumerate(sorted(value, key=repr))}
    else:
        parts = {f".{name}": part for name, part in getattr(value, "__dict__", {}).items()}
        slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        parts |= {f".{name}": getattr(value, name) for name in slots if isinstance(name, str) and hasattr(value, name)}
    found = {path: type(value).__name__}
    for step, part in parts.items():
        found |= leaves(part, path + step, seen)
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def left(samples: Any, labels: Any, pool: Any, folder: Path, neighbours: str, **settings: Any) -> dict[str, Any]:
    asked = {"num_queries": 6, "classes": [0, 1], "records": {"expected": 100}, **settings}
    account = {"run_dir": folder / "run"}
    fitted = PrivateDistiller(2.0, neighbours=neighbours, account=account, **asked)
    fitted.fit(samples, labels, X_public=pool)
    told = summarize(fitted, pool, name="walk")
    write_report(told, folder / "report.html")
    fitted.account = None  # where it lies is the caller's, and another for every fit here
    found = leaves(fitted, "fitted", set()) | leaves(fitted.published(), "published", set())
    return {
        **found,
        "pickle": pickle.dumps(fitted),
        "published pickle": pickle.dumps(fitted.published()),
        "summary": told.to_json(),
        "report": (folder / "report.html").read_bytes(),
        "repr": repr(fitted),
        **files(folder / "run"),
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


@pytest.mark.parametrize("settings", [{}, {"rounds": 2}, {"encoder": "pca", "student": "mlp"}], ids=str)
@pytest.mark.parametrize("change", NEIGHBOURS)
def test_nothing_that_fit_leaves_depends_on_a_record(tmp_path: Path, change: str, settings: dict[str, Any]) -> None:
    neighbours, samples, labels = NEIGHBOURS[change]
    before = left(X, Y, POOL, tmp_path / "before", neighbours, **settings)
    after = left(samples, labels, POOL, tmp_path / "after", neighbours, **settings)
    assert len(before) > 60
    assert differences(before, after) == []


def test_columns_are_the_pool_s(tmp_path: Path) -> None:
    """A frame's names, or their absence, come with the records only as far as they are checked against the pool's."""
    named = [pd.DataFrame(part, columns=["age", "height", "weight"]) for part in (POOL, X)]
    for pool, names in ((named[0], ["age", "height", "weight"]), (POOL, None)):
        kinds = [
            left(samples, Y, pool, tmp_path / f"{names}-{at}", "replace") for at, samples in enumerate((X, named[1]))
        ]
        fitted = PrivateDistiller(2.0, num_queries=6, classes=[0, 1]).fit(named[1], Y, X_public=pool)
        assert differences(*kinds) == []
        assert fitted.n_features_in_ == 3
        assert (getattr(fitted, "feature_names_in_", None) is None) == (names is None)


def test_the_walk_finds_what_depends_on_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken twins: a mean kept deep inside, and a file in the run's folder."""
    honest = pipeline.vote
    folders = iter((tmp_path / "before" / "run", tmp_path / "after" / "run"))

    def keeps(records: Records, question: Any, *arguments: Any, **named: Any) -> Any:
        question.encoder.aside = {"means": [np.asarray(records.samples).mean(axis=0)]}
        (next(folders) / "notes").write_text(str(len(records)))
        return honest(records, question, *arguments, **named)

    monkeypatch.setattr("recordwise.distiller.vote", keeps)
    neighbours, samples, labels = NEIGHBOURS["removed"]
    before = left(X, Y, POOL, tmp_path / "before", neighbours)
    found = differences(before, left(samples, labels, POOL, tmp_path / "after", neighbours))
    assert {"fitted.encoder_.aside['means'][0]", "notes", "pickle", "published pickle"} <= set(found)


def test_nothing_that_a_job_leaves_depends_on_a_record(tmp_path: Path) -> None:
    neighbours, samples, labels = NEIGHBOURS["replaced"]
    outcomes = []
    for name, (part, classes) in {"before": (X, Y), "after": (samples, labels)}.items():
        folder = tmp_path / name
        folder.mkdir()
        np.savez(folder / "records.npz", X=part, y=classes)
        np.savez(folder / "pool.npz", X=POOL)
        (folder / "job.toml").write_text(
            '[private]\npath = "records.npz"\nsamples = "X"\nlabels = "y"\n[public]\npath = "pool.npz"\nsamples = "X"\n'
            f'[privacy]\nepsilon = 2.0\nneighbours = "{neighbours}"\n[method]\nclasses = [0, 1]\nnum_queries = 6\n'
        )
        out = run_job(read_job(folder / "job.toml"), Silent(), go_on=True).folder
        found = files(out)
        del found["ledger.sqlite"]  # its rows are compared, but for the time
        with sqlite3.connect(out / "ledger.sqlite") as connection:
            rows = connection.execute(
                "SELECT budget, key, event, guarantee, spent, note, digest, payload FROM recordwise_releases"
            )
            outcomes.append({**found, "rows": rows.fetchall()})
        connection.close()
    for outcome in outcomes:  # the ledger's entry tells when
        told = json.loads(outcome.pop("summary.json"))
        told.pop("ledger")
        outcome["told"] = told
        del outcome["report.html"], outcome["released-1"]
    assert differences(*outcomes) == []
