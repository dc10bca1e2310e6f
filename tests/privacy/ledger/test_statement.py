"""The ledger in words: every release with its own trust, and no cost rounded down."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Guarantee, Trust
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.ledger.statement import ledger_as_text


def test_a_budget_says_what_it_allows_and_a_release_what_it_asked_for(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    assert ledger_as_text(ledger).startswith("no budget is open in this ledger")
    ledger.open_budget("study", epsilon=1.00049)
    assert ledger_as_text(ledger).splitlines()[1].endswith("nothing released yet")
    third = Fraction(1, 3)
    promise = Guarantee(epsilon=third, trust=Trust.LOCAL)
    ledger.release("study", "round-1", Pure(third), promise, lambda: b"a tally", note="wards")
    head, _, row, _, end = ledger_as_text(ledger).splitlines()
    assert end == f"head: {ledger.verify().head.digest}, entry 3"
    assert head.startswith("budget 'study': epsilon 0.3334 of 1 spent, 0.6671 left")
    assert head.endswith("(one record, replace, at most central trust)")
    assert row.split()[2:] == ["0.3334", "0.3334", "local", "Pure", "round-1", "wards"]
