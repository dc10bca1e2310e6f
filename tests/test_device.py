"""The device's side: NumPy alone, one record in, one small message out."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from recordwise.device import Task, main
from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.local import Collision, Inbox
from recordwise.votes.ballot import NOBODY, Ballot
from recordwise.votes.poll import Metric

QUERIES = np.array([[0, 0], [0, 1], [1, 0], [5, 5]], dtype=np.float32)
BALLOT = Ballot(num_queries=4, num_classes=3, votes_per_record=2)

ON_A_DEVICE = """
import sys
class NumpyOnly:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"numpy", "recordwise", *sys.stdlib_module_names}:
            raise ImportError(f"{name} is not on this device")
sys.meta_path.insert(0, NumpyOnly())
from recordwise.device import main
sys.exit(main(sys.argv[1:]))
"""


def make_task(**more: object) -> Task:
    return Task(mechanism=Collision(ballot=BALLOT, epsilon=Fraction(6)), queries=QUERIES, **more)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_task().save(tmp_path / "task.npz")
    np.save(tmp_path / "record.npy", np.array([0.1, 0.2]))
    return tmp_path


def test_a_device_with_numpy_alone_answers(folder: Path) -> None:
    arguments = ["task.npz", "--record", "record.npy", "--labels", "1", "--out", "message", "--id", "ab" * 16]
    arguments += ["--account", "account", "--cap", "8"]
    run = subprocess.run(
        [sys.executable, "-c", ON_A_DEVICE, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert "Pure differential privacy, local trust" in run.stdout
    message = (folder / "message").read_bytes()
    assert len(message) <= 16 + 16 + 16  # header, id, answer
    inbox = Inbox(Task.load(folder / "task.npz").mechanism)
    assert inbox.receive(message) == 1
    with pytest.raises(ProtocolFault, match="has answered before"):
        inbox.receive(message)


def test_many_devices_are_heard(folder: Path) -> None:
    task = Task.load(folder / "task.npz")
    inbox = Inbox(task.mechanism)
    for _ in range(300):
        inbox.receive(task.answer([0.1, 0.2], [1], SystemNoise()))
    tally = task.mechanism.server(inbox.answers, SystemNoise())
    truth = np.zeros((4, 3))
    truth[[0, 1], 1] = 300  # the record's two nearest queries, each with its class
    assert 12 * tally.law.two_sided_tail(float(np.abs(tally.estimate - truth).max())) > 1e-9
    assert tally.guarantee.private


def test_a_record_votes_for_its_nearest_queries_and_its_labels() -> None:
    votes = make_task().votes([0.1, 0.2], [2])
    assert votes.queries.tolist() == [[0, 1]]
    assert votes.labels.tolist() == [[2]]
    assert make_task(max_distance=0.5).votes([0.1, 0.2], []).queries.tolist() == [[0, NOBODY]]
    assert make_task(prices=np.array([9.0, 0, 0, 0])).votes([0.1, 0.2], [2]).queries.tolist() == [[1, 2]]


def test_messages_have_one_length_whether_or_not_a_record_votes() -> None:
    task = make_task(max_distance=0.01)
    assert (
        len({len(task.answer(vector, labels, SystemNoise())) for vector, labels in (((0, 0), [1]), ((9, 9), []))}) == 1
    )


def test_a_task_survives_its_file(tmp_path: Path) -> None:
    task = make_task(metric=Metric.COSINE, max_distance=0.3, prices=np.array([0.0, 1, 2, 3]))
    task.save(tmp_path / "task.npz")
    back = Task.load(tmp_path / "task.npz")
    assert back.mechanism == task.mechanism
    assert (back.queries == task.queries).all()
    assert (back.metric, back.max_distance) == (Metric.COSINE, 0.3)
    assert back.prices is not None
    assert back.prices.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--labels": ["1", "2"]}, "labels must be at most r = 1, got 2"),
        ({"--labels": ["3"]}, "labels must lie in [0, 3), got 3"),
        ({"--labels": ["-2"]}, "labels must lie in [0, 3), got -2"),
        ({"--record": ["nan.npy"]}, "record must be finite"),
        ({"--record": ["long.npy"]}, "record must have 2 dimensions, got 3"),
        ({"--record": ["matrix.npy"]}, "record must be one vector, got shape (2, 2)"),
        ({"--record": ["text"]}, "record must be a .npy file"),
        ({"--record": ["missing.npy"]}, "No such file"),
        ({"task": ["text"]}, "task must be a file written by Task.save"),
        ({"task": ["missing.npz"]}, "task must be a file written by Task.save"),
        ({"--id": ["xyz"]}, "id must be 32 hexadecimal digits, got 'xyz'"),
        ({"--id": ["abcd"]}, "identity must have 16 bytes, got 2"),
        ({"--cap": ["5.9"]}, "needs epsilon 6 but 5.9 of the device's 5.9 is left"),
        ({"--cap": ["0"]}, "cap must be > 0, got 0"),
        ({"--cap": ["much"]}, "cap must be a finite number, got 'much'"),
        ({"--account": ["text"]}, "the account 'text' cannot be read"),
        ({"--account": ["nowhere/account"]}, "the account 'nowhere/account' cannot be kept there"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_message(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, list[str]],
    message: str,
) -> None:
    monkeypatch.chdir(folder)
    np.save("nan.npy", np.array([0.0, np.nan]))
    np.save("long.npy", np.zeros(3))
    np.save("matrix.npy", np.zeros((2, 2)))
    Path("text").write_text("not an array")
    options = {"task": ["task.npz"], "--record": ["record.npy"], "--labels": ["1"], "--out": ["message"]}
    options |= {"--account": ["account"], "--cap": ["8"], **change}
    arguments = [word for name, values in options.items() for word in ([] if name == "task" else [name]) + values]
    assert main(arguments) != 0
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
    assert not Path("message").exists()


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[1] / "examples" / "device.py"
    spec = importlib.util.spec_from_file_location("example_device", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr(example, "PHONES", 1_000)
    example.main()
    assert "1,000 answers of 9 bytes" in capsys.readouterr().out


def test_a_task_needs_as_many_queries_as_its_ballot() -> None:
    with pytest.raises(InvalidInput, match="queries must be 4, got 3"):
        Task(mechanism=make_task().mechanism, queries=QUERIES[:3])
