"""A run that would burn its budget on noise stops before anything is paid, unless it is told to go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.planner.worlds import blobs

from recordwise.distiller import PrivateDistiller
from recordwise.errors import InvalidInput
from recordwise.planner.noise import stands_out
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.votes import Ballot

WORLD = blobs(3, 3.0, pool=120, records=300)


def run(epsilon: float, **more: Any) -> PrivateDistiller:
    settings = {"num_queries": 6, "encoder": "scaler", "classes": range(3), "decoder": "argmax", "student": "linear"}
    return PrivateDistiller(epsilon, **{**settings, **more})


def fitted(model: PrivateDistiller, **how: Any) -> PrivateDistiller:
    return model.fit(WORLD.records, WORLD.labels, X_public=WORLD.pool, **how)


@pytest.mark.parametrize("trust", ["central", "distributed", "local"])
def test_it_stops_before_anything_is_written(tmp_path: Path, trust: str) -> None:
    paid = {"ledger": tmp_path / "ledger.sqlite", "budget_epsilon": 1.0, "run_dir": tmp_path / "run"}
    with pytest.raises(InvalidInput, match=r"the budget would go on noise: for 3 classes, 300 records and 6 queries"):
        fitted(run(0.001, trust=trust, account=paid))
    assert not list(tmp_path.iterdir())


def test_it_goes_on_where_it_is_told_to() -> None:
    assert fitted(run(0.001, account={"go_on": True})).guarantee_.private
    with pytest.raises(InvalidInput, match=r"account\.go_on must be true or false"):
        run(0.001, account={"go_on": "yes"}).settings  # noqa: B018


def test_noise_that_is_seeded_spends_nothing() -> None:
    assert not fitted(run(0.001), noise=SeededNoise(0)).guarantee_.private


def test_a_run_that_has_released_something_is_not_stopped(tmp_path: Path) -> None:
    paid = {"ledger": tmp_path / "ledger.sqlite", "budget_epsilon": 1.0, "run_dir": tmp_path / "run"}
    first = fitted(run(0.001, account={**paid, "go_on": True}))
    again = fitted(run(0.001, account=paid))
    assert (again.rounds_[0].release.tally.estimate == first.rounds_[0].release.tally.estimate).all()  # type: ignore[union-attr]


def test_where_the_number_of_records_is_private_it_decides_nothing() -> None:
    """Whether a run stops would tell it, under add-remove; a number that is stated is public."""
    assert fitted(run(0.001, neighbours="add-remove")).guarantee_.private
    with pytest.raises(InvalidInput, match="20 records"):
        fitted(run(0.05, neighbours="add-remove", records={"expected": 20}))


def test_the_pool_is_not_looked_at_where_votes_stand_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("looked at the pool")

    monkeypatch.setattr("recordwise.run_settings.look", never)
    fitted(run(1.0))


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_votes_that_stand_out_are_read_right_by_an_argmax(classes: int) -> None:
    """So no run that a simulation would stop is let through: at the border most queries are right."""
    ballot = Ballot(num_queries=10, num_classes=classes)
    protocol = CentralLaplace(ballot=ballot, epsilon=1)
    enough = next(n for n in range(1, 10_000) if stands_out(protocol, n))
    counts = np.zeros((2_000, classes))
    counts[:, 0] = enough / 10
    noise = np.random.default_rng(0).laplace(scale=2.0, size=counts.shape)
    assert ((counts + noise).argmax(axis=1) == 0).mean() > 0.5
