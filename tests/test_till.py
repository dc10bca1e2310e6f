"""Payments across crashes, changed records and processes that go on with one run."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recordwise.checkpoint import Checkpoint
from recordwise.errors import ChangedInput
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.terms import Terms
from recordwise.till import Till
from recordwise.votes import NOBODY, Ballot, Votes

BALLOT = Ballot(num_queries=2, num_classes=2)
ROUND = CentralLaplace(ballot=BALLOT, epsilon=Fraction(1))
NUM_RECORDS = 5


def till(folder: Path, **settings: Any) -> Till:
    asked = {"ledger": None, "budget": "default", "budget_terms": None, "individual": True, "num_records": NUM_RECORDS}
    return Till.open(
        Terms(epsilon=Fraction(1)), folder=Checkpoint.open(folder, {}), noise=SystemNoise(), **(asked | settings)
    )


def votes() -> Votes:
    rows = np.zeros((NUM_RECORDS, 1), dtype=np.int32)
    return Votes(BALLOT, rows, rows)


def admitted(one: Till, whose: str = "the same") -> int:
    return int((one.admit(votes(), ROUND, whose=lambda: whose).queries != NOBODY).sum())


def test_a_second_process_sees_what_the_first_has_paid(tmp_path: Path) -> None:
    """Both open the run before either goes on; an allowance of one round pays for one round, not one each."""
    began = till(tmp_path)
    assert began.payments is not None
    began.payments.save(tmp_path / "private" / "payments.npz")
    (tmp_path / "private" / "records.sha256").write_text("the same")
    first, second = till(tmp_path), till(tmp_path)
    assert admitted(first) == NUM_RECORDS
    assert admitted(second) == 0


def test_payments_are_not_passed_on_to_other_records(tmp_path: Path) -> None:
    assert admitted(till(tmp_path), "Ann, Bob") == NUM_RECORDS
    with pytest.raises(ChangedInput, match="private records changed"):
        admitted(till(tmp_path), "Bob, Ann")
    assert admitted(till(tmp_path), "Ann, Bob") == 0


def test_two_processes_that_begin_one_run_at_once_do_not_both_pay(tmp_path: Path) -> None:
    first, second = till(tmp_path), till(tmp_path)
    admitted(first)
    with pytest.raises(ChangedInput, match="another process"):
        admitted(second)


def test_without_a_ledger_the_folder_gives_a_release_again(tmp_path: Path) -> None:
    """A second tally of the same votes with fresh noise would cost the records twice."""
    made: list[bytes] = []

    def produce() -> bytes:
        made.append(b"tally %d" % len(made))
        return made[-1]

    answers = [till(tmp_path, individual=False).pay(1, ROUND, produce) for _ in range(2)]
    assert answers == [b"tally 0", b"tally 0"] and len(made) == 1
