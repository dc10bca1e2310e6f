"""A run's folder in which a file is damaged: it goes on, or ends in one line; it never pays twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from damage import Damage, damaged
from ended import none_of, recordwise
from tiny import JOB, charges, document, fill

from counts import Counted

BEGUN = ("run.json", "encoder", "queries")  # what a run keeps before it releases anything


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job that was carried out, and one that was killed before its release."""
    folder = tmp_path_factory.mktemp("finished")
    fill(folder, odd=False)
    payer = {"ledger": "ledger.sqlite", "budget": "us", "budget_epsilon": 100.0}
    for name in ("done", "begun"):
        job = {**JOB, "account": payer, "method": {**JOB["method"], "random_state": len(name)}}
        (folder / f"{name}.toml").write_text(document(job))
        ended = recordwise("run", "--anyway", f"{name}.toml", within=folder)
        assert ended.code == 0, ended.err
        if name == "done":
            shutil.copy(folder / "ledger.sqlite", folder / "before.sqlite")
    for path in (folder / "runs" / "begun").iterdir():
        if not path.name.startswith(BEGUN):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder / "before.sqlite").replace(folder / "ledger.sqlite")  # the second job's charge never happened
    return folder


def mistakes(finished: Path, folder: Path, cases: list[tuple[str, Damage]], run: str) -> list[str]:
    found = []
    for number, (name, damage) in enumerate(cases):
        world = folder / str(number)
        shutil.copytree(finished, world, symlinks=True)
        damage(world / "runs" / run)
        again = recordwise("run", "--anyway", f"{run}.toml", within=world)
        page = recordwise("report", f"runs/{run}", within=world)
        paid = charges(world)
        found += [f"{name}: {ended.mistake}" for ended in (again, page) if ended.mistake]
        if paid != (1 if run == "done" or again.code else 2):
            found.append(f"{name}: {paid} charges, exit code {again.code}: {again.err}")
        shutil.rmtree(world)
    return found


def test_a_damaged_run_goes_on_or_ends_in_one_line(finished: Path, tmp_path: Path) -> None:
    none_of(mistakes(finished, tmp_path, list(damaged(finished / "runs" / "done"))[::11], "done"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("run", ["done", "begun"])
def test_every_damaged_run_goes_on_or_ends_in_one_line(
    finished: Path, tmp_path: Path, run: str, counted: Counted
) -> None:
    cases = list(damaged(finished / "runs" / run))
    assert len(cases) >= 34
    found = mistakes(finished, tmp_path, cases, run)
    counted("damaged folders of runs", len(cases), len(found))
    none_of(found)
