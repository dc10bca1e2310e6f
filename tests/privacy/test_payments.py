"""What records have paid is kept such that no older copy is taken for the newest, and no kill is taken for a theft."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from recordwise.errors import InvalidInput, LedgerFault
from recordwise.privacy.filter import RecordFilter
from recordwise.privacy.owner import Owner
from recordwise.privacy.payments import Payments

VOTE = Fraction(1, 10)


@pytest.fixture(autouse=True)
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "owner"))
    return tmp_path / "owner"


def kept(folder: Path, run: str = "run") -> Payments:
    return Payments(folder / "payments", run)


def paid(folder: Path, rounds: int) -> list[bytes]:
    """The file after each round, each written by a process of its own."""
    states = []
    for _ in range(rounds):
        book = kept(folder)
        one = book.load() or RecordFilter(1, 3)
        one.admit(np.ones(3, np.int64), VOTE)
        book.save(one)
        states.append((folder / "payments").read_bytes())
    return states


def spent(one: RecordFilter | None) -> Fraction:
    assert one is not None
    return one._payments[one._paid[0]]


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    assert kept(tmp_path).load() is None
    paid(tmp_path, 3)
    assert spent(kept(tmp_path).load()) == 3 * VOTE
    assert (tmp_path / "payments").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("back", [1, 2])
def test_an_older_copy_is_refused(tmp_path: Path, back: int) -> None:
    """Also the one before the last: every state that `save` returned for is remembered."""
    states = paid(tmp_path, 4)
    (tmp_path / "payments").write_bytes(states[-1 - back])
    with pytest.raises(LedgerFault, match="altered or set back"):
        kept(tmp_path).load()
    (tmp_path / "payments").write_bytes(states[-1])
    assert spent(kept(tmp_path).load()) == 4 * VOTE


def test_a_file_that_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    paid(tmp_path, 1)
    (tmp_path / "payments").unlink()
    with pytest.raises(LedgerFault, match="is gone: put it back"):
        kept(tmp_path).load()
    assert kept(tmp_path, "another run").load() is None


def test_who_writes_without_the_key_is_refused(tmp_path: Path, owner: Path) -> None:
    (before,) = paid(tmp_path, 1)
    for forged in (
        before.replace(b'"count": 0', b'"count": 1'),
        before.split(b"\n", 1)[0] + b"\n" + RecordFilter(1, 3).to_bytes(),
    ):
        (tmp_path / "payments").write_bytes(forged)
        with pytest.raises(LedgerFault, match="altered or set back"):
            kept(tmp_path).load()
    (tmp_path / "payments").write_bytes(before)
    (owner / "ledger.key").rename(owner / "lost")
    with pytest.raises(LedgerFault, match="put that key there"):
        kept(tmp_path).load()


@pytest.mark.parametrize("content", [b"", b"{}\n", b"[]\n", b'{"count": "x", "before": "", "key": "", "tag": ""}\n'])
def test_a_file_of_another_form_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "payments").write_bytes(content)
    with pytest.raises((InvalidInput, LedgerFault), match="what records have paid"):
        kept(tmp_path).load()


class Killed(BaseException):
    pass


def killed(*_: object, **__: object) -> None:
    raise Killed


def test_processes_killed_before_they_noted_what_they_saved_raise_no_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many in a row: each start notes what it finds. So all but the last can no longer be set back."""
    states = paid(tmp_path, 1)
    for _ in range(3):
        book = kept(tmp_path)
        one = book.load()
        assert one is not None
        one.admit(np.ones(3, np.int64), VOTE)
        with monkeypatch.context() as dies:
            dies.setattr(Owner, "note", killed)
            with pytest.raises(Killed):
                book.save(one)
        states.append((tmp_path / "payments").read_bytes())
    assert spent(kept(tmp_path).load()) == 4 * VOTE
    for older in states[:-1]:
        (tmp_path / "payments").write_bytes(older)
        with pytest.raises(LedgerFault, match="altered or set back"):
            kept(tmp_path).load()


def test_nothing_goes_on_that_cannot_be_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the file would run ahead of what is remembered, and whatever lies in between could be set back."""
    paid(tmp_path, 1)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("recordwise.privacy.owner.write_whole", full)
        for _ in range(3):
            with pytest.raises(OSError, match="No space"):
                paid(tmp_path, 1)
    assert spent(kept(tmp_path).load()) == 2 * VOTE
