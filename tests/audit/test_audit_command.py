"""`recordwise audit`, in process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    return outcome.exit_code, outcome.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        "--trust local --mechanism collision --epsilon 1 --num-queries 10 --num-classes 10 --votes-per-record 1",
        "--trust local --mechanism questions --epsilon 1 --num-queries 4 --num-classes 4 --votes-per-record 1",
        "--epsilon 0.5 --neighbours add-remove --mechanism permute-and-flip"
        " --num-queries 4 --num-classes 3 --votes-per-record 2",
        "--epsilon 0.5 --neighbours add-remove --mechanism matching"
        " --num-queries 4 --num-classes 4 --votes-per-record 2",
        "--epsilon 1 --delta 1e-5 --mechanism gaussian",
        "--epsilon 1 --trust distributed --parties 3",
        "--epsilon 1 --delta 1e-3 --trust shuffle --num-records 500 --mechanism unary-encoding"
        " --num-queries 4 --num-classes 2",
        "--epsilon 2 --delta 1e-2 --trust shuffle --num-records 100 --mechanism multi-message"
        " --num-queries 2 --num-classes 2",
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
    assert verdict.pipeline is not None and "replay of 16 neighbouring data sets" in verdict.as_text()
    assert verdict.files is not None and "neighbouring files through the pipeline: not violated" in verdict.as_text()
    told = json.loads(json.dumps(verdict.as_dict()))
    assert told["pipeline"]["violated"] is told["files"]["violated"] is False
    assert sorted(path.name for path in tmp_path.rglob("*")) == before  # nothing was written, no ledger was opened


def csv_job(folder: Path) -> Path:
    """Wards are numbers among the records, and among the pool's there is a letter."""
    rng = seeded(0, "csv")
    ages, wards, y = rng.normal(50, 9, 130).round(1), rng.integers(1, 5, 130), rng.integers(2, size=130)
    pool = [
        f"{age},{'A' if row == 0 else ward}" for row, (age, ward) in enumerate(zip(ages[50:], wards[50:], strict=True))
    ]
    records = [f"{ward},{age},{label}" for age, ward, label in zip(ages[:50], wards[:50], y[:50], strict=True)]
    (folder / "pool.csv").write_text("\n".join(["age,ward", *pool]))
    (folder / "records.csv").write_text("\n".join(["ward,age,y", *records]))
    (folder / "job.toml").write_text(
        '[private]\npath = "records.csv"\nlabels = "y"\n[public]\npath = "pool.csv"\n'
        "[privacy]\nepsilon = 1.0\n[method]\nnum_queries = 5\nclasses = [0, 1]\n"
    )
    return folder / "job.toml"


def test_a_job_of_tables_is_audited_from_its_files_on(tmp_path: Path) -> None:
    verdict = command.audit_job(csv_job(tmp_path), trials=1000, confidence=0.999999)
    assert not verdict.violated, verdict.as_text()
    assert verdict.files is not None and "bytes that are no text" in verdict.files.as_text()


def test_a_reader_that_lets_one_record_decide_about_others_is_a_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a column is numbers or words is decided by all its rows, as it once was."""
    from recordwise.data.schema import Schema

    right = Schema.read

    def by_all_rows(self: Schema, samples: Any) -> Any:
        read = right(self, samples)
        records = self.kind == "table" and isinstance(samples, list) and len(samples) < 60  # the pool has 80 rows
        if records and not all(row is not None and str(row[1]).isdigit() for row in samples):
            read.samples[:, 1] = None
        return read

    job = csv_job(tmp_path)
    monkeypatch.setattr(Schema, "read", by_all_rows)
    verdict = command.audit_job(job, trials=100, confidence=0.999)
    assert verdict.violated and verdict.exit_code == 1
    assert verdict.files is not None and "other records" in verdict.files.as_text()
