"""kill -9 at every point of a release, on both databases."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from mortals import Mortals, Outcome

from counts import KILLS, Counted
from recordwise.privacy.ledger import Ledger

COST = Fraction(1, 10)


def broken_promises(place: str, outcome: Outcome, mortals: Mortals) -> list[str]:
    """What a killed process and its successor did wrong, if anything."""
    wrong = []
    ledger = Ledger.open(place)
    held = ledger.history("study") if ledger.budgets() else []
    kept = [ledger.payload("study", entry.key) for entry in held]
    if [hashlib.sha256(payload).hexdigest() for payload in kept] != [entry.digest for entry in held]:
        wrong.append("a charge without its release")
    if outcome.shown and outcome.shown not in kept:
        wrong.append("a release without its charge")
    (successor,), produced = mortals.use(place, "round-1", budget="1/10")
    if not successor.released:
        wrong.append(f"cannot resume: {successor.end}")
    if kept and (successor.shown not in kept or produced):
        wrong.append("a second release for one charge")
    if outcome.shown and successor.shown != outcome.shown:
        wrong.append("another release under the same key")
    ledger.verify()
    if [(entry.key, entry.spent) for entry in ledger.history("study")] != [("round-1", COST)]:
        wrong.append("not charged exactly once")
    return wrong


@pytest.fixture
def new_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes whatever comes next the first thing its owner does: there is no key, and nothing was seen."""
    numbers = itertools.count()
    return lambda: monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / f"owner-{next(numbers)}"))


@pytest.mark.timeout(1200)  # two hundred deaths, and as many successors, on a machine that may be busy
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_process_killed_at_any_step_breaks_no_promise(
    new_place: Callable[[], str], mortals: Mortals, new_owner: Callable[[], None], every: int, counted: Counted
) -> None:
    new_owner()
    (unharmed,), _ = mortals.use(new_place(), "round-1", budget="1/10")
    assert unharmed.released
    assert unharmed.steps > 40  # creations, writes, syncs, messages; if fewer, the killer does not see them
    for step in range(1, unharmed.steps + 1, every):
        place = new_place()
        new_owner()
        (outcome,), _ = mortals.use(place, "round-1", budget="1/10", die_at=step)
        assert outcome.killed, f"step {step} of {unharmed.steps}: {outcome.end}"
        assert not outcome.shown  # showing the release is the last step
        assert broken_promises(place, outcome, mortals) == [], f"killed before step {step} of {unharmed.steps}"
    counted(KILLS, len(range(1, unharmed.steps + 1, every)), 0)


def test_the_last_steps_come_after_the_commit(place: str, mortals: Mortals) -> None:
    (unharmed,), _ = mortals.use(place, "round-1", budget="1")
    (last,), _ = mortals.use(place, "round-1", budget="1")
    (killed,), produced = mortals.use(place, "round-2", budget="1", die_at=10**6)
    assert unharmed.shown == last.shown != killed.shown
    (killed,), produced = mortals.use(place, "round-3", budget="1", die_at=killed.steps)
    assert killed.killed
    assert produced == ["round-3"]
    assert [entry.key for entry in Ledger.open(place).history("study")] == ["round-1", "round-2", "round-3"]


def test_a_release_shown_before_its_commit_is_caught(new_place: Callable[[], str], mortals: Mortals) -> None:
    twin = {"twin": "shows before the commit", "budget": "1/10"}
    (unharmed,), _ = mortals.use(new_place(), "round-1", **twin)  # type: ignore[arg-type]
    for step in range(unharmed.steps - 40, unharmed.steps + 1):
        place = new_place()
        (outcome,), _ = mortals.use(place, "round-1", die_at=step, **twin)  # type: ignore[arg-type]
        if {"a release without its charge", "another release under the same key"} <= set(
            broken_promises(place, outcome, mortals)
        ):
            return
    pytest.fail("no death showed it")
