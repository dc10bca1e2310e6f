"""What the ledger pays for, what it refuses, and what it remembers; on both databases."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from recordwise.errors import BudgetExceeded, ChangedInput, InvalidInput, LedgerFault
from recordwise.privacy.accountant import total_epsilon
from recordwise.privacy.events import Approximate, DiscreteGaussianTally, DiscreteLaplaceTally, Event, Filtered, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit
from recordwise.privacy.ledger import Budget, Entry, Ledger
from recordwise.privacy.ledger import __all__ as public_names
from recordwise.privacy.ledger.store import VERSION, Store, releases, schema

TENTH = Fraction(1, 10)


@pytest.fixture
def ledger(place: str) -> Ledger:
    return Ledger.open(place)


def pay(ledger: Ledger, key: str, event: Event | None = None, *, delta: float = 0, **terms: Any) -> bytes:
    event = event or Pure(TENTH)
    guarantee = Guarantee(epsilon=total_epsilon([event], delta), delta=delta, **terms)  # type: ignore[arg-type]
    return ledger.release("study", key, event, guarantee, lambda: f"tally of {key}".encode())


def never() -> bytes:
    raise AssertionError("produced what could not be paid for")


def test_three_charges_of_a_tenth_fit_three_tenths_and_a_fourth_does_not(ledger: Ledger) -> None:
    ledger.open_budget("study", epsilon=0.3)
    for round_number in range(3):
        assert pay(ledger, f"round-{round_number}") == f"tally of round-{round_number}".encode()
    assert ledger.left("study") == 0
    message = r"'round-4' needs epsilon 0.1 but 0 of 0.3 is left in budget 'study'; ask for a smaller epsilon"
    with pytest.raises(BudgetExceeded, match=message):
        ledger.release("study", "round-4", Pure(TENTH), Guarantee(epsilon=TENTH), never)
    assert len(ledger.history("study")) == 3


def test_a_key_asked_for_again_gives_the_same_bytes_and_costs_nothing(ledger: Ledger) -> None:
    ledger.open_budget("study", epsilon=0.1)
    first = pay(ledger, "round-1")
    again = ledger.release("study", "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), never)
    assert again == first == ledger.payload("study", "round-1")
    assert len(ledger.history("study")) == 1


@pytest.mark.parametrize(
    ("event", "guarantee"),
    [
        (Pure(Fraction(1, 20)), Guarantee(epsilon=TENTH)),
        (DiscreteLaplaceTally(Fraction(20), 2), Guarantee(epsilon=TENTH)),  # the same cost, but not the same release
        (Pure(TENTH), Guarantee(epsilon=TENTH, trust=Trust.LOCAL)),
    ],
)
def test_a_key_cannot_be_taken_twice(ledger: Ledger, event: Event, guarantee: Guarantee) -> None:
    ledger.open_budget("study", epsilon=1)
    pay(ledger, "round-1")
    with pytest.raises(ChangedInput, match="'round-1' was released with another event or guarantee"):
        ledger.release("study", "round-1", event, guarantee, never)


def test_the_same_key_in_two_budgets_is_two_releases(ledger: Ledger) -> None:
    for name in ("study", "other"):
        ledger.open_budget(name, epsilon=0.1)
        ledger.release(name, "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), name.encode)
    assert [ledger.payload(name, "round-1") for name in ("study", "other")] == [b"study", b"other"]
    assert [budget.name for budget in ledger.budgets()] == ["other", "study"]


def test_a_producer_that_fails_costs_nothing(ledger: Ledger) -> None:
    ledger.open_budget("study", epsilon=0.1)
    with pytest.raises(AssertionError, match="produced"):
        ledger.release("study", "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), never)
    with pytest.raises(InvalidInput, match="'round-1' must be produced as bytes, got str"):
        ledger.release("study", "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), lambda: "text")  # type: ignore[arg-type,return-value]
    assert ledger.history("study") == []
    assert pay(ledger, "round-1")


def test_opening_a_budget_again_is_harmless_and_changing_it_is_refused(ledger: Ledger) -> None:
    terms = Budget(name="study", epsilon=Fraction(1, 2), delta=Fraction(1, 10**6), neighbours=Neighbours.ADD_REMOVE)
    for _ in range(2):
        opened = ledger.open_budget("study", epsilon=0.5, delta=1e-6, neighbours=Neighbours.ADD_REMOVE)
        assert opened == terms == ledger.budget("study")
    for term, value in {
        "epsilon": 0.6,
        "delta": 0,
        "neighbours": Neighbours.REPLACE,
        "unit": Unit.CLIENT,
        "trust": Trust.LOCAL,
    }.items():
        changed = {"epsilon": 0.5, "delta": 1e-6, "neighbours": Neighbours.ADD_REMOVE} | {term: value}
        with pytest.raises(ChangedInput, match=f"budget 'study' was opened with {term} .*, which cannot become"):
            ledger.open_budget("study", **changed)  # type: ignore[arg-type]
    assert ledger.budgets() == [terms]


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"epsilon": float("nan")}, "must be a finite number, got nan"),
        ({"epsilon": 0}, "epsilon must be > 0"),
        ({"epsilon": 1, "delta": 1}, r"delta must lie in \[0, 1\), got 1.0"),
        ({"epsilon": 1, "neighbours": "twin"}, "neighbours must be one of 'replace', 'add-remove', got 'twin'"),
        ({"epsilon": 1, "name": ""}, "budget must be a name of 1 to 200 printable characters, got ''"),
        ({"epsilon": 1, "name": "a\0b"}, "printable"),
    ],
)
def test_terms_that_mean_nothing_are_refused(ledger: Ledger, terms: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ledger.open_budget(**{"name": "study", **terms})
    assert ledger.budgets() == []


@pytest.mark.parametrize(
    ("guarantee", "message"),
    [
        ({"neighbours": Neighbours.ADD_REMOVE}, "counts neighbours replace, but 'round-1' is private for add-remove"),
        ({"unit": Unit.CLIENT}, "counts unit record, but 'round-1' is private for client"),
        ({"private": False}, "'round-1' was drawn from seeded noise: it is not private and no budget pays for it"),
        ({"trust": Trust.CENTRAL}, "grants shuffle trust, but 'round-1' asks for central trust"),
        ({"trust": Trust.DISTRIBUTED}, "grants shuffle trust, but 'round-1' asks for distributed trust"),
        ({"epsilon": Fraction(1, 20)}, "'round-1' promises epsilon 0.05 but its event costs 0.1"),
    ],
)
def test_a_release_about_something_else_is_refused_unproduced(
    ledger: Ledger, guarantee: dict[str, Any], message: str
) -> None:
    ledger.open_budget("study", epsilon=1, trust=Trust.SHUFFLE)
    promised = replace(Guarantee(epsilon=TENTH, trust=Trust.SHUFFLE), **guarantee)
    with pytest.raises(InvalidInput, match=message):
        ledger.release("study", "round-1", Pure(TENTH), promised, never)
    assert ledger.history("study") == []


def test_central_trust_pays_for_every_protocol_and_local_releases_fit_every_budget(ledger: Ledger) -> None:
    ledger.open_budget("study", epsilon=1)
    for trust in Trust:
        pay(ledger, f"{trust}", trust=trust)
        ledger.open_budget(f"{trust}", epsilon=1, trust=trust)
        local = Guarantee(epsilon=TENTH, trust=Trust.LOCAL)
        ledger.release(f"{trust}", "local", Pure(TENTH), local, lambda: b"")
    assert ledger.spent("study") == Fraction(4, 10)


def test_unknown_names_and_nameless_keys_are_refused(ledger: Ledger) -> None:
    with pytest.raises(InvalidInput, match="has no budget 'study': open it first"):
        pay(ledger, "round-1")
    ledger.open_budget("study", epsilon=1)
    with pytest.raises(InvalidInput, match="key must be a name"):
        pay(ledger, " ")
    with pytest.raises(InvalidInput, match="holds no release 'round-9'"):
        ledger.payload("study", "round-9")
    for read in (ledger.history, ledger.left, ledger.spent, ledger.budget):
        with pytest.raises(InvalidInput, match="has no budget 'nobody'"):
            read("nobody")


def test_approximate_releases_share_a_budget_by_the_accountant(ledger: Ledger) -> None:
    events = [DiscreteGaussianTally(Fraction(400), 2), Approximate(Fraction(1, 10), Fraction(1, 10**7)), Pure(TENTH)]
    together = total_epsilon(events, 1e-6)
    alone = sum(total_epsilon([event], 1e-6) for event in events)
    assert together < alone
    ledger.open_budget("study", epsilon=together, delta=1e-6)
    for number, event in enumerate(events):
        pay(ledger, f"round-{number}", event, delta=1e-6)
    assert ledger.left("study") == 0
    history = ledger.history("study")
    assert [entry.spent for entry in history] == [total_epsilon(events[: n + 1], 1e-6) for n in range(3)]
    assert sum(entry.cost for entry in history) == together
    with pytest.raises(BudgetExceeded, match="'one more' needs epsilon"):
        ledger.release("study", "one more", Pure(TENTH), Guarantee(epsilon=TENTH), never)


def test_a_pure_budget_pays_for_nothing_approximate(ledger: Ledger) -> None:
    ledger.open_budget("study", epsilon=100)
    event = Approximate(TENTH, Fraction(1, 10**9))
    with pytest.raises(BudgetExceeded, match="'round-1' cannot be paid from budget 'study': delta must be > 0"):
        ledger.release("study", "round-1", event, Guarantee(epsilon=TENTH, delta=event.delta), never)


def test_a_whole_approximate_budget_can_be_spent_at_once_or_in_halves(ledger: Ledger) -> None:
    half = Approximate(Fraction(1, 4), Fraction(1, 2 * 10**6))
    for name, event, times in (("whole", Approximate(Fraction(1, 2), Fraction(1, 10**6)), 1), ("halves", half, 2)):
        ledger.open_budget(name, epsilon=0.5, delta=1e-6)
        promise = Guarantee(epsilon=event.epsilon, delta=event.delta)
        for number in range(times):
            ledger.release(name, f"{number}", event, promise, lambda: b"")
        assert ledger.left(name) >= 0


def test_all_releases_of_one_record_filter_are_charged_once(ledger: Ledger) -> None:
    ledger.open_budget("study", epsilon=0.3)
    for number in range(5):
        pay(ledger, f"round-{number}", Filtered(Fraction(1, 5), "guard"))
    assert [entry.cost for entry in ledger.history("study")] == [Fraction(1, 5), 0, 0, 0, 0]
    with pytest.raises(BudgetExceeded):
        pay(ledger, "another guard's", Filtered(Fraction(1, 5), "other guard"))


def test_history_tells_everything(ledger: Ledger) -> None:
    ledger.open_budget("study", epsilon=1)
    event, promise = DiscreteLaplaceTally(Fraction(40, 3), 4), Guarantee(epsilon=Fraction(3, 10), honest_parties=12)
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    ledger.release("study", "ünïcode ✓", event, promise, lambda: b"\0\xff" * 500, note="first look")
    (entry,) = ledger.history("study")
    assert before <= entry.time <= datetime.now(UTC)
    assert entry == Entry(
        key="ünïcode ✓",
        time=entry.time,
        event=event,
        guarantee=promise,
        cost=Fraction(3, 10),
        spent=Fraction(3, 10),
        digest=hashlib.sha256(b"\0\xff" * 500).hexdigest(),
        size=1000,
        note="first look",
    )


def test_threads_of_one_program_share_a_ledger(ledger: Ledger) -> None:
    ledger.open_budget("study", epsilon=0.3)
    outcomes: list[str] = []

    def run(key: str) -> None:
        try:
            outcomes.append(pay(ledger, key).decode())
        except BudgetExceeded:
            outcomes.append("refused")

    threads = [threading.Thread(target=run, args=(f"round-{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("refused") == 3
    assert ledger.left("study") == 0


def test_a_ledger_that_is_busy_too_long_says_so(place: str) -> None:
    ledger, patient = Ledger.open(place, wait=0.2), Ledger.open(place)
    patient.open_budget("study", epsilon=1)

    def produce() -> bytes:
        with pytest.raises(LedgerFault, match=r"locked|lock timeout"):
            pay(ledger, "meanwhile")
        assert ledger.history("study") == []  # readers do not wait
        return b"slow"

    patient.release("study", "slow", Pure(TENTH), Guarantee(epsilon=TENTH), produce)
    assert [entry.key for entry in ledger.history("study")] == ["slow"]


def test_a_ledger_of_a_newer_program_is_refused(place: str) -> None:
    Ledger.open(place)
    with Store(place, wait=5).writing() as connection:
        connection.execute(schema.insert().values(version=VERSION + 1))
    for read_only in (True, False):
        with pytest.raises(LedgerFault, match=rf"newer Recordwise \(version {VERSION + 1}; this one knows {VERSION}\)"):
            Ledger.open(place, read_only=read_only)


@pytest.mark.parametrize(
    ("damage", "message", "read"),
    [
        ({"payload": b"forged"}, "the release 'round-1' cannot be read: its digest is another", "payload"),
        ({"payload": b"forged"}, "the release 'round-1' cannot be read: its digest is another", "release again"),
        ({"event": '{"event": "Pure"}'}, "the event of 'round-1' cannot be read", "history"),
        ({"event": "{"}, "the event of 'round-1' cannot be read", "left"),
        ({"guarantee": '{"epsilon": "0"}'}, "the guarantee of 'round-1' cannot be read", "history"),
        ({"spent": "much"}, "the charge for 'round-1' cannot be read", "history"),
    ],
)
def test_damage_is_named(place: str, damage: dict[str, object], message: str, read: str) -> None:
    ledger = Ledger.open(place)
    ledger.open_budget("study", epsilon=1)
    pay(ledger, "round-1")
    with Store(place, wait=5).writing() as connection:
        connection.execute(releases.update().values(**damage))
    reads: dict[str, Callable[[], object]] = {
        "payload": lambda: ledger.payload("study", "round-1"),
        "history": lambda: ledger.history("study"),
        "release again": lambda: pay(ledger, "round-1"),
        "left": lambda: ledger.left("study"),
    }
    with pytest.raises(LedgerFault, match=f"the ledger is damaged: {message}"):
        reads[read]()


def test_reading_cannot_write(place: str) -> None:
    Ledger.open(place)
    with pytest.raises(LedgerFault, match=r"readonly|read-only"), Store(place, wait=5).reading() as connection:
        connection.execute(schema.insert().values(version=7))


def test_opening_for_reading_creates_nothing(place: str) -> None:
    for _ in range(2):
        with pytest.raises(LedgerFault, match=r"does not exist|holds no ledger"):
            Ledger.open(place, read_only=True)
    assert not Path(place).exists()


def test_the_package_shows_its_names() -> None:
    assert set(public_names) == {"Budget", "Entry", "Ledger", "forget"}


def test_a_ledger_prints_its_place_without_a_password(place: str) -> None:
    assert repr(Ledger.open(place)).startswith("Ledger(")
    secret = Store("postgresql://me:hush@localhost/x", wait=1)
    assert "hush" not in secret.name
    assert "me" in secret.name


@pytest.mark.parametrize("wait", [0, -1, float("nan")])
def test_waiting_takes_time(tmp_path: Path, wait: float) -> None:
    with pytest.raises(InvalidInput, match="wait must be > 0 seconds"):
        Ledger.open(tmp_path / "ledger.sqlite", wait=wait)
