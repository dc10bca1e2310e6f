"""Processes that race for the last of a budget, on both databases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from mortals import Mortals

from counts import CHARGES, Counted, Share
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


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_of_thousands_of_charges_exactly_as_many_are_paid_as_the_budget_allows(
    new_place: Callable[[], str], mortals: Mortals, counted: Counted, share: Share
) -> None:
    """Four processes ask for 25 releases each, of which 60 can be paid; forty times over on each database."""
    ledgers, asked, affordable = share(40), 25, 60
    for _ in range(ledgers):
        place = new_place()
        outcomes, produced = mortals.use(place, *RACERS[:4], budget=f"{affordable}/10", before=asked - 1)
        assert all(outcome.released or outcome.end.startswith("BudgetExceeded") for outcome in outcomes), outcomes
        ledger = Ledger.open(place, read_only=True)
        history = ledger.history("study")
        assert len(history) == len(produced) == affordable
        assert {entry.key for entry in history} <= {f"{one}/{n}" for one in RACERS for n in range(asked)} | {*RACERS}
        assert ledger.spent("study") == ledger.budget("study").epsilon
        ledger.verify()
    counted(CHARGES, ledgers * 4 * asked, 0)


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
