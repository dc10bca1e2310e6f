"""One command compares all methods on a job's data: it says what that costs, charges it, and pays nothing twice."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from recordwise.baselines import rivals
from recordwise.cli.main import app
from recordwise.compare import PAGE, TABLE, compare_job, entries, price
from recordwise.errors import BudgetExceeded, InvalidInput
from recordwise.job import read_job
from recordwise.privacy.ledger import Ledger
from recordwise.randomness import seeded

pytestmark = pytest.mark.usefixtures("quick_plans")

METHODS = '["recordwise", "dp-linear", "ind-knn"]'
STEADY = {"recordwise", "dp-linear"}  # 99 % right in every run; ind-knn, under the system's noise, from 50 to 100 %


def job_file(folder: Path, *, compare: str = "", more: str = "", public_labels: str = "") -> Path:
    rng = seeded(0, "compare")
    truth = rng.integers(0, 3, 900)
    points = (6 * np.eye(3, 4)[truth] + rng.normal(size=(900, 4))).astype(np.float32)
    for name, part in (("records", slice(0, 400)), ("pool", slice(400, 700)), ("test", slice(700, 900))):
        np.savez(folder / f"{name}.npz", X=points[part], y=truth[part])
    path = folder / "job.toml"
    path.write_text(
        f"""
[private]
path = "records.npz"
labels = "y"
[public]
path = "pool.npz"
samples = "X"
{public_labels}
[test]
path = "test.npz"
labels = "y"
[privacy]
epsilon = 4.0
[method]
classes = [0, 1, 2]
{compare}
{more}
"""
    )
    return path


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_one_command_gives_one_table_one_figure_and_its_price(tmp_path: Path) -> None:
    path = job_file(tmp_path, compare=f"[compare]\nmethods = {METHODS}")
    done = run("compare", path)
    assert done.exit_code == 0, done.output
    assert "3 releases about the same records: epsilon 12 and delta 2e-05 in all" in done.stderr
    out = tmp_path / "runs" / "job"
    page = (out / PAGE).read_text()
    assert page.count("<svg") == 1 and "12 and delta 2e-05" in page
    rows = {row["method"]: row for row in json.loads((out / TABLE).read_text())["rows"]}
    assert set(rows) == {"recordwise", "dp-linear", "ind-knn"}
    for name, row in rows.items():
        assert row["accuracy"] > (0.8 if name in STEADY else 0), name
        assert row["neighbours"] == "replace"
        assert row["protects"] and row["public"] and row["rounds"] and row["data_dependent"]
        assert name in done.stdout
    assert rows["recordwise"]["delta"] == 0 and rows["dp-linear"]["delta"] == 1e-5
    (budget,) = Ledger.open(out / "compare" / "ledger.sqlite").budgets()
    history = Ledger.open(out / "compare" / "ledger.sqlite").history(budget.name)
    assert len(history) == 3 and budget.epsilon == 12


def test_run_again_it_pays_nothing_and_says_the_same(tmp_path: Path) -> None:
    job = read_job(job_file(tmp_path, compare=f"[compare]\nmethods = {METHODS}"))
    first, again = compare_job(job), compare_job(job)
    assert [row.accuracy for row in first.rows] == [row.accuracy for row in again.rows]
    assert job.out is not None
    assert len(Ledger.open(job.out / "compare" / "ledger.sqlite").history("default")) == 3


def test_a_budget_that_cannot_pay_for_all_pays_for_nothing(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    Ledger.open(ledger).open_budget("b", epsilon=9, delta=1e-3)
    pays = '[account]\nledger = "ledger.sqlite"\nbudget = "b"'
    job = read_job(job_file(tmp_path, compare=f"[compare]\nmethods = {METHODS}", more=pays))
    with pytest.raises(BudgetExceeded, match="this comparison"):
        compare_job(job)
    assert not Ledger.open(ledger).history("b")


def test_public_only_opens_nothing_private_and_costs_nothing(tmp_path: Path) -> None:
    path = job_file(tmp_path, compare=f"[compare]\nmethods = {METHODS}", public_labels='labels = "y"')
    (tmp_path / "records.npz").unlink()
    (tmp_path / "test.npz").unlink()
    done = run("compare", path, "--public-only", "--json")
    assert done.exit_code == 0, done.output
    assert "costs nothing" in done.stderr
    found = json.loads(done.stdout)
    assert found["public_only"] and {row["method"] for row in found["rows"]} == {*STEADY, "ind-knn"}
    assert all(row["accuracy"] > (0.8 if row["method"] in STEADY else 0) for row in found["rows"])
    assert not (tmp_path / "runs" / "job" / "compare").exists()


def test_public_only_takes_the_test_set_where_the_pool_has_no_labels(tmp_path: Path) -> None:
    path = job_file(tmp_path, compare='[compare]\nmethods = ["recordwise", "objective-perturbation"]')
    (tmp_path / "records.npz").unlink()
    made = compare_job(read_job(path), public_only=True)
    assert {row.method: row.refusal for row in made.rows} == dict.fromkeys(("recordwise", "objective-perturbation"), "")
    first, _, ours, theirs = made.as_text().splitlines()
    assert (
        len({line.index(word) for line, word in ((first, "neighbours"), (ours, "replace"), (theirs, "replace"))}) == 1
    )
    text = path.read_text()
    path.write_text(text[: text.index("[test]")] + text[text.index("[privacy]") :])
    said: list[str] = []
    with pytest.raises(InvalidInput, match=r"public\.labels must name where they are, or \[test\] hold some"):
        compare_job(read_job(path), public_only=True, tell=said.append)
    assert not said


def test_public_only_deals_out_the_samples_that_have_a_label(tmp_path: Path) -> None:
    path = job_file(tmp_path, compare='[compare]\nmethods = ["recordwise"]', public_labels='labels = "y"')
    held = dict(np.load(tmp_path / "pool.npz"))
    known = np.where(np.arange(300) < 200, held["y"].astype(str), "")
    np.savez(tmp_path / "pool.npz", X=held["X"], y=known)
    (row,) = compare_job(read_job(path), public_only=True).rows
    assert row.accuracy is not None and row.accuracy > 0.8  # were gaps scored too, it could not be above 0.67
    np.savez(tmp_path / "pool.npz", X=held["X"], y=np.where(np.arange(300) < 200, held["y"], np.nan))
    assert compare_job(read_job(path), public_only=True).rows[0].accuracy == row.accuracy  # 1.0 is class 1
    np.savez(tmp_path / "pool.npz", X=held["X"], y=np.where(np.arange(300) < 1, known, ""))
    with pytest.raises(InvalidInput, match="more samples with a label to deal out, got 1"):
        compare_job(read_job(path), public_only=True)


def test_several_epsilons_make_curves_and_add_up(tmp_path: Path) -> None:
    job = read_job(
        job_file(tmp_path, compare='[compare]\nmethods = ["recordwise", "dp-linear"]\nepsilons = [1.0, 4.0]')
    )
    assert price(job).epsilon == 10
    made = compare_job(job)
    assert "polyline" in made.figure()
    assert [row.epsilon for row in made.ranked()] == [1, 1, 4, 4]


def test_all_methods_are_compared_unless_some_are_named(tmp_path: Path) -> None:
    named = [spec["name"] for spec, _ in entries(read_job(job_file(tmp_path)))]
    assert named == ["recordwise", *rivals()]


def test_a_method_that_refuses_is_a_row_that_says_why(tmp_path: Path) -> None:
    compare = '[compare]\nmethods = ["dp-linear", {name = "gnmax", num_queries = 1000}]'
    made = compare_job(read_job(job_file(tmp_path, compare=compare)))
    refused = next(row for row in made.rows if row.method == "gnmax")
    assert refused.accuracy is None and re.search("num_queries must be <=", refused.refusal)
    assert "refused" in made.as_text()


def test_a_method_that_fails_after_its_release_says_that_it_was_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: Any) -> None:
        raise InvalidInput("this cannot be learnt")

    monkeypatch.setattr(rivals()["dp-linear"], "learn", fails)
    compare = '[compare]\nmethods = ["dp-linear", {name = "gnmax", num_queries = 1000}]'
    paid, refused = compare_job(read_job(job_file(tmp_path, compare=compare))).rows
    assert paid.refusal == "this cannot be learnt; its release is paid for"
    assert "paid for" not in refused.refusal


@pytest.mark.parametrize(
    ("compare", "more", "match"),
    [
        ('[compare]\nmethods = ["magic"]', "", "method must be one of"),
        ('[compare]\nmethods = [{name = "gnmax", techers = 3}]', "", "no setting 'techers'"),
        ('[compare]\nmethods = [{name = "recordwise", rounds = 3}]', "", "takes its settings from"),
        ('[compare]\nmethods = [{name = "knn", epsilon = 90.0}]', "", "epsilon is one for all"),
        ('[compare]\nmethods = [{name = "knn", account = {}}]', "", "account is one for all"),
        ("", "[records]\nlabels_per_record = 2", "one label per record"),
    ],
)
def test_mistakes_are_refused_before_anything_is_spent(tmp_path: Path, compare: str, more: str, match: str) -> None:
    said: list[str] = []
    with pytest.raises(InvalidInput, match=match):
        compare_job(read_job(job_file(tmp_path, compare=compare, more=more)), tell=said.append)
    assert not said
