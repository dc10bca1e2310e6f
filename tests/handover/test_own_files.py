"""Data as users have it: from their own files to a student on someone else's desk, in six commands and no edit."""

from __future__ import annotations

import csv
import gzip
import io
import json
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from recordwise import PrivateDistiller, save
from recordwise.cli.main import app
from recordwise.data import Loaded
from recordwise.errors import InvalidInput
from recordwise.handover import Labelled, hand_over, names_of, predict_file
from recordwise.handover.labelled import read_labelled
from recordwise.job import read_job
from recordwise.privacy.noise import SeededNoise
from recordwise.randomness import seeded

Write = Callable[[Path, int], tuple[str, list[str]]]
RNG = seeded(0, "own files")
BEGIN = RNG.bit_generator.state
WORDS = {"money": "card balance bank payment fee loan", "music": "song album play band concert guitar"}


@pytest.fixture(autouse=True)
def _draws_of_its_own() -> None:
    """Each test draws the same files, whichever ran before it."""
    RNG.bit_generator.state = BEGIN


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


def dataset_on_disk(folder: Path, count: int) -> tuple[str, list[str]]:
    """As `datasets` writes it: Arrow, and beside it which names the numbers of a column stand for."""
    pa = pytest.importorskip("pyarrow")
    text = {"dtype": "string", "_type": "Value"}
    noted = {"ticket": text, "text": text, "label": {"names": [*WORDS], "_type": "ClassLabel"}}
    for name, size in (("records", count), ("pool", count), ("new", 30)):
        label = np.arange(size) % 2
        texts = [" ".join(RNG.choice(WORDS[[*WORDS][one]].split(), 8)) for one in label]
        columns = {"ticket": [f"T{RNG.integers(10**12)}" for _ in texts], "text": texts}
        table = pa.table(columns | ({"label": label} if name == "records" else {}))
        features = {one: noted[one] for one in table.column_names}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        (folder / name).mkdir()
        path = str(folder / name / "data-00000-of-00001.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None}
        (folder / name / "state.json").write_text(json.dumps(state))
    return "", ["--labels", "label"]


GERMAN = ["Patient Nr", "Aufnahme", "Temperatur", "Ort", "Notiz", "Ergebnis"]


def german_rows(size: int) -> list[list[str]]:
    rows = []
    for row in range(size):
        ill = row % 2
        day, hour = f"{RNG.integers(1, 29):02d}.{RNG.integers(1, 13):02d}.2023", 7 + 5 * ill + int(RNG.integers(4))
        warm = f"{RNG.normal(36.6 + 2 * ill, 0.3):.1f}".replace(".", ",")
        note = f"Befund {' '.join(RNG.choice(['Husten', 'Fieber', 'seit', 'gestern'], 3))}, {row}"
        where = ("Köln", "Münster")[int(RNG.integers(2))]
        rows.append([f"P-{row:06d}", f"{day} {hour:02d}:30", warm, where, note, ("gesund", "krank")[ill]])
    return rows


def german_tables(folder: Path, count: int) -> tuple[str, list[str]]:
    for name, size in (("records", count), ("pool", count), ("new", 30)):
        with gzip.open(folder / f"{name}.csv.gz", "wt", encoding="latin-1", newline="") as file:
            csv.writer(file, delimiter=";").writerows([GERMAN, *german_rows(size)])
    return ".csv.gz", ["--labels", "Ergebnis"]


def workbooks(folder: Path, count: int) -> tuple[str, list[str]]:
    openpyxl = pytest.importorskip("openpyxl")
    for name, size in (("records", count), ("pool", count), ("new", 30)):
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet()
        sheet.append(GERMAN)
        for number, when, warm, *rest in german_rows(size):
            sheet.append([number, datetime.strptime(when, "%d.%m.%Y %H:%M"), float(warm.replace(",", ".")), *rest])
        book.save(folder / f"{name}.xlsx")
    return ".xlsx", ["--labels", "Ergebnis"]


CLASSES: dict[Write, list[str]] = {  # of the samples in turn
    csv_with_dates_and_ids: ["well", "ill"],
    photographs: ["fence", "shelf"],
    text_lines: ["money", "music"],
    parquet_of_embeddings: ["0", "1", "2"],
    arrays: ["0", "1"],
    dataset_on_disk: ["money", "music"],
    german_tables: ["gesund", "krank"],
    workbooks: ["gesund", "krank"],
}
NAMED = {
    photographs: "file",
    german_tables: "Patient Nr",
    workbooks: "Patient Nr",
    csv_with_dates_and_ids: "patient_id",
    dataset_on_disk: "ticket",
}


def without_recordwise(write: Write, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the example prints that was handed over, as it was written, with the new samples where it looks for them."""
    given = folder / "given"
    if write is photographs:
        shutil.copytree(folder / "new", given / "new")
    elif write is text_lines:
        shutil.copy(folder / "new.txt", given / "new.txt")
    else:
        with (given / "new.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(as_cells(write, folder))
    monkeypatch.chdir(given)
    assert "recordwise" not in (given / "use.py").read_text()
    printed = io.StringIO()
    with redirect_stdout(printed):
        runpy.run_path("use.py")
    return printed.getvalue().strip()


def as_cells(write: Write, folder: Path) -> list[list[Any]]:
    """The new samples as rows of a CSV file in UTF-8, with commas and decimal points, in another order of columns."""
    if write in (parquet_of_embeddings, arrays):
        if write is arrays:
            return [["a"] * 4, *np.load(folder / "new.npz")["x"].tolist()]
        held = pytest.importorskip("pyarrow.parquet").read_table(folder / "new.parquet")
        return [["a"] * 6, *held["embedding"].to_pylist()]
    if write is dataset_on_disk:
        pa = pytest.importorskip("pyarrow")
        with pa.memory_map(str(folder / "new" / "data-00000-of-00001.arrow")) as file:
            return [["text"], *([one] for one in pa.ipc.open_stream(file).read_all()["text"].to_pylist())]
    if write is workbooks:
        book = pytest.importorskip("openpyxl").load_workbook(folder / "new.xlsx", read_only=True)
        rows = [[str(cell) for cell in row] for row in book.worksheets[0].values]
        book.close()
    elif write is german_tables:
        with gzip.open(folder / "new.csv.gz", "rt", encoding="latin-1", newline="") as file:
            rows = [[cell.replace(",", ".") for cell in row] for row in csv.reader(file, delimiter=";")]
    else:
        with (folder / "new.csv").open(newline="") as file:
            rows = list(csv.reader(file))
    return [row[::-1] for row in rows]


@pytest.mark.usefixtures("quick_plans")  # a plan is the same for whatever file a pool came from
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
    if write in (german_tables, workbooks):
        del commands[1]  # a run checks anyway
    if write in NAMED and write is not photographs:
        commands[-1] += ["--ids", NAMED[write]]
    for command in commands:
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, f"{command}: {done.output} {done.exception}"
    with (tmp_path / "answers.csv").open() as file:
        answers = list(csv.DictReader(file))
    assert len(answers) == (10 if write is photographs else 30)
    names = CLASSES[write]
    right = np.mean([answer["label"] == names[row % len(names)] for row, answer in enumerate(answers)])
    assert right > 0.75  # all but always 1; one class for all samples gives 0.5
    for table in ("answers.csv", "given/labels.csv"):
        with (tmp_path / table).open() as file:
            first = next(csv.reader(file))[0]
        assert first == NAMED.get(write, "sample")  # samples go by the names that they have in their files
    assert not [path for path in (tmp_path / "given").iterdir() if path.suffix in (".pkl", ".joblib")]
    if find_spec("onnx") and find_spec("onnxruntime"):
        told = without_recordwise(write, tmp_path, monkeypatch)
        assert told == str([answer["label"] for answer in answers])


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
    assert sorted(job) == ["account", "method", "name", "privacy", "private", "public", "records"]
    assert set(job["privacy"]) == {"epsilon"}
    assert set(job["public"]["samples"]) <= set(names)


@pytest.mark.usefixtures("quick_plans")
def test_columns_are_found_by_name_and_missing_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    csv_with_dates_and_ids(tmp_path, 240)
    start = ["init", "--private", "records.csv", "--public", "pool.csv", "--labels", "outcome", "--epsilon", "4"]
    for command in (start, ["run", "job.toml"]):
        assert CliRunner().invoke(app, command).exit_code == 0
    run = f"runs/{tmp_path.name}"
    straight = CliRunner().invoke(app, ["predict", run, "new.csv"]).stdout
    with (tmp_path / "new.csv").open() as file:
        rows = list(csv.DictReader(file))
    for name, columns in (("swapped", ["ward", "age", "outcome", "admitted"]), ("missing", ["ward", "age"])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, columns, extrasaction="ignore")
            table.writeheader()
            table.writerows(rows)
    assert CliRunner().invoke(app, ["predict", run, "swapped.csv"]).stdout == straight
    refused = CliRunner().invoke(app, ["predict", run, "missing.csv"])
    assert refused.exit_code != 0 and "admitted" in str(refused.exception)


def test_a_draft_doubts_numbers_that_look_like_codes_and_decides_nothing(tmp_path: Path) -> None:
    for name, more in (("records", ",ok"), ("pool", "")):
        rows = [f"{(8001, 10115, 50667)[row % 3]},{row / 7:.2f}{more}" for row in range(120)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"zip,age{',state' if more else ''}", *rows]) + "\n")
    told = ["--private", str(tmp_path / "records.csv"), "--public", str(tmp_path / "pool.csv"), "--labels", "state"]
    made = CliRunner().invoke(app, ["init", *told, "--classes", "ok,late", "--out", str(tmp_path / "job.toml")])
    assert made.exit_code == 0, made.output
    draft = (tmp_path / "job.toml").read_text()
    assert '# categorical = ["zip"]  # guess: numbers; codes are not, if that is what they are' in draft
    assert "# expected = 1000" in draft and tomllib.loads(draft)["records"] == {}
    uncommented = draft.replace('# categorical = ["zip"]', 'categorical = ["zip"]')
    (tmp_path / "job.toml").write_text(uncommented)
    assert read_job(tmp_path / "job.toml").read_pool()[0].columns[0].kind == "category"


def test_a_draft_notes_dates_with_two_digit_years(tmp_path: Path) -> None:
    for name, more in (("records", ",ok"), ("pool", "")):
        rows = [f"{1 + row % 28:02d}.03.{40 + row % 59},{row / 7:.2f}{more}" for row in range(120)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"born,age{',state' if more else ''}", *rows]) + "\n")
    told = ["--private", str(tmp_path / "records.csv"), "--public", str(tmp_path / "pool.csv"), "--labels", "state"]
    made = CliRunner().invoke(app, ["init", *told, "--classes", "ok,late", "--out", str(tmp_path / "job.toml")])
    assert made.exit_code == 0, made.output
    assert "# note: column 'born' looks like dates with two-digit years" in (tmp_path / "job.toml").read_text()


@pytest.mark.usefixtures("quick_plans")
def test_a_draft_notes_numbers_that_may_be_identifiers_or_moments_and_keeps_them(tmp_path: Path) -> None:
    for name, more in (("records", ",ok"), ("pool", "")):
        rows = [
            f"{1_000_003 + 40_001 * row + row**2},{1_600_000_000 + 99_991 * row},{row / 7:.2f}" for row in range(120)
        ]
        head = f"account,made,age{',state' if more else ''}"
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *(row + more for row in rows)]) + "\n")
    told = ["--private", str(tmp_path / "records.csv"), "--public", str(tmp_path / "pool.csv"), "--labels", "state"]
    made = CliRunner().invoke(app, ["init", *told, "--classes", "ok,late", "--out", str(tmp_path / "job.toml")])
    assert made.exit_code == 0, made.output
    draft = (tmp_path / "job.toml").read_text()
    assert "# note: column 'account' may hold identifiers" in draft
    assert "# note: column 'made' looks like points in time in seconds" in draft
    assert "samples" not in tomllib.loads(draft)["public"]


def test_the_card_says_what_is_promised_and_what_is_public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arrays(tmp_path, 240)
    start = ["init", "--private", "records.npz", "--public", "pool.npz", "--labels", "y", "--epsilon", "2"]
    run = f"runs/{tmp_path.name}"
    for command in (start, ["run", "job.toml"], ["export", run, "--to", "given"]):
        assert CliRunner().invoke(app, command).exit_code == 0
    card = (tmp_path / "given" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: recordwise\n")
    assert "Pure differential privacy" in card and "88.1 % sure instead of 50 %" in card
    assert ("\n\nThere is no file here for" in card) != (tmp_path / "given" / "model.onnx").exists()
    assert "was not scored" in card and "SHA-256" in card and str(tmp_path) not in card
    again = CliRunner().invoke(app, ["export", run, "--to", "given"])
    assert again.exit_code != 0 and "new or an empty folder" in str(again.exception)


@pytest.mark.usefixtures("quick_plans")
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
    answers = CliRunner().invoke(app, ["predict", "given", "new.npz"]).stdout.splitlines()[1:]
    assert told.stdout.strip() == str([answer.split(",")[1] for answer in answers])


def test_how_text_is_spelled_is_guessed_from_public_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    german_tables(tmp_path, 40)
    arguments = ["init", "--private", "records.csv", "--public", "pool.csv.gz", "--labels", "Ergebnis"]
    arguments += ["--classes", "gesund,krank"]
    jobs = []
    for number, line in enumerate(("P-1;01.01.2023 10:00;36,6;Bonn;kurz;krank", "a,b,c|d\te;\x00;1.5", "")):
        (tmp_path / "records.csv").write_bytes(";".join(GERMAN).encode() + b"\n" + line.encode("utf-8") + b"\n")
        done = CliRunner().invoke(app, [*arguments, "--out", f"{number}.toml"])
        assert done.exit_code == 0, done.exception
        jobs.append((tmp_path / f"{number}.toml").read_text().partition("[private]")[2].partition("[privacy]")[0])
    assert jobs[0] == jobs[1] == jobs[2] and 'delimiter = ";"  # guess: as in the pool' in jobs[0]
    told = [*arguments, "--out", "told.toml", "--delimiter", ";", "--encoding", "latin-1", "--decimal", ","]
    assert CliRunner().invoke(app, told).exit_code == 0
    private = tomllib.loads((tmp_path / "told.toml").read_text())["private"]
    spelled = {"delimiter": ";", "encoding": "latin-1", "decimal": ","}
    assert private == {"path": "records.csv", "labels": "Ergebnis", **spelled}


def test_photographs_of_many_sizes_are_brought_to_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, sizes in (("records/a", [(9, 9)]), ("records/b", [(9, 9)]), ("pool", [(40, 30), (400, 300), (640, 480)])):
        (tmp_path / name).mkdir(parents=True)
        for number, size in enumerate(sizes):
            Image.new("RGB", size).save(tmp_path / name / f"{number}.png")
    done = CliRunner().invoke(app, ["init", "--private", "records", "--public", "pool", "--classes", "a,b"])
    assert done.exit_code == 0, done.exception
    assert tomllib.loads((tmp_path / "job.toml").read_text())["public"] == {"path": "pool", "image_size": [96, 128]}


def test_nothing_that_is_written_names_a_record(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        '[private]\npath = "r.csv"\nids = "name"\n[public]\npath = "p.csv"\n[privacy]\nepsilon = 1\n'
        '[method]\nclasses = ["a", "b"]\n'
    )
    with pytest.raises(InvalidInput, match=r"private.ids must be left out"):
        read_job(tmp_path / "job.toml")


def test_labels_come_back_from_csv_and_go_into_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    ids = np.array(["a;b", 'c"', None, 12345678901234567890], dtype=object)
    named = Loaded(samples=[1, 2, 3, 4], ids=ids, ids_name="name")
    made = Labelled(**names_of(named, 4), labels=["x", "", "y", "x"], confidence=[0.5, 0.25, 1.0, 0.75])
    made.write(tmp_path / "labels.csv")
    again = read_labelled(tmp_path / "labels.csv")
    assert (again.name, [*again.ids], [*again.labels]) == ("name", [*made.ids], [*made.labels])
    made.write(tmp_path / "labels.parquet")
    held = parquet.read_table(tmp_path / "labels.parquet").to_pydict()
    assert held == {"name": [*made.ids], "label": [*made.labels], "confidence": [*made.confidence]}
    assert made.ids[3] == "12345678901234567890"
    numbered = Labelled(**names_of(None, 2), labels=["x", "y"], confidence=[1.0, 1.0])
    assert numbered.as_csv() == "sample,label,confidence\n0,x,1.0000\n1,y,1.0000\n"
    with pytest.raises(InvalidInput, match=r"\.csv or \.parquet"):
        made.write(tmp_path / "labels.txt")


def test_a_prediction_is_what_the_student_answers_and_not_the_likelier_class(tmp_path: Path) -> None:
    rng = seeded(0, "threshold")
    labels = np.arange(300) % 2
    rows = rng.normal(size=(300, 2)) + np.array([2, 0])
    rows[labels == 1] -= [4, 0]
    student = {"name": "counts", "threshold": 0.999}
    model = PrivateDistiller(2.0, classes=[0, 1], num_queries=10, student=student)
    model.fit(rows, labels, X_public=rows + 0.001, noise=SeededNoise(0))
    np.savez(tmp_path / "new.npz", x=np.array([[0.0, 0.0], [-0.5, 0.0], [3.0, 0.0]]))
    found = predict_file(model.published(), tmp_path / "new.npz", probabilities=True)
    assert found.labels == ["0", "0", "0"] and max(found.probabilities["1"]) > 0.5


RARE = seeded(0, "rare").normal(size=(400, 2)) + 1.2 * (np.arange(400) % 8 == 0)[:, None]


def rare(**student: Any) -> PrivateDistiller:
    model = PrivateDistiller(4.0, classes=["none", "event"], num_queries=10, student=student)
    labels = np.where(np.arange(400) % 8 == 0, "event", "none")
    return model.fit(RARE, labels, X_public=RARE + 0.001, noise=SeededNoise(0))


def test_confidence_is_the_chance_of_the_answer_whatever_weights_and_threshold_decide(tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", x=RARE[:50])
    plain = rare(name="counts").predict_proba(RARE[:50])
    for decides in ({"class_weight": {"event": 6}}, {"threshold": 0.15}, {"class_weight": [1, 3], "threshold": 0.3}):
        model = rare(name="counts", **decides)
        found = predict_file(model.published(), tmp_path / "new.npz", probabilities=True)
        said = np.array(found.labels) == "event"
        assert (said & (plain[:, 1] < 0.5)).any()
        assert found.confidence == pytest.approx(np.where(said, plain[:, 1], plain[:, 0]))
        assert found.probabilities["event"] == pytest.approx(model.predict_proba(RARE[:50])[:, 1])
        assert model.pool_probabilities_ == pytest.approx(rare(name="counts").pool_probabilities_)  # the release's


def own(classifier: Any) -> PrivateDistiller:
    model = PrivateDistiller(4.0, classes=["none", "event"], num_queries=10, student=classifier)
    labels = np.where(np.arange(400) % 8 == 0, "event", "none")
    return model.fit(RARE, labels, X_public=RARE + 0.001, noise=SeededNoise(0))


def test_confidence_is_without_weights_that_a_classifier_was_given_by_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "new.npz", x=RARE[:50])
    plain = own(LogisticRegression()).predict_proba(RARE[:50])
    model = own(LogisticRegression(class_weight={"event": 6}))
    found = predict_file(model.published(), tmp_path / "new.npz", probabilities=True)
    said = np.array(found.labels) == "event"
    assert (said & (plain[:, 1] < 0.5)).any()
    assert found.confidence == pytest.approx(np.where(said, plain[:, 1], plain[:, 0]), abs=0.05)
    assert found.probabilities["event"] == pytest.approx(model.predict_proba(RARE[:50])[:, 1])
    balanced = own(LogisticRegression(class_weight="balanced"))
    found = predict_file(balanced.published(), tmp_path / "new.npz")
    assert found.confidence == pytest.approx(balanced.predict_proba(RARE[:50]).max(axis=1))  # as help and card say


@pytest.mark.parametrize(
    ("classifier", "weights", "undone"),
    [
        (LogisticRegression(class_weight={"event": 6}), "none 1, event 6", True),
        (LogisticRegression(class_weight="balanced"), "balanced", False),
        (make_pipeline(StandardScaler(), LogisticRegression(class_weight={"event": 6})), "none 1, event 6", False),
    ],
    ids=["by name", "balanced", "pipeline"],
)
def test_the_card_names_weights_of_a_classifier_of_the_user_s(
    classifier: Any, weights: str, undone: bool, tmp_path: Path
) -> None:
    pytest.importorskip("skops")
    save(own(classifier), tmp_path / "saved")
    hand_over(tmp_path / "saved", tmp_path / "given")
    card = (tmp_path / "given" / "README.md").read_text()
    assert f"- Class weights: {weights}. Its probabilities are" in card
    assert ("moved by them; the confidence that `recordwise predict` gives is not" in card) == undone
    assert ("with these weights, and so is the confidence that `recordwise predict` gives." in card) != undone


@pytest.mark.parametrize("name", ["counts", "linear"])
def test_the_card_says_how_a_student_decides_where_it_was_told(name: str, tmp_path: Path) -> None:
    cards = []
    for number, told in enumerate(({}, {"class_weight": {"event": 6}, "threshold": 0.3})):
        save(rare(name=name, **told), tmp_path / f"saved{number}")
        hand_over(tmp_path / f"saved{number}", tmp_path / f"given{number}")
        cards.append((tmp_path / f"given{number}" / "README.md").read_text())
    assert "How it decides" not in cards[0]
    assert "- Class weights: none 1, event 6. Its probabilities are moved by them; the confidence" in cards[1]
    assert "- Threshold: it answers event where its probability is at least 0.3." in cards[1]


@pytest.mark.usefixtures("quick_plans")
def test_vectors_beside_other_columns_are_the_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of embeddings has the documents' names, too: they name samples and are no part of them."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    for name, size in (("records", 200), ("pool", 100), ("new", 5)):
        label = np.arange(size) % 2
        vectors = RNG.normal(size=(size, 3)) + 8 * label[:, None]
        columns = {"doc": [f"{name}{row}" for row in range(size)], "length": label + 7, "embedding": list(vectors)}
        pq.write_table(pa.table(columns | ({"team": label} if name == "records" else {})), f"{name}.parquet")
    start = ["init", "--private", "records.parquet", "--public", "pool.parquet", "--labels", "team", "--epsilon", "4"]
    for command in (start, ["run", "job.toml"]):
        told = CliRunner().invoke(app, command)
        assert told.exit_code == 0, told.output
    assert tomllib.loads((tmp_path / "job.toml").read_text())["public"]["samples"] == ["embedding"]
    assert "# guess: without 'length': 'embedding' holds whole samples" in (tmp_path / "job.toml").read_text()
    run = tmp_path / "runs" / tmp_path.name
    assert (run / "labels.csv").read_text().startswith("doc,label,confidence\npool0,")
    told = CliRunner().invoke(app, ["predict", str(run), "new.parquet"]).stdout.splitlines()
    assert [line.split(",")[1] for line in told[1:]] == ["0", "1", "0", "1", "0"]
