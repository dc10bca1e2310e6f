"""A device's account: nothing leaves uncharged, whatever dies when, and the cap holds for good."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from counts import KILLS, Counted
from recordwise.device import Task
from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault
from recordwise.privacy.device_account import DeviceAccount
from recordwise.privacy.noise import SeededNoise, SystemNoise
from recordwise.protocols.local import Collision
from recordwise.votes.ballot import Ballot

QUERIES = np.array([[0, 0], [0, 1], [1, 0], [5, 5]], dtype=np.float32)


def task(number: int = 0, epsilon: object = 2) -> Task:
    ballot = Ballot(num_queries=4, num_classes=3)
    return Task(mechanism=Collision(ballot=ballot, epsilon=Fraction(str(epsilon))), queries=QUERIES + number)


def answer(asked: Task, account: DeviceAccount, vector: Sequence[float] = (0.1, 0.2), **more: bytes) -> bytes:
    return asked.answer(vector, [1], SystemNoise(), account=account, **more)


def test_tasks_beyond_the_cap_are_refused_for_good(tmp_path: Path) -> None:
    place = tmp_path / "account"
    for number in range(3):
        answer(task(number, "0.1"), DeviceAccount(place, "0.3"))
    assert DeviceAccount(place).spent == DeviceAccount(place).cap == Fraction(3, 10)
    with pytest.raises(BudgetExceeded, match=r"needs epsilon 0\.1 but 0 of the device's 0\.3 is left"):
        answer(task(3, "0.1"), DeviceAccount(place, 0.3))
    with pytest.raises(ChangedInput, match="opened with cap 3/10, which cannot become 1"):
        DeviceAccount(place, 1)
    with pytest.raises(InvalidInput, match="is not open yet"):
        DeviceAccount(tmp_path / "new")


def test_a_refused_task_does_not_look_at_the_record(tmp_path: Path) -> None:
    def produce() -> bytes:
        raise AssertionError("the record was looked at")

    with pytest.raises(BudgetExceeded):
        DeviceAccount(tmp_path / "account", 1).release("task", Fraction(2), produce)


def test_a_task_asked_again_gets_the_same_bytes_even_if_the_record_changed(tmp_path: Path) -> None:
    """Fresh noise on the same question would halve the noise, and cost twice."""
    account = DeviceAccount(tmp_path / "account", 2)
    first = answer(task(), account)
    assert {answer(task(), DeviceAccount(tmp_path / "account"), vector) for vector in ((0.1, 0.2), (5.0, 5.0))} == {
        first
    }
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
    account = DeviceAccount(tmp_path / "account", 2)
    with pytest.raises(InvalidInput, match="seeded noise"):
        task().answer((0.1, 0.2), [1], SeededNoise(0), account=account)
    assert account.spent == 0


ENDLESS = '{"format": "recordwise-account-1", "cap": "1", "answers": {"a": {"epsilon": "616e73776572", "message": ""}}}'


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"format": "recordwise-account-1", "cap": "1", "answers": {"a": {}}}', "\x00" * 9, ENDLESS],
)
def test_a_damaged_account_is_never_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "account").write_text(content)
    with pytest.raises(LedgerFault, match="cannot be read"):
        DeviceAccount(tmp_path / "account", 1)


def test_an_account_that_overspent_is_damaged(tmp_path: Path) -> None:
    DeviceAccount(tmp_path / "account", 1).release("a", Fraction(1), lambda: b"x")
    book = json.loads((tmp_path / "account").read_text())
    (tmp_path / "account").write_text(json.dumps(book | {"cap": "1/2"}))
    with pytest.raises(LedgerFault, match="cannot be read"):
        DeviceAccount(tmp_path / "account")


def answered(place: Path, answers: int = 3) -> str:
    for number in range(answers):
        DeviceAccount(place, 5).release(f"task-{number}", Fraction(1), lambda number=number: bytes([number]))  # type: ignore[misc]
    return place.read_text()


def test_every_alteration_of_an_account_is_noticed(tmp_path: Path) -> None:
    place = tmp_path / "account"
    book = json.loads(answered(place))
    altered = []
    for name, value in book.items():
        altered.append({key: held for key, held in book.items() if key != name})
        if name != "answers":
            altered.append({**book, name: f"{value}0"})
    keys = list(book["answers"])
    for key, answer in book["answers"].items():
        rest = {other: held for other, held in book["answers"].items() if other != key}
        altered += [{**book, "answers": rest}, {**book, "answers": {**rest, key + "0": answer}}]
        altered += [{**book, "answers": {**book["answers"], key: answer | edit}} for edit in EDITS]
    for order in itertools.permutations(keys):
        if list(order) != keys:
            altered.append({**book, "answers": {key: book["answers"][key] for key in order}})
    altered.append({**book, "answers": {**book["answers"], "new": book["answers"][keys[0]]}})
    assert len(altered) > 25
    for content in altered:
        place.write_text(json.dumps(content))
        with pytest.raises(LedgerFault):
            DeviceAccount(place, 5)
    place.write_text(json.dumps(book))
    assert DeviceAccount(place).spent == 3


EDITS = ({"epsilon": "1/1000"}, {"message": "ff"})


def test_an_older_account_or_none_is_not_taken_for_the_one_that_answered(tmp_path: Path) -> None:
    place = tmp_path / "account"
    older = answered(place, 1)
    newer = answered(place, 2)
    place.write_text(older)
    with pytest.raises(LedgerFault, match="was altered: put the newest copy back"):
        DeviceAccount(place)
    place.unlink()
    with pytest.raises(LedgerFault, match="has answered and is gone: put it back"):
        DeviceAccount(place, 5)
    place.write_text(newer)
    assert DeviceAccount(place).head.count == 3


def test_an_account_signed_with_another_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(tmp_path / "account", 1)
    monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "another"))
    with pytest.raises(LedgerFault, match="is signed with another key"):
        DeviceAccount(tmp_path / "account")


def test_an_account_of_an_older_version_is_read_and_chained_when_it_is_charged(tmp_path: Path) -> None:
    place = tmp_path / "account"
    book = {"cap": "3", "answers": {"task-0": {"epsilon": "1", "message": "00"}}}
    place.write_text(json.dumps({"format": "recordwise-account-1", **book}))
    assert DeviceAccount(place).spent == 1
    assert answered_again(place) == b"\x00"
    DeviceAccount(place).release("task-1", Fraction(1), lambda: b"1")
    assert json.loads(place.read_text())["format"] == "recordwise-account-2"
    place.write_text(json.dumps({"format": "recordwise-account-1", **book}))
    with pytest.raises(LedgerFault, match="was altered"):
        DeviceAccount(place)


def answered_again(place: Path) -> bytes:
    return DeviceAccount(place).release("task-0", Fraction(1), lambda: b"new")


def test_only_the_last_answer_may_be_missing_from_what_the_owner_remembers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "account"
    account, states = DeviceAccount(place, 4), []
    with monkeypatch.context() as dies:
        dies.setattr(DeviceAccount, "_note", lambda *_: None)  # as if killed right before
        for key in "abc":
            account.release(key, Fraction(1), key.encode)
            states.append(place.read_bytes())
    place.write_bytes(states[0])
    with pytest.raises(LedgerFault, match="was altered"):
        _ = account.spent
    place.write_bytes(states[2])
    assert account.release("c", Fraction(1), bytes) == b"c"  # asked for again, it is remembered
    place.write_bytes(states[1])
    with pytest.raises(LedgerFault, match="was altered"):
        _ = account.spent


# A device with NumPy alone. Every line it reads is an order to one process, a fork that has loaded everything and done
# nothing; it dies at the given call that touches the disk, and sends its message.
DEVICES = """
import json, os, sys, traceback
class NumpyOnly:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {"numpy", "recordwise", *sys.stdlib_module_names}:
            raise ImportError(f"{name} is not on this device")
sys.meta_path.insert(0, NumpyOnly())
from pathlib import Path
from recordwise.privacy.device_account import DeviceAccount
from recordwise.device import Task
from recordwise.privacy.noise import SystemNoise

def use(place, asked, dies_at, sent):
    calls = 0
    def mortal(call):
        def step(*arguments, **named):
            nonlocal calls
            if calls == dies_at:
                os._exit(9)
            calls += 1
            return call(*arguments, **named)
        return step
    asked = Task.load(Path(asked))
    os.open, os.fsync, os.replace, os.close = map(mortal, (os.open, os.fsync, os.replace, os.close))
    Path.open = mortal(Path.open)
    message = asked.answer((0.1, 0.2), [1], SystemNoise(), account=DeviceAccount(place, 2))
    heavy = {"scipy", "sklearn", "torch", "sqlalchemy", "pydantic", "flwr"} & set(sys.modules)
    assert not heavy, heavy
    os.write(sent, message)
    if calls == dies_at:
        os._exit(9)

def born(place, asked, dies_at):
    (sent, send), (told, tell) = os.pipe(), os.pipe()
    if child := os.fork():
        os.close(send)
        os.close(tell)
        return child, sent, told
    try:
        use(Path(place), asked, dies_at, send)
        os._exit(0)
    except BaseException:
        os.write(tell, traceback.format_exc().encode())
        os._exit(1)

for line in sys.stdin:
    ends = []
    for child, sent, told in [born(*order) for order in json.loads(line)]:
        with os.fdopen(sent, "rb") as message, os.fdopen(told, "rb") as complaint:
            end = message.read().hex(), complaint.read().decode()
        ends.append((os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *end))
    print(json.dumps(ends), flush=True)
"""


class End(NamedTuple):
    """What became of a device: how it ended, the message it sent if any, its complaint if any."""

    code: int
    sent: str
    complaint: str


class Devices:
    """Processes that answer tasks, several at once if asked."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._program = subprocess.Popen([sys.executable, "-c", DEVICES], stdin=pipe, stdout=pipe, text=True)

    def answer(self, *orders: tuple[Path, Path, int]) -> list[End]:
        """One process per order: the account's place, the task's, and the call before which it dies."""
        assert self._program.stdin and self._program.stdout
        told = [(str(place), str(asked), dies_at) for place, asked, dies_at in orders]
        print(json.dumps(told), file=self._program.stdin, flush=True)
        return [End(*end) for end in json.loads(self._program.stdout.readline())]

    def end(self) -> None:
        self._program.communicate()


@pytest.fixture(scope="module")
def devices() -> Iterator[Devices]:
    running = Devices()
    yield running
    running.end()


def test_a_device_killed_at_any_point_never_sends_what_it_did_not_charge(
    tmp_path: Path, devices: Devices, counted: Counted
) -> None:
    asked = tmp_path / "task.npz"
    task().save(asked)
    for dies_at in itertools.count():
        place = tmp_path / f"account-{dies_at}"
        (died,) = devices.answer((place, asked, dies_at))
        if died.code == 0:
            break
        assert died.code == 9, died.complaint
        spent = DeviceAccount(place, 2).spent
        assert spent in (0, 2)
        if died.sent:
            assert spent == 2, "it sent, and had not charged"
        (again,) = devices.answer((place, asked, -1))
        assert again.code == 0, again.complaint
        assert not died.sent or again.sent == died.sent, "one charge, two messages"
        assert DeviceAccount(place).spent == 2
    assert dies_at >= 10  # deaths
    counted(KILLS, dies_at, 0)


def test_of_devices_that_race_for_the_last_of_the_cap_one_wins(tmp_path: Path, devices: Devices) -> None:
    place = tmp_path / "account"
    DeviceAccount(place, 2)
    for number in range(4):
        task(number).save(tmp_path / f"task-{number}.npz")
    ends = devices.answer(*((place, tmp_path / f"task-{number}.npz", -1) for number in range(4)))
    assert sorted(end.code for end in ends) == [0, 1, 1, 1]
    assert sum("BudgetExceeded" in end.complaint for end in ends) == 3
    assert DeviceAccount(place).spent == 2
