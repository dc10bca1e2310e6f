"""Parts that another package brings are asked for by name, in Python and in a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordwise.distiller import PrivateDistiller
from recordwise.encoders import Scaler
from recordwise.errors import InvalidInput
from recordwise.job import read_job
from recordwise.labels.argmax import decode_argmax
from recordwise.progress import Silent
from recordwise.queries import KMeansQueries, Queries
from recordwise.randomness import seeded
from recordwise.run import run_job
from recordwise.students import Linear


class TheirScaler(Scaler):  # type: ignore[misc]
    """An encoder of theirs."""


class TheirQueries:
    def __init__(self, count: int = 5) -> None:
        self.count = count

    def ask(self, pool: Any) -> Queries:
        return KMeansQueries(num_queries=self.count, seed=7).ask(pool)


class Found:
    def __init__(self, name: str, part: Any) -> None:
        self.name, self.part = name, part

    def load(self) -> Any:
        return self.part


THEIRS = {
    "recordwise.encoders": Found("their-scaler", TheirScaler),
    "recordwise.queries": Found("their-queries", TheirQueries),
    "recordwise.decoders": Found("their-decoder", decode_argmax),
    "recordwise.students": Found("their-student", Linear),
}


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recordwise.plugins.entry_points", lambda group: [THEIRS[group]] if group in THEIRS else [])


RNG = seeded(0, "plugins")
TRUTH = np.arange(300) % 3
POINTS = 8.0 * np.eye(3)[TRUTH] + RNG.normal(size=(300, 3))


@pytest.mark.usefixtures("_installed")
def test_every_part_of_another_package_is_asked_for_by_name(tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "encoder": "their-scaler",
        "queries": {"name": "their-queries", "count": 9},
        "decoder": "their-decoder",
        "student": "their-student",
    }
    model = PrivateDistiller(9.0, num_queries=9, classes=[0, 1, 2], **parts)
    model.fit(POINTS[:200], TRUTH[:200], X_public=POINTS[200:])
    assert isinstance(model.encoder_, TheirScaler) and isinstance(model.student_, Linear)
    assert len(model.rounds_[0].queries) == 9 and model.rounds_[0].labels.decoder == "argmax"
    assert model.score(POINTS, TRUTH) > 0.9
    np.savez(tmp_path / "records.npz", X=POINTS[:200], y=TRUTH[:200])
    np.savez(tmp_path / "pool.npz", X=POINTS[200:])
    (tmp_path / "job.toml").write_text(
        '[private]\npath = "records.npz"\nsamples = "X"\nlabels = "y"\n[public]\npath = "pool.npz"\n[privacy]\n'
        'epsilon = 9.0\n[method]\nclasses = [0, 1, 2]\nnum_queries = 9\nencoder = "their-scaler"\n'
        'queries = {name = "their-queries", count = 9}\ndecoder = "their-decoder"\nstudent = "their-student"\n'
    )
    done = run_job(read_job(tmp_path / "job.toml"), Silent(), go_on=True)
    assert isinstance(done.distiller.student_, Linear)


@pytest.mark.parametrize("part", ["encoder", "queries", "decoder", "student"])
def test_what_nobody_brings_is_refused(part: str) -> None:
    parts: dict[str, Any] = {part: f"their-{part}"}
    with pytest.raises(InvalidInput, match=f"{part} must be"):
        PrivateDistiller(9.0, num_queries=9, **parts).fit(POINTS, TRUTH, X_public=POINTS)
