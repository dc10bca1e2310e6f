"""Whatever is done to a ledger behind its owner's back is noticed; on both databases."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from mortals import Mortals

from recordwise.errors import LedgerFault
from recordwise.privacy.chain import Head
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.ledger import Ledger, links
from recordwise.privacy.ledger.store import Store, budgets, chain, releases, schema, seals
from recordwise.privacy.owner import Owner

TENTH = Fraction(1, 10)
TABLES = (schema, budgets, releases, chain, seals)  # in the order in which rows may refer to each other
Content = dict[str, list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Owner:
    monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "owner"))
    return Owner.here()


def charge(place: str, key: str, budget: str = "study") -> bytes:
    return Ledger.open(place).release(budget, key, Pure(TENTH), Guarantee(epsilon=TENTH), key.encode, note="a note")


def small_ledger(place: str) -> Content:
    """Two budgets and three releases."""
    ledger = Ledger.open(place)
    ledger.open_budget("study", epsilon=1)
    charge(place, "round-1")
    ledger.open_budget("other", epsilon=1, delta=1e-6)
    charge(place, "round-1", "other")
    charge(place, "round-2")
    return content_of(place)


def content_of(place: str) -> Content:
    with Store(place, wait=5).reading() as connection:
        return {table.name: [dict(row) for row in connection.execute(sa.select(table)).mappings()] for table in TABLES}


@lru_cache(maxsize=1)  # one holds what it compiled, and no connection
def engine_for(url: str) -> sa.Engine:
    return sa.create_engine(url, poolclass=sa.NullPool)  # SQLite checks no foreign keys unless told


def put(place: str, content: Content) -> None:
    """Make the database hold this, as somebody may who can write to it: foreign keys are not looked at."""
    url = f"sqlite:///{place}" if "://" not in place else place.replace("postgresql://", "postgresql+psycopg://")
    engine = engine_for(url)
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        for table in reversed(TABLES):
            connection.execute(table.delete())
        for table in TABLES:
            for row in content[table.name]:
                connection.execute(table.insert().values(**row))


def changed(value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    return value + b"!" if isinstance(value, bytes) else f"{value}0"


def single_changes(content: Content) -> Iterator[tuple[str, Content]]:
    """Every edit of one value, deletion, insertion and swap of single rows."""
    for table in TABLES:
        rows = content[table.name]
        keys = [column.name for column in table.primary_key]
        for place, row in enumerate(rows):
            for name in row:
                altered = copy.deepcopy(content)
                altered[table.name][place][name] = changed(row[name])
                yield f"{table.name} {place}: {name} changed", altered
            altered = copy.deepcopy(content)
            del altered[table.name][place]
            yield f"{table.name} {place}: deleted", altered
            altered = copy.deepcopy(content)
            twin = dict(row) | {name: changed(rows[-1][name]) for name in keys}
            if table is releases:
                twin["key"] = "another"
            altered[table.name].append(twin)
            yield f"{table.name} {place}: copied", altered
        for one, other in combinations(range(len(rows)), 2):
            for name in rows[0]:
                if rows[one][name] == rows[other][name]:
                    continue
                altered = copy.deepcopy(content)
                held = altered[table.name]
                held[one][name], held[other][name] = held[other][name], held[one][name]
                yield f"{table.name} {one}, {other}: {name} exchanged", altered


def half_hidden(content: Content) -> Iterator[tuple[str, Content]]:
    """A row changed or deleted, and its own link made to fit; the seal too, where it is the last."""
    for place, link in enumerate(content[chain.name]):
        if link["kind"] not in ("budget", "release"):
            continue
        for deed in ("edited", "relabelled"):
            altered = copy.deepcopy(content)
            own = altered[chain.name][place]
            if deed == "edited":
                row = row_of(altered, own)
                row["epsilon" if own["kind"] == "budget" else "spent"] = "1/1000"
            else:
                own["note"] = "forged"
            before = altered[chain.name][place - 1]
            after = Head(before["number"], before["head"]).then(*links._content(own, written(row_of(altered, own))))
            own["head"] = after.digest
            if place == len(content[chain.name]) - 1:
                altered[seals.name][0]["head"] = after.digest
            yield f"link {place} {deed}, and its head", altered


def row_of(content: Content, link: dict[str, Any]) -> dict[str, Any]:
    if link["kind"] == "budget":
        return next(row for row in content[budgets.name] if row["name"] == link["budget"])
    named = (link["budget"], link["key"])
    return next(row for row in content[releases.name] if (row["budget"], row["key"]) == named)


def written(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "payload"}


def rebuilt(content: Content) -> Content:
    """With every head computed anew, as one does who knows how chains are made; the seal's tag cannot be."""
    altered = copy.deepcopy(content)
    head = Head()
    for link in sorted(altered[chain.name], key=lambda link: link["number"]):
        row = written(row_of(altered, link)) if link["kind"] in ("budget", "release") else None
        head = head.then(*links._content(link, row))
        link |= {"number": head.count, "head": head.digest}
    altered[seals.name][0] |= {"count": head.count, "head": head.digest}
    return altered


def unnoticed(place: str, alterations: Iterable[tuple[str, Content]], *, reading: bool = False) -> list[str]:
    """Alterations that nobody sees who opens the ledger to charge it, or who reads it, and verifies.

    A server is slow to be filled, and the check is the same: there every eleventh alteration is tried.
    """
    missed = []
    for what, altered in islice(alterations, 0, None, 11 if "://" in place else 1):
        try:
            put(place, altered)
        except sa.exc.IntegrityError:  # two rows of one key cannot be written at all
            continue
        try:
            Ledger.open(place, read_only=reading).verify()
            missed.append(what)
        except LedgerFault:
            pass
    return missed


def test_every_single_change_is_noticed(place: str) -> None:
    content = small_ledger(place)
    alterations = list(single_changes(content))
    assert len(alterations) > 150
    assert unnoticed(place, alterations) == []
    put(place, content)
    assert charge(place, "round-3") == b"round-3", "and what is put back is as good as ever"


def test_a_row_changed_together_with_its_own_link_is_noticed(place: str) -> None:
    assert unnoticed(place, half_hidden(small_ledger(place))) == []


def test_without_the_key_all_is_noticed_but_the_seal_s_own_forgery(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = small_ledger(place)
    monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "stranger"))
    assert Ledger.open(place, read_only=True).verify().signed is None
    missed = unnoticed(place, single_changes(content), reading=True)
    assert set(missed) <= {f"{seals.name} 0: {name} changed" for name in ("key", "tag")}


@pytest.mark.timeout(60)
def test_a_charge_that_would_take_for_ever_to_compute_with_is_damage(place: str) -> None:
    content = small_ledger(place)
    content[releases.name][0]["spent"] = "1e999999999"
    put(place, content)
    with pytest.raises(LedgerFault, match="the ledger is damaged: the charge for 'round-1'"):
        Ledger.open(place, read_only=True).history("study")


def test_a_hash_that_forgets_the_link_before_is_caught(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: heads that cover their own entry only."""
    chained = Head.then
    monkeypatch.setattr(Head, "then", lambda self, *parts: chained(Head(self.count), *parts))
    content = small_ledger(place)
    missed = unnoticed(place, half_hidden(content))
    assert missed or "://" in place
    assert not any(what.startswith(f"link {len(content[chain.name]) - 1} ") for what in missed), "the seal is its own"


def test_who_computes_every_head_anew_still_lacks_the_key(place: str) -> None:
    content = small_ledger(place)
    cheaper = copy.deepcopy(content)
    cheaper[releases.name][0]["spent"] = "0"
    shorter = copy.deepcopy(content)
    gone = shorter[chain.name].pop()
    shorter[releases.name].remove(row_of(shorter, gone))
    swapped = copy.deepcopy(content)
    swapped[chain.name][2]["number"], swapped[chain.name][3]["number"] = 4, 3
    forged = {"edited": rebuilt(cheaper), "cut off": rebuilt(shorter), "swapped": rebuilt(swapped)}
    for what, altered in forged.items():
        put(place, altered)
        with pytest.raises(LedgerFault, match="written without the owner's key"):
            Ledger.open(place)
        with pytest.raises(LedgerFault, match="written without the owner's key"):
            Ledger.open(place, read_only=True).verify()
        assert what


def test_who_does_so_and_signs_with_a_key_of_their_own_is_refused(place: str, tmp_path: Path) -> None:
    content = small_ledger(place)
    content[releases.name][0]["spent"] = "0"
    altered = rebuilt(content)
    thief = Owner(tmp_path / "thief")
    end = Head(altered[seals.name][0]["count"], altered[seals.name][0]["head"])
    seal = thief.sign(altered[chain.name][0]["head"], end)
    altered[seals.name][0] |= {"key": seal.key, "tag": seal.tag}
    put(place, altered)
    (tmp_path / "owner" / "seen").rename(tmp_path / "forgotten")
    with pytest.raises(LedgerFault, match=rf"signed with key {seal.key}, which is not .*ledger\.key"):
        Ledger.open(place)


def test_an_older_copy_is_noticed_by_whoever_noted_a_later_head(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = small_ledger(place)
    early = Ledger.open(place).verify().head.digest
    charge(place, "round-3")
    late = Ledger.open(place).verify(early, early[:16]).head.digest
    put(place, older)
    for look in (lambda: Ledger.open(place), lambda: Ledger.open(place, read_only=True).verify()):
        with pytest.raises(LedgerFault, match=r"had 7 entries up to head .* and they are not among its 6"):
            look()
    (tmp_path / "owner" / "seen").rename(tmp_path / "forgotten")
    Ledger.open(place).verify(early)  # the key alone does not tell: the copy was good once
    with pytest.raises(LedgerFault, match=f"no entry of its 6 has the head {late[:16]}"):
        Ledger.open(place).verify(late)
    for nonsense in ("", "abc", "z" * 64):
        with pytest.raises(LedgerFault, match="16 or more of its hexadecimal digits"):
            Ledger.open(place).verify(nonsense)


def test_two_copies_are_not_both_charged(new_place: Callable[[], str]) -> None:
    first, second = new_place(), new_place()
    content = small_ledger(first)
    Ledger.open(second)
    put(second, content)
    charge(first, "round-3")
    with pytest.raises(LedgerFault, match="the ledger was altered: it had 7 entries"):
        charge(second, "round-4")


def test_an_owner_may_take_responsibility_and_it_stays_to_be_seen(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = small_ledger(place)
    head = Ledger.open(place).verify().head.digest
    charge(place, "round-3")
    put(place, older)
    ledger = Ledger.open(place, read_only=True)
    with pytest.raises(LedgerFault, match="ends in another head"):
        ledger.sign("0" * 64)
    ledger.sign(head)
    assert charge(place, "round-3")
    monkeypatch.setenv("RECORDWISE_KEYS", str(tmp_path / "new key"))
    with pytest.raises(LedgerFault, match="if it is lost"):
        charge(place, "round-4")
    ledger = Ledger.open(place, read_only=True)
    found = ledger.verify()
    assert found.signed is None
    ledger.sign(found.head.digest)
    charge(place, "round-4")
    notes = Ledger.open(place).verify(head).notes
    assert [note.split()[0] for note in notes] == ["begun", "signed", "signed"]
    assert "without the" in notes[1] and "seen before" in notes[1] and "without the" not in notes[2]
    put(place, {**older, releases.name: []})
    with pytest.raises(LedgerFault, match="is not what was written"):
        Ledger.open(place, read_only=True).sign(head)


def test_a_ledger_without_a_chain_gets_one_that_says_so(place: str) -> None:
    content = small_ledger(place)
    older = content | {chain.name: [], seals.name: [], schema.name: [{"version": 1}]}
    put(place, older)
    drop_chain(place)
    with pytest.raises(LedgerFault, match="its chain is gone"):  # it had one, and was charged with it
        Ledger.open(place)
    assert Owner.here().forget(Store(place, wait=1).place.remembered)
    reader = Ledger.open(place, read_only=True)
    assert reader.head() is None and len(reader.history("study")) == 2
    with pytest.raises(LedgerFault, match="has no chain of entries yet"):
        reader.verify()
    found = Ledger.open(place).verify()
    assert found.head.count == 2 + 5 and "2 budgets and 3 releases from before the chain" in found.notes[1]
    assert charge(place, "round-1") == b"round-1", "it is given again"
    charge(place, "round-3")
    assert unnoticed(place, islice(single_changes(content_of(place)), 0, None, 5)) == []


def drop_chain(place: str) -> None:
    url = f"sqlite:///{place}" if "://" not in place else place.replace("postgresql://", "postgresql+psycopg://")
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        for table in (chain, seals):
            table.drop(connection)


def test_a_ledger_that_was_charged_and_is_gone_is_not_made_anew(place: str) -> None:
    small_ledger(place)
    if "://" in place:
        drop_chain(place)
        put_nothing = place.replace("postgresql://", "postgresql+psycopg://")
        with sa.create_engine(put_nothing, poolclass=sa.NullPool).begin() as connection:
            for table in (releases, budgets, schema):
                table.drop(connection)
    else:
        Path(place).unlink()
    for _ in range(2):
        with pytest.raises(LedgerFault, match=r"was charged, and had 6 entries: it is gone; put it back"):
            Ledger.open(place)
    assert "://" in place or not Path(place).exists()
    Owner.here().forget(Store(place, wait=1).place.remembered)
    Ledger.open(place).open_budget("study", epsilon=1)
    charge(place, "round-1")


def test_another_ledger_in_the_place_of_a_charged_one_is_refused(new_place: Callable[[], str]) -> None:
    first, second = new_place(), new_place()
    small_ledger(first)
    other = small_ledger(second)
    put(first, other)
    with pytest.raises(LedgerFault, match="is not the one that was charged there before"):
        charge(first, "round-3")


def test_a_ledger_that_was_moved_leaves_room_for_another(tmp_path: Path) -> None:
    old, new = tmp_path / "old.sqlite", tmp_path / "new.sqlite"
    small_ledger(str(old))
    old.rename(new)
    with pytest.raises(LedgerFault, match="it is gone"):
        Ledger.open(old)
    charge(str(new), "round-3")
    Ledger.open(old)


def test_a_ledger_that_was_never_charged_may_be_made_anew(tmp_path: Path) -> None:
    for _ in range(2):
        Ledger.open(tmp_path / "ledger.sqlite").open_budget("study", epsilon=1)
        (tmp_path / "ledger.sqlite").unlink()


def test_the_chain_holds_after_a_race(place: str, mortals: Mortals) -> None:
    outcomes, _ = mortals.use(place, *[f"racer-{number}" for number in range(6)], budget="1")
    assert all(outcome.released for outcome in outcomes)
    found = links_of(place)
    assert found == ["begun", "budget", *["release"] * 6]


def links_of(place: str) -> list[str]:
    return [row["kind"] for row in sorted(content_of(place)[chain.name], key=lambda row: row["number"])]


def test_a_head_that_cannot_be_noted_costs_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    small_ledger(place)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("recordwise.privacy.owner.write_whole", full)
        assert charge(place, "round-3") == b"round-3"
        assert "could not be noted" in caplog.text
        for key in ("round-3", "round-4"):  # else what is remembered would fall behind, entry by entry
            with pytest.raises(LedgerFault, match="until it is nothing more is charged"):
                charge(place, key)
    charge(place, "round-4")
    assert Ledger.open(place).verify().head.count == 8


class Killed(BaseException):
    pass


def test_processes_killed_before_they_noted_their_charge_raise_no_alarm_and_hide_no_more_than_the_last(
    place: str, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise Killed

    states = [small_ledger(place)]
    with monkeypatch.context() as dies:
        dies.setattr(Ledger, "_note", killed)
        for key in ("round-3", "round-4", "round-5"):
            with pytest.raises(Killed):
                charge(place, key)
            states.append(content_of(place))
    ledger = Ledger.open(place)  # no alarm
    noted = owner.seen(ledger.verify().ledger)
    assert noted is not None and noted.head.count == ledger.verify().head.count - 1
    for older in states[:-2]:
        put(place, older)
        with pytest.raises(LedgerFault, match="they are not among its"):
            Ledger.open(place)
    put(place, states[-1])
    assert charge(place, "round-5") == b"round-5"  # asked for again, as whoever was killed does
    put(place, states[-2])
    with pytest.raises(LedgerFault, match="they are not among its"):
        Ledger.open(place)


def test_a_first_charge_that_was_not_noted_is_noted_when_it_is_asked_for_again(
    place: str, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.open(place).open_budget("study", epsilon=1)
    with monkeypatch.context() as dies:
        dies.setattr(Ledger, "_note", lambda *_: None)
        charge(place, "round-1")
    account = Ledger.open(place).verify().ledger
    assert owner.seen(account) is None
    charge(place, "round-1")
    seen = owner.seen(account)
    assert seen is not None and seen.head == Ledger.open(place).head()
