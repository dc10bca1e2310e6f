"""Payments across crashes, changed records and processes that go on with one run."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordwise import stored
from recordwise.account import Account, OpenAccount
from recordwise.checkpoint import Checkpoint
from recordwise.errors import ChangedInput, LedgerFault, RecordwiseError
from recordwise.privacy.guarantee import Neighbours
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.central import CentralLaplace, CentralPermuteAndFlip
from recordwise.protocols.release import Release, Tally, pack
from recordwise.protocols.terms import Terms
from recordwise.votes import NOBODY, Ballot, Votes

BALLOT = Ballot(num_queries=2, num_classes=2)
ROUND = CentralLaplace(ballot=BALLOT, epsilon=Fraction(1))
NUM_RECORDS = 5


def account(folder: Path, *, individual: bool = True, **settings: Any) -> OpenAccount:
    return OpenAccount.open(
        Account(round_epsilon=1.0 if individual else None, **settings),
        Terms(epsilon=Fraction(1)),
        folder=Checkpoint.open(folder, {}),
        noise=SystemNoise(),
        num_records=NUM_RECORDS,
    )


def tally(count: int) -> Tally:
    return Tally(BALLOT, ROUND.guarantee, np.full((2, 2), count / 4), ROUND.law)


def total(release: Release) -> float:
    return float(release.scores().sum())


def votes() -> Votes:
    rows = np.zeros((NUM_RECORDS, 1), dtype=np.int32)
    return Votes(BALLOT, rows, rows)


def admitted(one: OpenAccount, whose: str = "the same") -> int:
    return int((one.admit(votes(), ROUND, whose=lambda: whose).queries != NOBODY).sum())


def test_a_second_process_sees_what_the_first_has_paid(tmp_path: Path) -> None:
    """Both open the run before either goes on; an allowance of one round pays for one round, not one each."""
    began = account(tmp_path)
    assert began.payments is not None and began.kept_payments is not None
    began.kept_payments.save(began.payments)
    (tmp_path / "private" / "records.sha256").write_text("the same")
    first, second = account(tmp_path), account(tmp_path)
    assert admitted(first) == NUM_RECORDS
    assert admitted(second) == 0


def test_payments_are_not_passed_on_to_other_records(tmp_path: Path) -> None:
    assert admitted(account(tmp_path), "Ann, Bob") == NUM_RECORDS
    with pytest.raises(ChangedInput, match="private records changed"):
        admitted(account(tmp_path), "Bob, Ann")
    assert admitted(account(tmp_path), "Ann, Bob") == 0


def test_two_processes_that_begin_one_run_at_once_do_not_both_pay(tmp_path: Path) -> None:
    first, second = account(tmp_path), account(tmp_path)
    admitted(first)
    with pytest.raises(ChangedInput, match="another process"):
        admitted(second)


def test_without_a_ledger_the_folder_gives_a_release_again(tmp_path: Path) -> None:
    """A second tally of the same votes with fresh noise would cost the records twice."""
    made: list[bytes] = []

    def produce() -> Tally:
        made.append(tally(len(made)))
        return made[-1]

    answers = [account(tmp_path, individual=False).pay(1, ROUND, produce) for _ in range(2)]
    assert [total(answer) for answer in answers] == [0, 0] and len(made) == 1


def paid(folder: Path, ledger: Path | None, **settings: Any) -> bytes:
    asked = {"ledger": ledger, "budget_epsilon": None if ledger is None else 1.0, "individual": False} | settings
    return total(account(folder, **asked).pay(1, ROUND, lambda: tally(7)))


def test_a_run_is_taken_up_with_the_ledger_that_paid_wherever_it_lies_now(tmp_path: Path) -> None:
    paid(tmp_path / "run", tmp_path / "first.sqlite")
    (tmp_path / "first.sqlite").rename(tmp_path / "moved.sqlite")
    assert paid(tmp_path / "run", tmp_path / "moved.sqlite") == 7
    assert Ledger.open(tmp_path / "moved.sqlite").spent("default") == 1
    kept = json.loads((tmp_path / "run" / "released-1").read_text())["payer"]
    assert len(kept) == 64 and "sqlite" not in kept, "a digest: no path, no URL, no password"


@pytest.mark.parametrize("remembered", [True, False])
def test_a_ledger_that_is_gone_is_not_made_anew_beside_its_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remembered: bool
) -> None:
    """Neither for the run that it paid for, which knows on its own, nor for another one, whose owner remembers."""
    place = tmp_path / "ledger.sqlite"
    paid(tmp_path / "run", place)
    place.unlink()
    if not remembered:
        monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "another owner"))
    with pytest.raises(LedgerFault, match="it is gone" if remembered else "does not exist"):
        paid(tmp_path / "run", place)
    if remembered:
        with pytest.raises(LedgerFault, match="was charged, and had 3 entries: it is gone"):
            paid(tmp_path / "another run", place)
    assert not place.exists()


@pytest.mark.parametrize("first", ["a ledger", "none"])
@pytest.mark.parametrize("second", ["another ledger", "another budget", "a new file", "none"])
def test_a_run_is_not_taken_up_with_another_ledger_or_none(tmp_path: Path, first: str, second: str) -> None:
    """A second release of the same votes, paid by somebody else or by nobody, would show in no account."""
    if first == second:
        return
    paid(tmp_path / "run", tmp_path / "first.sqlite" if first == "a ledger" else None)
    other = tmp_path / ("first.sqlite" if second == "another budget" and first == "a ledger" else "second.sqlite")
    if second in ("another ledger", "another budget"):
        Ledger.open(other).open_budget("other" if second == "another budget" else "default", epsilon=1)
    name = "other" if second == "another budget" else "default"
    with pytest.raises(RecordwiseError) as refused:
        paid(tmp_path / "run", None if second == "none" else other, budget=name)
    if second == "a new file":
        assert isinstance(refused.value, LedgerFault) and not other.exists(), "and no ledger was begun"
    else:
        assert isinstance(refused.value, ChangedInput)
        assert "was paid from another ledger or budget, or from none" in str(refused.value)
    if second in ("another ledger", "another budget"):
        assert Ledger.open(other).spent(name) == 0


def test_of_two_payers_that_begin_one_run_at_once_one_is_refused(tmp_path: Path) -> None:
    places = [tmp_path / "first.sqlite", tmp_path / "second.sqlite"]
    began = [account(tmp_path / "run", ledger=at, budget_epsilon=1.0, individual=False) for at in places]
    assert total(began[0].pay(1, ROUND, lambda: tally(7))) == 7
    with pytest.raises(ChangedInput, match="another ledger"):
        began[1].pay(1, ROUND, lambda: tally(8))
    assert Ledger.open(places[1]).spent("default") == 0


def test_before_anything_was_released_the_payer_may_change(tmp_path: Path) -> None:
    def fails() -> bytes:
        raise OSError("no space left")

    with pytest.raises(OSError, match="space"):
        account(tmp_path / "run", ledger=tmp_path / "first.sqlite", budget_epsilon=1.0).pay(1, ROUND, fails)
    assert paid(tmp_path / "run", tmp_path / "second.sqlite") == 7


def other_than(asked: str) -> Release:
    ballot = replace(BALLOT, num_queries=3) if asked == "ballot" else BALLOT
    protocol = {
        "ballot": CentralLaplace(ballot=ballot, epsilon=Fraction(1)),
        "kind": CentralPermuteAndFlip(ballot=ballot, epsilon=Fraction(1)),
        "neighbours": replace(ROUND, neighbours=Neighbours.ADD_REMOVE),
    }[asked]
    return protocol.blank()


@pytest.mark.parametrize("asked", ["ballot", "kind", "neighbours"])
def test_a_kept_release_is_one_that_the_run_asks_for(tmp_path: Path, asked: str) -> None:
    """A folder without a ledger keeps its releases as files, and anybody who may write there may exchange them."""
    one = account(tmp_path, individual=False)
    assert total(one.pay(1, ROUND, lambda: tally(4))) == 4
    (tmp_path / "release-1").write_bytes(stored.to_bytes(pack(other_than(asked))))
    with pytest.raises(ChangedInput, match="release of round 1 that was kept is another than this run asks for"):
        account(tmp_path, individual=False).pay(1, ROUND, lambda: pytest.fail("it was made again"))
