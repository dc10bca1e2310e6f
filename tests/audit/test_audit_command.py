"""`recordwise audit`, in process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from recordwise.audit import command
from recordwise.audit.result import AuditResult
from recordwise.cli.auditing import audit
from recordwise.errors import InvalidInput
from recordwise.randomness import seeded

app = typer.Typer()
app.command()(audit)


def run(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, [*arguments, "--trials", "2000"])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome.exit_code, outcome.output


@pytest.mark.parametrize(
    "arguments",
    [
        "--trust local --mechanism collision --epsilon 1 --num-queries 10 --num-classes 10 --votes-per-record 1",
        "--trust local --mechanism questions --epsilon 1 --num-queries 4 --num-classes 4 --votes-per-record 1",
        "--epsilon 0.5 --neighbours add-remove --mechanism permute-and-flip --num-queries 4 --num-classes 3 --votes-per-record 2",
        "--epsilon 0.5 --neighbours add-remove --mechanism matching --num-queries 4 --num-classes 4 --votes-per-record 2",
        "--epsilon 1 --delta 1e-5 --mechanism gaussian",
        "--epsilon 1 --trust distributed --parties 3",
        "--epsilon 1 --delta 1e-3 --trust shuffle --num-records 500 --mechanism unary-encoding --num-queries 4 --num-classes 2",
        "--epsilon 2 --delta 1e-2 --trust shuffle --num-records 100 --mechanism multi-message --num-queries 2 --num-classes 2",
    ],
)
def test_every_trust_model_is_audited_from_the_shell(arguments: str) -> None:
    code, text = run(*arguments.split())
    assert code == 0 and "not violated" in text and "claimed" in text and "found" in text and "distance" in text
    code, text = run(*arguments.split(), "--json")
    content = json.loads(text)
    assert code == 0 and not content["violated"]
    assert content["audits"][0]["found_epsilon"] <= content["audits"][0]["claimed_epsilon"] * (1 + 1e-9)


def test_a_violation_ends_with_code_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AuditResult, "violated", True)
    code, text = run("--epsilon", "1")
    assert code == 1 and "VIOLATED" in text


def test_an_audit_without_a_claim_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--epsilon"):
        run()
    with pytest.raises(InvalidInput, match="mechanism"):
        run("--epsilon", "1", "--mechanism", "magic")


def test_a_job_is_audited_without_being_run(tmp_path: Path) -> None:
    rng = seeded(0, "job")
    y = rng.integers(3, size=90)
    x = rng.normal(size=(90, 2)) + 5 * np.eye(3)[y][:, :2]
    np.savez(tmp_path / "records.npz", X=x[:50], y=y[:50])
    np.savez(tmp_path / "pool.npz", X=x[50:])
    (tmp_path / "job.toml").write_text(
        '[private]\npath = "records.npz"\nlabels = "y"\n[public]\npath = "pool.npz"\n'
        "[privacy]\nepsilon = 1.0\n[method]\nnum_queries = 5\nrounds = 2\nclasses = [0, 1, 2]\n"
    )
    before = sorted(path.name for path in tmp_path.rglob("*"))
    verdict = command.audit_job(tmp_path / "job.toml", trials=1000, confidence=0.999999)
    assert not verdict.violated and verdict.exit_code == 0
    assert len(verdict.audits) == 1 and verdict.audits[0].claimed == 0.5  # two equal rounds share the budget
    assert verdict.pipeline is not None and "replay of 12 neighbouring data sets" in verdict.as_text()
    assert json.loads(json.dumps(verdict.as_dict()))["pipeline"]["violated"] is False
    assert sorted(path.name for path in tmp_path.rglob("*")) == before  # nothing was written, no ledger was opened
