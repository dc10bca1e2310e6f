"""A device's account: nothing leaves uncharged, whatever dies when, and the cap holds for good."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from recordwise.account import Account
from recordwise.device import Task
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.local import Collision
from recordwise.votes.ballot import Ballot

QUERIES = np.array([[0, 0], [0, 1], [1, 0], [5, 5]], dtype=np.float32)


def task(number: int = 0, epsilon: object = 2) -> Task:
    ballot = Ballot(num_queries=4, num_classes=3)
    return Task(mechanism=Collision(ballot=ballot, epsilon=Fraction(str(epsilon))), queries=QUERIES + number)


def answer(asked: Task, account: Account, vector: Sequence[float] = (0.1, 0.2), **more: bytes) -> bytes:
    return asked.answer(vector, [1], SystemNoise(), account=account, **more)


def test_tasks_beyond_the_cap_are_refused_for_good(tmp_path: Path) -> None:
    place = tmp_path / "account"
    for number in range(3):
        answer(task(number, "0.1"), Account(place, "0.3"))
    assert Account(place).spent == Account(place).cap == Fraction(3, 10)
    with pytest.raises(BudgetExceeded, match=r"needs epsilon 0\.1 but 0 of the device's 0\.3 is left"):
        answer(task(3, "0.1"), Account(place, 0.3))
    with pytest.raises(ChangedInput, match="opened with cap 3/10, which cannot become 1"):
        Account(place, 1)
    with pytest.raises(InvalidInput, match="is not open yet"):
        Account(tmp_path / "new")


def test_a_refused_task_does_not_look_at_the_record(tmp_path: Path) -> None:
    def produce() -> bytes:
        raise AssertionError("the record was looked at")

    with pytest.raises(BudgetExceeded):
        Account(tmp_path / "account", 1).release("task", Fraction(2), produce)


def test_a_task_asked_again_gets_the_same_bytes_even_if_the_record_changed(tmp_path: Path) -> None:
    """Fresh noise on the same question would halve the noise, and cost twice."""
    account = Account(tmp_path / "account", 2)
    first = answer(task(), account)
    assert {answer(task(), Account(tmp_path / "account"), vector) for vector in ((0.1, 0.2), (5.0, 5.0))} == {first}
    assert account.spent == 2
    for other in (task(1), task(epsilon="1.999")):
        with pytest.raises(BudgetExceeded):
            answer(other, account)
    with pytest.raises(BudgetExceeded):
        answer(task(), account, identity=b"i" * 16)


def test_whatever_is_asked_differently_is_another_task() -> None:
    asked = task()
    changes = [{"prices": np.arange(4.0)}, {"metric": "cosine", "queries": QUERIES + 1}, {"max_distance": 1.0}]
    others = [task(1), task(epsilon=3)]
    for change in changes:
        told = {"mechanism": asked.mechanism, "queries": asked.queries, **change}
        others.append(Task(**told))  # type: ignore[arg-type]
    assert len({one.digest for one in (asked, *others)}) == 1 + len(others)
    assert task().digest == asked.digest


def test_seeded_noise_is_not_paid_for(tmp_path: Path) -> None:
    account = Account(tmp_path / "account", 2)
    with pytest.raises(InvalidInput, match="seeded noise"):
        task().answer((0.1, 0.2), [1], SeededNoise(0), account=account)
    assert account.spent == 0


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"format": "recordwise-account-1", "cap": "1", "answers": {"a": {}}}', "\x00" * 9]
)
def test_a_damaged_account_is_never_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "account").write_text(content)
    with pytest.raises(LedgerFault, match="cannot be read"):
        Account(tmp_path / "account", 1)


def test_an_account_that_overspent_is_damaged(tmp_path: Path) -> None:
    Account(tmp_path / "account", 1).release("a", Fraction(1), lambda: b"x")
    book = json.loads((tmp_path / "account").read_text())
    (tmp_path / "account").write_text(json.dumps(book | {"cap": "1/2"}))
    with pytest.raises(LedgerFault, match="cannot be read"):
        Account(tmp_path / "account")


# Runs on a device with NumPy alone, and dies at the given call that touches the disk; sends its message to stdout.
MORTAL = """
import builtins, io, os, sys
class NumpyOnly:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"numpy", "recordwise", *sys.stdlib_module_names}:
            raise ImportError(f"{name} is not on this device")
sys.meta_path.insert(0, NumpyOnly())
from pathlib import Path
from recordwise.account import Account
from recordwise.device import Task
from recordwise.privacy.noise import SystemNoise
place, asked, dies_at = Path(sys.argv[1]), Task.load(Path(sys.argv[2])), int(sys.argv[3])
calls = 0
def mortal(call):
    def step(*arguments, **named):
        global calls
        if calls == dies_at:
            os._exit(9)
        calls += 1
        return call(*arguments, **named)
    return step
os.open, os.fsync, os.replace, os.close = map(mortal, (os.open, os.fsync, os.replace, os.close))
Path.open = mortal(Path.open)
account = Account(place, 2)
message = asked.answer((0.1, 0.2), [1], SystemNoise(), account=account)
heavy = {"scipy", "sklearn", "torch", "sqlalchemy", "pydantic", "flwr"} & set(sys.modules)
assert not heavy, heavy
sys.stdout.write(message.hex())
sys.stdout.flush()
if calls == dies_at:
    os._exit(9)
"""


def device(place: Path, asked: Path, dies_at: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MORTAL, str(place), str(asked), str(dies_at)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_device_killed_at_any_point_never_sends_what_it_did_not_charge(tmp_path: Path) -> None:
    task().save(tmp_path / "task.npz")
    deaths = 0
    for dies_at in range(100):
        place = tmp_path / f"account-{dies_at}"
        died = device(place, tmp_path / "task.npz", dies_at)
        if died.returncode == 0:
            break
        assert died.returncode == 9, died.stderr
        deaths += 1
        spent = Account(place, 2).spent
        assert spent in (0, 2)
        if died.stdout:
            assert spent == 2, "it sent, and had not charged"
        again = device(place, tmp_path / "task.npz", -1)
        assert again.returncode == 0, again.stderr
        assert not died.stdout or again.stdout == died.stdout, "one charge, two messages"
        assert Account(place).spent == 2
    assert deaths >= 10


def test_of_devices_that_race_for_the_last_of_the_cap_one_wins(tmp_path: Path) -> None:
    place = tmp_path / "account"
    Account(place, 2)
    for number in range(4):
        task(number).save(tmp_path / f"task-{number}.npz")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", MORTAL, str(place), str(tmp_path / f"task-{number}.npz"), "-1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    ends = [racer.communicate() for racer in racers]
    assert sorted(racer.returncode for racer in racers) == [0, 1, 1, 1]
    assert sum("BudgetExceeded" in end[1] for end in ends) == 3
    assert Account(place).spent == 2
