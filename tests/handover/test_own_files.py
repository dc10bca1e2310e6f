"""Data as users have it: from their own files to a student on someone else's desk, in six commands and no edit."""

from __future__ import annotations

import csv
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from recordwise.cli.main import app
from recordwise.randomness import seeded

Write = Callable[[Path, int], tuple[str, list[str]]]
RNG = seeded(0, "own files")
WORDS = {"money": "card balance bank payment fee loan", "music": "song album play band concert guitar"}


def csv_with_dates_and_ids(folder: Path, count: int) -> tuple[str, list[str]]:
    for name, size in (("records", count), ("pool", count), ("new", 30)):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["patient_id", "admitted", "age", "ward", "outcome"])
            for row in range(size):
                ill = row % 2
                day = f"2024-{RNG.integers(1, 13):02d}-{RNG.integers(1, 29):02d}"
                cells = [f"P{RNG.integers(10**9)}", day, round(float(RNG.normal(40 + 30 * ill, 4)), 1), "AB"[ill]]
                table.writerow([*cells, ("well", "ill")[ill]])
    return ".csv", ["--labels", "outcome"]


def photographs(folder: Path, count: int) -> tuple[str, list[str]]:
    for name, size in (("records", count // 4), ("pool", count // 4), ("new", 10)):
        for row in range(size):
            label = ("fence", "shelf")[row % 2]
            place = folder / name / label if name == "records" else folder / name
            place.mkdir(parents=True, exist_ok=True)
            light = RNG.integers(0, 60, (20, 20, 3))
            light[(slice(None), slice(None, None, 4)) if label == "fence" else slice(None, None, 4)] += 180
            Image.fromarray(light.astype(np.uint8)).save(place / f"img{row:04d}.png")
    return "", []


def text_lines(folder: Path, count: int) -> tuple[str, list[str]]:
    for name, size in (("records", count), ("pool", count), ("new", 30)):
        labels = [list(WORDS)[row % 2] for row in range(size)]
        texts = [" ".join(RNG.choice(WORDS[label].split(), 8)) for label in labels]
        (folder / f"{name}.txt").write_text("\n".join(texts) + "\n")
        (folder / f"{name}-labels.txt").write_text("\n".join(labels) + "\n")
    return ".txt", ["--labels", "records-labels.txt"]


def parquet_of_embeddings(folder: Path, count: int) -> tuple[str, list[str]]:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name, size in (("records", count), ("pool", count), ("new", 30)):
        label = np.arange(size) % 3
        vectors = RNG.normal(size=(size, 6)) + 4 * np.eye(6)[label]
        columns = {"embedding": [row.tolist() for row in vectors]} | ({"topic": label} if name == "records" else {})
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return ".parquet", ["--labels", "topic"]


def arrays(folder: Path, count: int) -> tuple[str, list[str]]:
    for name, size in (("records", count), ("pool", count), ("new", 30)):
        label = np.arange(size) % 2
        vectors = (RNG.normal(size=(size, 4)) + 5 * label[:, None]).astype(np.float32)
        np.savez(folder / f"{name}.npz", **({"x": vectors, "y": label} if name == "records" else {"x": vectors}))
    return ".npz", ["--labels", "y"]


CLASSES: dict[Write, list[str]] = {  # of the samples in turn
    csv_with_dates_and_ids: ["well", "ill"],
    photographs: ["fence", "shelf"],
    text_lines: ["money", "music"],
    parquet_of_embeddings: ["0", "1", "2"],
    arrays: ["0", "1"],
}


@pytest.mark.parametrize("write", CLASSES)
def test_from_a_users_files_to_predictions_in_six_commands(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recordwise.encoders.spec.installed", lambda: None)  # whatever lies on this machine
    monkeypatch.chdir(tmp_path)
    ending, labels = write(tmp_path, 240)
    commands = [
        ["init", "--private", f"records{ending}", "--public", f"pool{ending}", *labels, "--epsilon", "4"],
        ["check", "job.toml"],
        ["run", "job.toml"],
        ["export", f"runs/{tmp_path.name}", "--to", "given"],
        ["predict", "given", f"new{ending}", "--out", "answers.csv"],
    ]
    for command in commands:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, f"{command}: {done.output} {done.exception}"
    with (tmp_path / "answers.csv").open() as file:
        answers = list(csv.DictReader(file))
    assert len(answers) == (10 if write is photographs else 30)
    names = CLASSES[write]
    right = np.mean([answer["label"] == names[row % len(names)] for row, answer in enumerate(answers)])
    assert right > 0.75  # all but always 1; one class for all samples gives 0.5
    assert not [path for path in (tmp_path / "given").iterdir() if path.suffix in (".pkl", ".joblib")]


def test_ids_are_left_out_and_every_guess_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    csv_with_dates_and_ids(tmp_path, 240)
    arguments = ["init", "--private", "records.csv", "--public", "pool.csv", "--labels", "outcome"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    job = (tmp_path / "job.toml").read_text()
    assert "guess: without 'patient_id'" in job and 'samples = ["admitted", "age", "ward"]' in job
    assert "PRIVATE labels" in job and 'classes = ["ill", "well"]' in job
    assert CliRunner().invoke(app, arguments).exit_code != 0, "a job file is not overwritten"
    declared = [*arguments, "--classes", "well,ill,dead", "--out", "other.toml"]
    assert CliRunner().invoke(app, declared).exit_code == 0
    job = (tmp_path / "other.toml").read_text()
    assert 'classes = ["well", "ill", "dead"]' in job and "PRIVATE" not in job


def test_what_columns_are_called_adds_nothing_to_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool comes from elsewhere, and so do the names in it."""
    monkeypatch.chdir(tmp_path)
    names = ["age\n[records]\noverlap = 'abstain'\n#", "ward\r\n[privacy.trust]\nname = 'local'\n#", "a\x7fb\x01"]
    for file, more in (("records", []), ("pool", ["id\n[plan]\nattainable = 0.1\n#"])):
        with (tmp_path / f"{file}.csv").open("w", newline="") as out:
            table = csv.writer(out)
            table.writerow([*names, "outcome", *more])
            table.writerows([[row, row % 7, row % 5, ("well", "ill")[row % 2], *more] for row in range(40)])
    arguments = ["init", "--private", "records.csv", "--public", "pool.csv", "--labels", "outcome"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    job = tomllib.loads((tmp_path / "job.toml").read_text())
    assert sorted(job) == ["account", "method", "name", "privacy", "private", "public"]
    assert set(job["privacy"]) == {"epsilon"}
    assert set(job["public"]["samples"]) <= set(names)


def test_columns_are_found_by_name_and_missing_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    csv_with_dates_and_ids(tmp_path, 240)
    start = ["init", "--private", "records.csv", "--public", "pool.csv", "--labels", "outcome", "--epsilon", "4"]
    for command in (start, ["run", "job.toml"]):
        assert CliRunner().invoke(app, command).exit_code == 0
    run = f"runs/{tmp_path.name}"
    straight = CliRunner().invoke(app, ["predict", run, "new.csv"]).output
    with (tmp_path / "new.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name, columns in (("swapped", ["ward", "age", "outcome", "admitted"]), ("missing", ["ward", "age"])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, columns, extrasaction="ignore")
            table.writeheader()
            table.writerows(rows)
    assert CliRunner().invoke(app, ["predict", run, "swapped.csv"]).output == straight
    refused = CliRunner().invoke(app, ["predict", run, "missing.csv"])
    assert refused.exit_code != 0 and "admitted" in str(refused.exception)


def test_the_card_says_what_is_promised_and_what_is_public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arrays(tmp_path, 240)
    start = ["init", "--private", "records.npz", "--public", "pool.npz", "--labels", "y", "--epsilon", "2"]
    run = f"runs/{tmp_path.name}"
    for command in (start, ["run", "job.toml"], ["export", run, "--to", "given"]):
        assert CliRunner().invoke(app, command).exit_code == 0
    card = (tmp_path / "given" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: recordwise\n")
    assert "Pure differential privacy" in card and "at most 88.1 % sure" in card
    assert "was not scored" in card and "SHA-256" in card and str(tmp_path) not in card
    again = CliRunner().invoke(app, ["export", run, "--to", "given"])
    assert again.exit_code != 0 and "new or an empty folder" in str(again.exception)


def test_the_onnx_file_answers_like_the_student_without_recordwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    arrays(tmp_path, 240)
    start = ["init", "--private", "records.npz", "--public", "pool.npz", "--labels", "y", "--epsilon", "4"]
    run = f"runs/{tmp_path.name}"
    for command in (start, ["run", "job.toml"], ["export", run, "--to", "given"]):
        assert CliRunner().invoke(app, command).exit_code == 0
    rows = np.load(tmp_path / "new.npz")["x"]
    np.savetxt(tmp_path / "given" / "new.csv", rows, delimiter=",", header="a,b,c,d", comments="")
    told = subprocess.run(
        [sys.executable, "use.py"], cwd=tmp_path / "given", capture_output=True, text=True, check=True, timeout=600
    )
    answers = CliRunner().invoke(app, ["predict", "given", "new.npz"]).output.splitlines()[1:]
    assert told.stdout.strip() == str([answer.split(",")[1] for answer in answers])
