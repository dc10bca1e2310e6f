"""Folders that somebody damaged, emptied or planted something in: one line, no code, and never a second charge."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from recordwise import PrivateDistiller, cli, load
from recordwise.errors import InvalidInput, RecordwiseError
from recordwise.job import read_job
from recordwise.privacy.ledger import Ledger
from recordwise.progress import Silent
from recordwise.randomness import seeded
from recordwise.run import run_job

JOB = """
[private]
path = "records.npz"
samples = "X"
labels = "y"
[public]
path = "pool.npz"
samples = "X"
[privacy]
epsilon = 2.0
[account]
ledger = "ledger.sqlite"
budget = "us"
[method]
classes = [0, 1]
num_queries = 4
rounds = 2
student = "linear"
"""


def few_and_many(first: str, *others: str) -> list[Any]:
    """One case for every day, and the others for `make test-all`."""
    return [first, *(pytest.param(other, marks=pytest.mark.slow) for other in others)]


class Bomb:
    """Runs as soon as it is unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> Any:
        return Path.touch, (self.place,)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job's folder with all its results, and all that the job needs to be run again."""
    home = tmp_path_factory.mktemp("home")
    truth = np.arange(100) % 2
    points = 9.0 * truth[:, None] + seeded(0, "hostile").normal(size=(100, 2))
    np.savez(home / "records.npz", X=points[40:], y=truth[40:])
    np.savez(home / "pool.npz", X=points[:40])
    (home / "job.toml").write_text(JOB)
    Ledger.open(home / "ledger.sqlite").open_budget("us", epsilon=9)
    run_job(read_job(home / "job.toml"), Silent(), go_on=True)
    return home


@pytest.fixture
def home(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, with an owner of its own: who charges one copy of a ledger notices that another is older."""
    shutil.copytree(os.environ["RECORDWISE_KEYS"], tmp_path / "owner")
    monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "owner"))
    return Path(shutil.copytree(finished, tmp_path / "home"))


def again(home: Path) -> str:
    """How a further run of the job ends; whatever happens, nothing more is charged."""
    try:
        run_job(read_job(home / "job.toml"), Silent(), go_on=True)
        told = "done"
    except (RecordwiseError, OSError) as fault:
        told = str(fault)
    assert "\n" not in told and told
    assert len(Ledger.open(home / "ledger.sqlite", read_only=True).history("us")) == 2
    return told


def files(home: Path) -> list[Path]:
    found = sorted(path for path in (home / "runs" / "job").rglob("*") if path.is_file())
    assert {"encoder", "queries-1", "queries-2", "released-1", "run.json", "student.npz"} <= {one.name for one in found}
    return found


def bombs(place: Path) -> dict[str, bytes]:
    """A pickle that runs, in every dress that some reader might take off."""
    dumped = io.BytesIO()
    joblib.dump(Bomb(place), dumped)
    array, archive, npz, told = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.save(array, np.array([Bomb(place)], dtype=object), allow_pickle=True)
    np.savez(npz, description=np.array([Bomb(place)], dtype=object))
    plain = {"value": {"array": "array-0"}}
    np.savez(
        told,
        description=np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8),
        **{"array-0": np.array([Bomb(place)], dtype=object)},  # type: ignore[arg-type]
    )
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data.pkl", pickle.dumps(Bomb(place)))
    contents = {"pickle": pickle.dumps(Bomb(place)), "old pickle": pickle.dumps(Bomb(place), 0)}
    buffers = {"joblib": dumped, "npy": array, "npz": npz, "ours": told, "torch": archive}
    return contents | {name: buffer.getvalue() for name, buffer in buffers.items()}


@pytest.mark.parametrize("dress", few_and_many("ours", "pickle", "old pickle", "joblib", "npy", "npz", "torch"))
def test_a_pickle_planted_in_every_file_runs_nothing(home: Path, tmp_path: Path, dress: str) -> None:
    content = bombs(tmp_path / "ran")[dress]
    with pytest.raises(Exception):  # noqa: B017  # the bomb is a live one
        pickle.loads(pickle.dumps(Bomb(tmp_path / "nowhere" / "ran")))
    for path in files(home):
        kept = path.read_bytes()
        path.write_bytes(content)
        again(home)
        if path.name == "student.npz":
            path.write_bytes(content)
            with pytest.raises(InvalidInput, match=r"must be what recordwise\.save wrote"):
                load(path.parent)
        path.write_bytes(kept)
    for path in files(home):
        path.write_bytes(content)
    again(home)
    assert not (tmp_path / "ran").exists()


def told(value: Any, **arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, description=np.frombuffer(json.dumps({"value": value}).encode(), dtype=np.uint8), **arrays)
    return file.getvalue()


GADGETS: dict[str, Any] = {
    "a process": {"class": "subprocess.Popen", "state": {"args": "touch ran"}},
    "a module": {"class": "os.system", "state": {}},
    "a function": {"class": "builtins.eval", "state": {}},
    "a class of ours that is not of the list": {"class": "recordwise.federation.silo.Silo", "state": {}},
    "a name with a way out": {"class": "recordwise.encoders.hog..os.system", "state": {}},
    "a method": {"class": "recordwise.encoders.vectors.Scaler", "state": {"transform": {"type": "<f4"}}},
    "a type that is no number": {"type": "O"},
    "an object's scalar": {"scalar": 1, "dtype": "O"},
    "a number of too many digits": {"fraction": "9" * 10_000},
    "a power": {"fraction": "1e999999999"},
    "a list in the wild": [1, 2],
    "an array that is not there": {"array": "array-77"},
    "a name that is none": {"class": ["x"], "state": {}},
}


@pytest.mark.parametrize("gadget", GADGETS)
def test_no_name_leads_out_of_the_list(home: Path, monkeypatch: pytest.MonkeyPatch, gadget: str) -> None:
    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("it ran"))
    content = told(GADGETS[gadget], **{"array-0": np.frombuffer(b"PK rubbish", dtype=np.uint8)})
    for name in ("encoder", "student.npz"):
        (home / "runs" / "job" / name).write_bytes(content)
    with pytest.raises(InvalidInput, match="must be"):
        load(home / "runs" / "job")
    for number in (1, 2):
        (home / "runs" / "job" / f"released-{number}").unlink()  # nobody knows the digest any more
    assert "remove that file" in again(home)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "flipped": lambda path: path.write_bytes(bytes(byte ^ 255 for byte in path.read_bytes())),
    "of another kind": lambda path: path.write_bytes(b'{"run": [1], "facts": 7, "payer": {}, "files": 3}'),
    "deep": lambda path: path.write_bytes(b"[" * 100_000),
    "gone": lambda path: path.unlink(),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a dead link": lambda path: (path.unlink(), path.symlink_to("nowhere")),
}
RESULTS = ("student.npz", "labels.csv", "summary.json", "report.html", "lock")


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("damage", few_and_many(*DAMAGE))
def test_a_damaged_folder_is_one_line_and_no_second_charge(finished: Path, tmp_path: Path, damage: str) -> None:
    for path in files(finished):
        home = Path(shutil.copytree(finished, tmp_path / path.name / "home"))
        DAMAGE[damage](home / path.relative_to(finished))
        ending = again(home)
        if path.name in RESULTS and damage in ("emptied", "cut", "flipped", "of another kind", "deep", "gone"):
            assert ending == "done", (path.name, ending)  # made again, from what is kept
        elif damage in ("emptied", "cut", "flipped") and path.name not in RESULTS:
            assert any(word in ending for word in ("damaged", "not the one", "must be")), (path.name, ending)


def test_a_part_that_is_lost_is_made_again_and_compared(home: Path) -> None:
    folder = home / "runs" / "job"
    before = {path.name: path.read_bytes() for path in files(home)}
    for name in ("encoder", "queries-1", "queries-2"):
        (folder / name).unlink()
    assert again(home) == "done"
    for name in ("encoder", "queries-1", "queries-2"):
        assert (folder / name).read_bytes() == before[name]
    shutil.copy(folder / "queries-2", folder / "queries-1")  # whole, and about something else
    assert "queries-1 of the run" in again(home)
    assert "released is about the other one" in again(home)


def test_a_folder_of_an_older_version_says_so(home: Path) -> None:
    manifest = home / "runs" / "job" / "run.json"
    manifest.write_text(
        json.dumps({key: value for key, value in json.loads(manifest.read_text()).items() if key != "format"})
    )
    assert "another version of Recordwise" in again(home)


def test_an_empty_encoder_ends_the_command_with_a_line_and_a_code_of_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "runs" / "job" / "encoder").write_bytes(b"")
    monkeypatch.setattr(sys, "argv", ["recordwise", "run", str(home / "job.toml")])
    with pytest.raises(SystemExit) as ending:
        cli.main()
    said = capsys.readouterr().err.splitlines()
    assert ending.value.code == 3, said
    assert said[-1].startswith("recordwise: encoder of the run in ") and "remove that file" in said[-1]


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGTERM, 143, "terminated"),
        pytest.param(signal.SIGINT, 130, "interrupted", marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_the_command_with_a_line(home: Path, number: int, code: int, word: str) -> None:
    """The run waits for a ledger that this test holds, so the signal finds it in the middle."""
    shutil.rmtree(home / "runs")
    import sqlite3

    holder = sqlite3.connect(home / "ledger.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    program = "from recordwise.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "run", "--anyway", "job.toml"],
        cwd=home,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        while not (home / "runs" / "job" / "queries-1").exists():
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        process.send_signal(number)
        holder.execute("ROLLBACK")
        said = process.communicate()[1].splitlines()
    finally:
        process.kill()
        holder.close()
    assert (process.returncode, said[-1]) == (code, f"recordwise: {word}; run the same command again to go on")
    run_job(read_job(home / "job.toml"), Silent(), go_on=True)


def test_one_process_at_a_time_uses_a_folder(home: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from recordwise.locks import hold\n"
        "held = hold(Path('runs/job')); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        assert "another one is running: wait until it ends" in again(home)
        other.kill()
    assert again(home) == "done"


def test_two_threads_do_not_share_a_folder(home: Path) -> None:
    from threading import Thread

    from recordwise.locks import hold

    held = hold(home / "runs" / "job")
    ends: list[str] = []
    thread = Thread(target=lambda: ends.append(again(home)))
    thread.start()
    thread.join()
    assert "another one is running" in ends[0]
    del held
    assert again(home) == "done"


def test_no_source_of_ours_reads_a_pickle() -> None:
    """CIFAR-10's own files are pickles, read with a closed list; checkpoints of training hold tensors alone."""
    import recordwise

    words = (
        "pickle.load",
        "joblib",
        "allow_pickle=True",
        "Unpickler",
        "torch.load(",
        "cloudpickle",
        "marshal",
        "shelve",
    )
    allowed = {("cifar10.py", "Unpickler"), ("training.py", "torch.load(")}
    root = Path(recordwise.__file__).parent
    for source in root.rglob("*.py"):
        text = source.read_text()
        found = {(source.name, word) for word in words if word in text}
        assert found <= allowed, found
    assert (root / "vision" / "training.py").read_text().count("torch.load(") == 1
    assert "weights_only=True" in (root / "vision" / "training.py").read_text()


def test_no_torch_is_asked_for_whose_weights_could_run_code() -> None:
    """Before 2.6 `weights_only=True` did not keep what it promises (CVE-2025-32434)."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    bounds = re.findall(r'"torch>=(\d+)\.(\d+)', project.read_text())
    assert bounds and all((int(major), int(minor)) >= (2, 6) for major, minor in bounds)


def test_a_hostile_skops_part_is_refused(tmp_path: Path) -> None:
    """A part that names a type which skops does not trust is not built, unless the caller vouches for it."""
    skops = pytest.importorskip("skops.io")
    from recordwise import stored

    content = skops.dumps(PrivateDistiller(1.0))
    held = told({"skops": "array-0"}, **{"array-0": np.frombuffer(content, dtype=np.uint8)})
    with pytest.raises(InvalidInput, match="types that skops trusts"):
        stored.from_bytes(held, foreign=True)
    rubbish = told({"skops": "array-0"}, **{"array-0": np.frombuffer(b"PK rubbish", dtype=np.uint8)})
    with pytest.raises(InvalidInput, match="plain data"):
        stored.from_bytes(rubbish, foreign=True)
    with pytest.raises(InvalidInput, match="known parts"):
        stored.from_bytes(held)
