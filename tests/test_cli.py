"""The command line, in process: what a user types, what comes back, what it costs."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.main import get_command
from typer.testing import CliRunner

from commands import Command
from recordwise import __version__, cli, load
from recordwise.cli.holder import nobody_told
from recordwise.cli.main import app
from recordwise.cli.options import flowing, progress_of
from recordwise.demo import run_demo
from recordwise.errors import InvalidInput
from recordwise.privacy.ledger import Ledger
from recordwise.progress import Bars, Silent
from recordwise.randomness import seeded


def recordwise(*arguments: str | Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of `recordwise arguments`."""
    monkeypatch.setattr(sys, "argv", ["recordwise", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as done:
        return int(done.code or 0)
    return 0


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job file with its data beside it."""
    digits = load_digits()
    order = seeded(0, "cli").permutation(len(digits.data))
    pool, records, test = np.split(order, [600, 1500])
    np.savez(tmp_path / "records.npz", X=digits.data[records], y=digits.target[records])
    np.savez(tmp_path / "pool.npz", X=digits.data[pool])
    np.savez(tmp_path / "test.npz", X=digits.data[test], y=digits.target[test])
    file = tmp_path / "job.toml"
    file.write_text("""
[private]
path = "records.npz"
labels = "y"

[public]
path = "pool.npz"

[test]
path = "test.npz"
labels = "y"

[privacy]
epsilon = 2.0

[account]
ledger = "ledger.sqlite"
budget = "digits"
budget_epsilon = 3.0

[method]
num_queries = 40
classes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
""")
    return file


def test_a_job_leaves_a_student_labels_a_summary_and_a_page(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recordwise("run", job, "--json", monkeypatch=monkeypatch) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["private"] and summary["guarantee"]["epsilon"] == 2.0
    assert summary["test_accuracy"] > 0.75 > 0.2 > summary["scores"]["majority"]
    assert len(summary["scores"]["classes"]) == 10 and summary["verdict"]["level"] == "clear"
    folder = job.parent / "runs" / "job"
    lines = (folder / "labels.csv").read_text().splitlines()
    assert lines[0] == "sample,label,confidence" and len(lines) == 601
    assert "<html" in (folder / "report.html").read_text()

    student = load(folder)
    test = np.load(job.parent / "test.npz")
    assert student.score(test["X"], test["y"]) == pytest.approx(summary["test_accuracy"])
    assert Ledger.open(job.parent / "ledger.sqlite").spent("digits") == 2


def test_nothing_private_is_written(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact tally is what the noise hides: it is in no file that a run leaves behind, nor are the votes."""
    from recordwise.protocols.central import counts as central

    seen: list[np.ndarray] = []
    total = central.Central._total

    def spy(self: object, messages: object) -> np.ndarray:
        seen.append(total(self, messages))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(central.Central, "_total", spy)
    assert recordwise("run", job, monkeypatch=monkeypatch) == 0
    (counts,) = seen
    forms = [counts.astype(kind).tobytes() for kind in (np.int64, np.int32, np.float64)]
    forms.append(", ".join(map(str, counts.ravel()[:40])).encode())
    inputs = {"records.npz", "pool.npz", "test.npz"}
    written = [path for path in job.parent.rglob("*") if path.is_file() and path.name not in inputs]
    assert len(written) >= 6
    for path in written:
        assert not any(form in path.read_bytes() for form in forms), path


def test_a_second_run_of_a_job_pays_nothing_and_repeats_the_release(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tallies = []
    for _ in range(2):
        assert recordwise("run", job, "--json", monkeypatch=monkeypatch) == 0
        tallies.append(json.loads(capsys.readouterr().out)["rounds"][0]["tally"])
    assert tallies[0] == tallies[1]
    assert Ledger.open(job.parent / "ledger.sqlite").spent("digits") == 2


@pytest.mark.usefixtures("quick_plans")
def test_the_holder_alone_is_told_who_abstained(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(
        job.read_text().replace("7, 8, 9]", "7, 8]").replace('[test]\npath = "test.npz"\nlabels = "y"\n', "")
    )
    assert recordwise("run", job, monkeypatch=monkeypatch) == 0
    told, nines = capsys.readouterr(), int((np.load(job.with_name("records.npz"))["y"] == 9).sum())
    assert f"{nines} of 900 records abstain: {nines} with a class that is not declared\n" in told.err
    assert "for the holder" not in told.out and "abstain" not in told.out
    for path in (job.parent / "runs" / "job").rglob("*"):
        assert not path.is_file() or b"not declared" not in path.read_bytes(), path


def test_a_job_the_budget_cannot_pay_is_refused_in_one_line(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recordwise("run", job, monkeypatch=monkeypatch) == 0
    other = job.with_name("other.toml")
    other.write_text(job.read_text())
    capsys.readouterr()
    assert recordwise("run", other, monkeypatch=monkeypatch) == 5
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("recordwise: ") and "1" in error and "budget" in error
    assert not (job.parent / "runs" / "other" / "report.html").exists()


def test_a_killed_job_goes_on_and_pays_once(job: Path) -> None:
    """kill -9 as soon as it has begun, and as soon as it has released; then one charge and one release are there."""
    log = job.with_name("log")
    for sign in ("run.json", "released-1"):
        process = Command("run", "--anyway", str(job), log=log)
        while process.poll() is None and not (job.parent / "runs" / "job" / sign).exists():
            time.sleep(0.01)
        process.kill()
        process.wait(600)
    assert Command("run", "--anyway", str(job), log=log).wait(600) == 0, log.read_text()
    ledger = Ledger.open(job.parent / "ledger.sqlite")
    assert ledger.spent("digits") == 2 and len(ledger.history("digits")) == 1
    assert (job.parent / "runs" / "job" / "report.html").exists()


def test_the_ledger_is_opened_and_shown_and_reading_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "ledger.sqlite"
    opening = ["ledger", "open", place, "--budget", "b", "--epsilon", "1"]
    assert recordwise(*opening, "--json", monkeypatch=monkeypatch) == 0
    opened = {"budget": "b", "epsilon": 1.0, "delta": 0.0, "neighbours": "replace"}
    assert json.loads(capsys.readouterr().out) == opened
    before = place.read_bytes()
    assert recordwise("ledger", "show", place, monkeypatch=monkeypatch) == 0
    assert "epsilon 0 of 1 spent" in capsys.readouterr().out
    assert recordwise("ledger", "show", place, "--json", monkeypatch=monkeypatch) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["budgets"]["b"]["left"] == 1
    assert recordwise("ledger", "verify", place, "--json", monkeypatch=monkeypatch) == 0
    verified = json.loads(capsys.readouterr().out)
    assert verified["head"] == shown["head"] and verified["signed"] is True and verified["notes"]
    assert place.read_bytes() == before
    assert recordwise("ledger", "show", tmp_path / "none.sqlite", monkeypatch=monkeypatch) == 6
    assert not (tmp_path / "none.sqlite").exists()


def test_a_page_is_written_again_from_a_summary(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recordwise("run", job, monkeypatch=monkeypatch) == 0
    folder, told = job.parent / "runs" / "job", capsys.readouterr().out
    for said in (
        "In odds: ",
        "Labels are clear: ",
        "queries asked: 40",
        "encoder: ",
        "test set: ",
        "the commonest class",
    ):
        assert said in told
    assert "The account is the ledger that the owner named" in told
    page = (folder / "report.html").read_text()
    (folder / "report.html").unlink()
    assert recordwise("report", folder, monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == told, "the same figures again"
    assert (folder / "report.html").read_text() == page
    assert recordwise("report", folder, "--json", monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "summary.json").read_text())
    assert recordwise("report", job.parent, monkeypatch=monkeypatch) == 2


def test_amplify_prints_every_accountant_and_the_inverse(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["amplify", "--senders", "30000", "--epsilon0", "1", "--delta", "1e-6", "--json"]
    assert recordwise(*arguments, monkeypatch=monkeypatch) == 0
    answers = {one["accountant"]: one for one in json.loads(capsys.readouterr().out)["answers"]}
    # The published figures for this case: Feldman, McMillan, Talwar 2021 (.129, .030); Wang et al. (.024).
    assert answers["closed form"]["upper"] == pytest.approx(0.129, abs=0.0005)
    assert answers["FMT numerical"]["upper"] <= 0.0305
    assert answers["variation-ratio, any mechanism"]["upper"] <= 0.0245
    assert all(one["lower"] <= one["upper"] and one["largest_epsilon0"] > 0 for one in answers.values())
    assert recordwise(*arguments[:-1], "--mechanism", "collision", monkeypatch=monkeypatch) == 0
    assert "this mechanism" in capsys.readouterr().out
    assert recordwise(*arguments, "--mechanism", "magic", monkeypatch=monkeypatch) == 2


def test_without_a_pool_a_plan_is_rough(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--num-records", "5000", "--num-classes", "5", "--epsilon", "1", "--num-queries", "20"]
    assert recordwise(*arguments, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert "->" in said and said.startswith("Rough")
    assert recordwise(*arguments, "--json", monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["recommended"]["num_queries"] == 20


def unreadable(job: Path) -> None:
    """Nobody could read the private records now; that they are there is all that can be seen."""
    (job.parent / "records.npz").write_bytes(b"not for you")


def test_a_plan_looks_at_the_pool_and_at_nothing_private(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unreadable(job)
    job.write_text(job.read_text() + 'decoder = "argmax"\nstudent = "linear"\n')  # quick to try out
    assert recordwise("plan", job, "--num-records", "900", "--json", monkeypatch=monkeypatch) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["recommended"]["num_queries"] == 40 and 0.1 < told["recommended"]["student_accuracy"]["mean"] < 1
    assert recordwise("plan", job, monkeypatch=monkeypatch) == 2
    assert "records.expected" in capsys.readouterr().err
    assert not (job.parent / "runs").exists() and not (job.parent / "ledger.sqlite").exists()


@pytest.mark.usefixtures("quick_plans")
def test_a_check_says_where_a_run_would_stop_and_reads_nothing_private(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = job.read_text()
    small = told.replace("epsilon = 2.0", "epsilon = 0.002")
    assert small != told
    job.write_text(small)
    assert recordwise("run", job, monkeypatch=monkeypatch) == 2
    said = capsys.readouterr().err
    assert "the budget would go on noise" in said and "--anyway" in said
    assert not (job.parent / "runs").exists() and not (job.parent / "ledger.sqlite").exists()
    assert recordwise("run", job, "--anyway", monkeypatch=monkeypatch) == 0
    assert "go on noise" not in capsys.readouterr().err  # whoever says so has seen it
    unreadable(job)
    assert recordwise("check", job, "--num-records", "900", "--json", monkeypatch=monkeypatch) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [one["about"] for one in found if one["stops"]] == ["budget"]
    job.write_text(told)
    assert recordwise("check", job, monkeypatch=monkeypatch) == 0
    assert "the number of records is not stated" in capsys.readouterr().out
    (job.parent / "records.npz").unlink()
    assert recordwise("check", job, monkeypatch=monkeypatch) == 2
    assert "does not exist" in capsys.readouterr().err


MISTAKES = [
    ("epsilon = 2.0", 'epsilon = "lots"', "privacy.epsilon"),
    ("epsilon = 2.0", "epsilon = -1.0", "epsilon must be > 0"),
    ("num_queries = 40", "num_queries = 40\nspeed = 9", "method.speed"),
    ('labels = "y"', 'labels = "z"', "[private]"),
    ('path = "pool.npz"', 'path = "nowhere.npz"', "[public]"),
    ("[public]", "[publik]", "publi"),
    ("num_queries = 40", "num_queries = 4000", "num_queries"),
    ("[privacy]", "[privacy", "not TOML"),
    ("num_queries = 40", 'num_queries = 40\nstudent = {name = "counts", class_weight = {12 = 3}}', "'12' is none of"),
    ("num_queries = 40", 'num_queries = 40\nstudent = {name = "mlp", threshold = 0.3}', "needs two classes, got 0.3"),
    ("[privacy]", "# caf\udce9\n[privacy]", "must be UTF-8"),  # a byte of another encoding
]


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES, ids=[message for *_, message in MISTAKES])
def test_a_mistake_in_a_job_file_is_one_line_and_spends_nothing(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], right: str, wrong: str, message: str
) -> None:
    job.write_text(job.read_text().replace(right, wrong, 1), errors="surrogateescape")
    assert recordwise("run", job, monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("recordwise: ") and message in error
    place = job.parent / "ledger.sqlite"
    if place.exists():
        ledger = Ledger.open(place)
        assert all(ledger.spent(budget.name) == 0 for budget in ledger.budgets())


def test_help_teaches_and_an_unknown_command_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recordwise("run", "--help", monkeypatch=monkeypatch) == 0
    assert "[private]" in capsys.readouterr().out
    assert recordwise("fly", monkeypatch=monkeypatch) == 2


HEAVY = {"torch", "flwr", "sklearn", "scipy", "pandas", "dp_accounting", "opendp", "ray", "onnxruntime"}


def test_importing_the_package_and_the_command_is_quick() -> None:
    """Heavy packages are loaded by the command that needs them; the time itself is measured in benchmarks/."""
    for module in ("recordwise", "recordwise.cli"):
        code = f"import sys, {module}; print(sorted({HEAVY | {'sqlalchemy'}!r} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


LIGHT = [
    "--version",
    "ledger open kept --budget ours --epsilon 1",
    "ledger show kept",
    "ledger verify kept",
    "ledger forget kept",
    "coordinator init hub",
    "silo init north --name north",
    "coordinator register hub north/node.crt",
    "silo offers north",
    "shuffler init mixer --name mixer",
]


def test_a_command_that_computes_nothing_loads_nothing_that_computes(tmp_path: Path) -> None:
    code = f"""
import sys
from recordwise.cli import app
for line in {LIGHT!r}:
    app(line.split(), standalone_mode=False)
    print(line, sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr.splitlines() == [f"{line} []" for line in LIGHT]


def test_a_folder_that_cannot_be_written_is_one_line(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (job.parent / "runs").write_text("a file where a folder should be")
    assert recordwise("run", job, monkeypatch=monkeypatch) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]  # after the steps of the plan
    assert line.startswith("recordwise: ") and "runs" in line


def test_help_shows_a_job_file_without_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recordwise("run", "--help", monkeypatch=monkeypatch)
    shown = capsys.readouterr().out
    assert "[private]" in shown and "\\b" not in shown and "\b" not in shown


def test_help_is_broken_by_the_terminal_and_a_job_file_by_its_lines() -> None:
    written = """First
    line.

    \\[private]
    path = "x"
    """
    assert flowing(written) == 'First line.\n\n\\[private]\npath = "x"'


def test_replays_of_an_audit_tell_the_holder_nothing(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("recordwise.records")
    with nobody_told():
        log.warning("about a record that was made up")
    assert caplog.messages == []
    log.warning("about a record")
    assert caplog.messages == ["about a record"]


def test_an_audit_passes_a_healthy_protocol_and_fails_a_broken_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from recordwise.protocols.central import CentralLaplace

    arguments = ["audit", "--epsilon", "1", "--num-queries", "2", "--num-classes", "2", "--trials", "4000", "--json"]
    assert recordwise(*arguments, monkeypatch=monkeypatch) == 0
    assert json.loads(capsys.readouterr().out)["violated"] is False
    half = property(lambda self: type(law(self))(law(self).scale / 2))
    law = CentralLaplace.law.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(CentralLaplace, "law", half)
    assert recordwise(*arguments, monkeypatch=monkeypatch) == 1
    assert json.loads(capsys.readouterr().out)["violated"] is True


def test_a_run_prints_the_ledger_s_head_and_verify_finds_it(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = job.parent / "ledger.sqlite"
    assert recordwise("run", job, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    head = Ledger.open(place).verify().head
    assert f"ledger's head: {head.digest}, entry {head.count}" in said
    assert head.digest in next(job.parent.glob("**/report.html")).read_text()
    assert recordwise("ledger", "verify", place, "--head", head.digest, monkeypatch=monkeypatch) == 0
    said = capsys.readouterr().out
    assert f"every entry is as it was written; head: {head}" in said and "which is here" in said
    assert recordwise("ledger", "verify", place, "--head", "0" * 64, monkeypatch=monkeypatch) == 6
    monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "elsewhere"))
    assert recordwise("ledger", "verify", place, monkeypatch=monkeypatch) == 0
    assert "which is not here" in capsys.readouterr().out
    assert recordwise("ledger", "sign", place, "--head", head.digest, monkeypatch=monkeypatch) == 0
    assert recordwise("ledger", "verify", place, monkeypatch=monkeypatch) == 0
    assert "signed anew with key" in capsys.readouterr().out
    place.unlink()
    assert recordwise("ledger", "open", place, "--budget", "b", "--epsilon", "1", monkeypatch=monkeypatch) == 6
    assert "it is gone; put it back" in capsys.readouterr().err
    assert recordwise("ledger", "forget", place, monkeypatch=monkeypatch) == 0
    assert recordwise("ledger", "open", place, "--budget", "b", "--epsilon", "1", monkeypatch=monkeypatch) == 0


def test_a_budget_that_is_a_mistake_makes_no_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "ledger.sqlite"
    assert recordwise("ledger", "open", place, "--budget", "us", "--epsilon", "0", monkeypatch=monkeypatch) == 2
    assert "epsilon must be > 0, got 0" in capsys.readouterr().err
    assert not place.exists()


def every_command() -> list[list[str]]:
    """Each command as it is typed, without what follows."""
    from typer.main import get_command

    def below(command: Any, path: list[str]) -> list[list[str]]:
        inner = getattr(command, "commands", {})
        return [path, *(found for name in inner for found in below(inner[name], [*path, name]))]

    return below(get_command(cli.app), [])


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_wrong_usage_is_one_line_that_says_where_help_is(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recordwise(*command, "--no-such-option", monkeypatch=monkeypatch) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("recordwise: No such option") and "--no-such-option" in said.err
    assert " ".join(["recordwise", *command, "--help"]) in said.err


def test_a_missing_option_and_a_wrong_value_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, named in [
        (["plan"], "--num-records"),
        (["plan", "--num-records", "many", "--num-classes", "2", "--epsilon", "1"], "'--num-records'"),
        (["run", "a.toml", "b.toml"], "b.toml"),
        (["fly"], "'fly'"),
    ]:
        assert recordwise(*arguments, monkeypatch=monkeypatch) == 2
        said = capsys.readouterr().err
        assert said.startswith("recordwise: ") and said.count("\n") == 1 and named in said


def test_the_version_is_the_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert recordwise("--version", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == f"recordwise {__version__}\n"


def test_an_unexpected_fault_is_one_line_that_quotes_nothing(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(path: Path) -> None:
        raise RuntimeError("could not convert: age 47, flu")

    monkeypatch.setattr("recordwise.job.read_job", fails)
    assert recordwise("run", job, monkeypatch=monkeypatch) == 70
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "unexpected fault (RuntimeError)" in told and "RECORDWISE_TRACEBACK=1" in told
    assert "flu" not in told
    monkeypatch.setenv("RECORDWISE_TRACEBACK", "1")
    with pytest.raises(RuntimeError, match="flu"):
        recordwise("run", job, monkeypatch=monkeypatch)


def test_whatever_a_message_holds_it_is_one_printable_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recordwise("run", tmp_path / "a\nb\x1b[31m\u202e", monkeypatch=monkeypatch) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and told.strip().isprintable()


def without(option: str, command: Any, name: str = "") -> list[str]:
    """The commands that do not have an option."""
    if hasattr(command, "commands"):
        parts = command.commands.items()
        return [one for part, inner in parts for one in without(option, inner, f"{name} {part}".strip())]
    return [] if any(option in one.opts for one in command.params) else [name]


def test_progress_can_be_left_out_everywhere() -> None:
    assert not without("--quiet", get_command(app))
    assert type(progress_of(True)) is Silent and type(progress_of(False)) is Bars


@pytest.mark.parametrize(
    "command", ["audit --epsilon 1 --trials 200", "amplify --senders 3000 --epsilon0 1 --delta 1e-6"]
)
def test_progress_is_beside_the_answer_and_not_in_it(command: str) -> None:
    shown, quiet = (CliRunner().invoke(app, [*command.split(), "--json", *more]) for more in ([], ["--quiet"]))
    assert shown.exit_code == quiet.exit_code == 0
    assert " ...\n" in shown.stderr and not quiet.stderr
    assert json.loads(shown.stdout).keys() == json.loads(quiet.stdout).keys()


def test_every_command_that_ends_can_answer_machines() -> None:
    """Parties that run until they are stopped write a log instead."""
    assert set(without("--json", get_command(app))) == {"silo run", "shuffler run"}


def test_parties_answer_machines(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    for party, more in (("coordinator", []), ("silo", ["--name", "north"]), ("shuffler", ["--name", "mix"])):
        told = CliRunner().invoke(app, [party, "init", str(tmp_path / party), *more, "--json"])
        assert told.exit_code == 0 and json.loads(told.stdout)["settings"].endswith(f"{party}.toml")
    node = json.loads(told.stdout)["certificate"]
    told = CliRunner().invoke(app, ["coordinator", "register", str(tmp_path / "coordinator"), node, "--json"])
    assert len(json.loads(told.stdout)["registered"]) == 1
    assert json.loads(CliRunner().invoke(app, ["silo", "offers", str(tmp_path / "silo"), "--json"]).stdout) == {
        "offers": []
    }


def test_the_demo_looks_at_its_folder_before_it_works(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(InvalidInput, match="--out must be a folder that can be written to"):
        run_demo(tmp_path / "taken", seed=0, progress=Silent())
