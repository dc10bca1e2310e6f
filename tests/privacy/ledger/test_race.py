"""Processes that race for the last of a budget, on both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from mortals import Mortals

from recordwise.privacy.ledger import Ledger

RACERS = [f"racer-{number}" for number in range(6)]


@pytest.mark.parametrize("affordable", [1, 2, 5])
def test_exactly_as_many_win_as_the_budget_can_pay(place: str, mortals: Mortals, affordable: int) -> None:
    # Everybody also opens the ledger and the budget for the first time, at once.
    budget = str(Fraction(affordable, 10) + Fraction(1, 20))
    outcomes, produced = mortals.use(place, *RACERS, budget=budget)
    assert sum(outcome.released for outcome in outcomes) == affordable, outcomes
    assert sum(outcome.end.startswith("BudgetExceeded") for outcome in outcomes) == len(RACERS) - affordable, outcomes
    ledger = Ledger.open(place, read_only=True)
    history = ledger.history("study")
    assert sorted(entry.key for entry in history) == sorted(produced)
    assert [entry.spent for entry in history] == [Fraction(count, 10) for count in range(1, affordable + 1)]
    shown = Counter(outcome.shown for outcome in outcomes if outcome.released)
    assert shown == Counter(ledger.payload("study", entry.key) for entry in history)


def test_racers_for_one_key_get_one_release_for_one_charge(place: str, mortals: Mortals) -> None:
    outcomes, produced = mortals.use(place, *["round-1"] * 6, budget="1")
    assert all(outcome.released for outcome in outcomes)
    assert len({outcome.shown for outcome in outcomes}) == 1
    assert produced == ["round-1"]
    assert Ledger.open(place).spent("study") == Fraction(1, 10)


def test_the_race_exposes_a_ledger_that_takes_no_lock(new_schema: Callable[..., str], mortals: Mortals) -> None:
    # Nobody commits before somebody else has looked at the records too: with a lock, nobody would come.
    outcomes, _ = mortals.use(new_schema(), *RACERS, budget="1/10", company=2, twin="takes no lock")
    assert sum(outcome.released for outcome in outcomes) > 1


def test_a_server_that_defaults_to_old_snapshots_changes_nothing(
    new_schema: Callable[..., str], mortals: Mortals
) -> None:
    place = new_schema("default_transaction_isolation=repeatable read", "synchronous_commit=off")
    outcomes, _ = mortals.use(place, *RACERS, budget="1/10")
    assert sum(outcome.released for outcome in outcomes) == 1
