"""A job before it is run: what is public decides, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.planner.worlds import blobs

from recordwise.errors import InvalidInput
from recordwise.job import JobFile, read_job
from recordwise.preflight import check_job, check_run, plan_job
from recordwise.progress import Silent
from recordwise.run import run_job

WORLD = blobs(3, 3.0, pool=200, records=600)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = np.array(["flu", "cold", "neither"])
    known = np.where(np.arange(200) < 60, names[WORLD.pool_labels], "")
    np.savez(tmp_path / "records.npz", X=WORLD.records, y=names[WORLD.labels])
    np.savez(tmp_path / "pool.npz", X=WORLD.pool, known=known)
    return tmp_path


def job(folder: Path, privacy: str = "epsilon = 2.0", method: str = "num_queries = 9", more: str = "") -> JobFile:
    (folder / "job.toml").write_text(
        f"""
[private]
path = "records.npz"
samples = "X"
labels = "y"
[public]
path = "pool.npz"
samples = "X"
labels = "known"
[privacy]
{privacy}
[method]
classes = ["flu", "cold", "neither"]
encoder = "scaler"
{method}
{more}
"""
    )
    return read_job(folder / "job.toml")


def test_a_plan_knows_what_the_job_declares(folder: Path) -> None:
    declared = "[plan]\nclass_shares = [0.5, 0.3, 0.2]\nattainable = 0.9\n[records]\nexpected = 600"
    quick = 'num_queries = 9\nstudent = "linear"'
    made = plan_job(job(folder, method=quick, more=declared), num_queries=[9], votes_per_record=[1])
    for words in ("600 records", "60 labelled pool samples", "declared class shares", "90.0 % attainable"):
        assert words in made.basis
    assert made.commonest == 0.5 and made.attainable.mean == pytest.approx(0.9, abs=0.03)
    with pytest.raises(InvalidInput, match=r"records\.expected"):
        plan_job(job(folder))


@pytest.mark.usefixtures("quick_plans")
def test_a_check_names_a_better_number_of_queries(folder: Path) -> None:
    found = check_job(job(folder, method="num_queries = 1"), num_records=600)
    assert any("queries would be better than 1" in one.text for one in found.findings)
    healthy = check_job(job(folder), num_records=600)
    assert not any("would be better" in one.text for one in healthy.findings)


def test_more_queries_than_samples_are_refused_before_a_look_at_the_pool(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("looked at the pool")

    monkeypatch.setattr("recordwise.preflight._outlook", never)
    many = job(folder, method="num_queries = 201", more="[records]\nexpected = 600")
    for refused in (
        lambda: plan_job(many),
        lambda: plan_job(job(folder), num_records=600, num_queries=[9, 201]),
        lambda: check_job(job(folder, method="num_queries = 201"), num_records=600),
    ):
        with pytest.raises(InvalidInput, match=r"num_queries must be <= the pool's 200 samples, got 201"):
            refused()


@pytest.mark.parametrize(("scale", "found"), [(1.0, []), (100.0, ["height"])])
def test_a_check_sets_the_test_file_beside_the_pool(tmp_path: Path, scale: float, found: list[str]) -> None:
    rng = np.random.default_rng(0)
    for name, unit in (("pool", 1.0), ("test", scale), ("records", 1.0)):
        rows = [f"{unit * rng.normal(1.7, 0.1):.3f},{rng.normal(80, 15):.3f},flu" for _ in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["height,weight,sick", *rows]))
    (tmp_path / "job.toml").write_text(
        """
private = {path = "records.csv", labels = "sick"}
public = {path = "pool.csv", samples = ["height", "weight"]}
test = {path = "test.csv", labels = "sick"}
privacy = {epsilon = 1.0}
method = {classes = ["flu", "cold"]}
"""
    )
    told = check_job(read_job(tmp_path / "job.toml"))  # no plan, for nobody says how many records there are
    assert [one.about for one in told.findings] == [*found, "records"]


def test_a_test_file_without_columns_is_not_read(folder: Path) -> None:
    np.savez(folder / "test.npz", X=WORLD.pool[:5], y=np.array(["flu"] * 5))
    asked = job(folder, more='[test]\npath = "test.npz"\nsamples = "X"\nlabels = "y"')
    (folder / "test.npz").write_bytes(b"nothing that can be read")
    assert [one.about for one in check_job(asked).findings] == ["records"]


@pytest.mark.usefixtures("quick_plans")
def test_where_their_number_is_private_it_changes_nothing(folder: Path) -> None:
    hidden = job(folder, privacy='epsilon = 2.0\nneighbours = "add-remove"', more="[records]\nexpected = 500")
    public = hidden.public.read("public")
    few, many = (check_run(hidden, public, num_records=count) for count in (1, 100_000))
    assert few == many and few.plan is not None
    assert few.plan.recommended.votes_per_query == pytest.approx(500 / 9)


@pytest.mark.usefixtures("quick_plans")
def test_a_number_that_the_owner_states_is_public_under_either_neighbours(folder: Path) -> None:
    hidden = job(folder, privacy='epsilon = 2.0\nneighbours = "add-remove"')
    made = plan_job(hidden, num_records=450, num_queries=[9], votes_per_record=[1])
    assert made.recommended.votes_per_query == pytest.approx(450 / 9)
    assert check_job(hidden, num_records=450).plan is not None
    assert check_job(hidden).plan is None


@pytest.mark.usefixtures("quick_plans")
def test_a_run_that_goes_on_keeps_its_number_of_queries_and_is_not_checked_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = job(folder, method="")
    done = run_job(asked, Silent())
    size = done.summary.settled["num_queries"]
    assert size.isdecimal()

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("checked again")

    monkeypatch.setattr("recordwise.run.check_run", never)
    again = run_job(asked, Silent())
    assert again.summary.settled["num_queries"] == size
    assert again.summary.rounds[0]["tally"] == done.summary.rounds[0]["tally"]


@pytest.mark.usefixtures("quick_plans")
def test_a_run_whose_budget_would_go_on_noise_stops_before_anything_is_written(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = job(folder, privacy="epsilon = 0.0005")
    with pytest.raises(InvalidInput, match="the budget would go on noise"):
        run_job(asked, Silent())
    assert "would go on noise" not in caplog.text, "the refusal says it, once"
    assert not (folder / "runs").exists()
    assert run_job(asked, Silent(), go_on=True).summary.guarantee["epsilon"] == 0.0005
