"""A client that stalls keeps no lock, one that works long keeps it, and nobody waits for ever; on a live server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction

import psycopg
import pytest
import sqlalchemy as sa

from counts import SERVERS, Counted
from postgres import running_postgres
from recordwise.errors import LedgerFault
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.ledger import Ledger, store
from recordwise.privacy.ledger.store import Store

TENTH = Fraction(1, 10)


def opened(place: str, epsilon: float = 1) -> Ledger:
    ledger = Ledger.open(place)
    ledger.open_budget("study", epsilon=epsilon)
    return ledger


def pay(ledger: Ledger, key: str, produce: Callable[[], bytes] = lambda: b"tally") -> bytes:
    return ledger.release("study", key, Pure(TENTH), Guarantee(epsilon=TENTH), produce)


def asked(place: str, name: str, *, about: str) -> list[tuple[object, ...]]:
    """What the server says of the connections of an application."""
    with psycopg.connect(place.replace(f"application_name%3D{name}", "application_name%3Dwatcher")) as connection:
        query = f"SELECT {about} FROM pg_stat_activity WHERE application_name = '{name}'"
        return connection.execute(query).fetchall()  # type: ignore[call-overload, no-any-return]


def test_every_transaction_has_its_limits(new_schema: Callable[..., str]) -> None:
    opened(new_schema())
    place = Store(new_schema(), wait=7)
    for transaction in (place.reading, place.writing):
        with transaction() as connection:
            limits = {
                name: connection.exec_driver_sql(f"SHOW {name}").scalar()
                for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
            }
            assert limits == {
                "lock_timeout": "7s",
                "statement_timeout": "67s",
                "idle_in_transaction_session_timeout": "2min",
            }
            told = connection.connection.driver_connection.info.get_parameters()  # type: ignore[union-attr]
            assert told["connect_timeout"] == "10"
            assert told["keepalives_idle"] == "30" and told["tcp_user_timeout"] == "90000"


def test_a_long_vote_keeps_telling_the_server_that_it_is_alive(
    new_schema: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = new_schema("application_name=worker")
    ledger = opened(place)
    monkeypatch.setattr(store, "BEAT", 0.01)

    def produce() -> bytes:
        times = set()
        while len(times) < 4:  # each one is a sign of life, from which the server counts anew
            times.update(asked(place, "worker", about="state_change"))
        return b"slow"

    assert pay(ledger, "round-1", produce) == b"slow"


STALLED = """
import os, signal, sys
from fractions import Fraction
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.ledger import Ledger, store
store.BEAT = 0.1
awake = store.Store.awake
def impatient(self, connection):
    connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 500")
    return awake(self, connection)
store.Store.awake = impatient
def produce():
    print("voting", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    return b"too late"
try:
    Ledger.open(sys.argv[1]).release("study", "round-1", Pure("1/10"), Guarantee(epsilon=Fraction(1, 10)), produce)
except Exception as error:
    print(type(error).__name__, flush=True)
"""


def test_a_client_that_is_stopped_loses_the_lock_and_releases_nothing(new_schema: Callable[..., str]) -> None:
    place = new_schema()
    opened(place)
    stalled = subprocess.Popen([sys.executable, "-c", STALLED, place], stdout=subprocess.PIPE, text=True)
    try:
        assert stalled.stdout is not None and stalled.stdout.readline() == "voting\n"
        assert pay(Ledger.open(place), "round-2") == b"tally", "it waits for the lock, and gets it"
        os.kill(stalled.pid, signal.SIGCONT)
        assert stalled.communicate()[0] == "LedgerFault\n"
    finally:
        stalled.kill()
        stalled.wait()
    assert [entry.key for entry in Ledger.open(place).history("study")] == ["round-2"]


def test_a_vote_without_signs_of_life_is_ended(new_schema: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: what the beats are for."""
    place = new_schema("application_name=silent")
    monkeypatch.setattr(store, "BEAT", 1e6)
    ledger, awake = opened(place), Store.awake

    def impatient(self: Store, connection: sa.Connection) -> AbstractContextManager[None]:
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 200")
        return awake(self, connection)

    monkeypatch.setattr(Store, "awake", impatient)  # from here on: what comes before may take its time

    def produce() -> bytes:
        while asked(place, "silent", about="pid"):
            pass
        return b"never seen"

    with pytest.raises(LedgerFault):
        pay(ledger, "round-1", produce)
    assert ledger.history("study") == []


def test_a_server_that_takes_the_call_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CONNECT", 2)  # the least that libpq waits
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(LedgerFault, match="timeout"):
        Ledger.open(f"postgresql://me@127.0.0.1:{mute.getsockname()[1]}/x")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_server_killed_at_any_statement_of_a_release_breaks_no_promise(
    monkeypatch: pytest.MonkeyPatch, counted: Counted
) -> None:
    """Killed before every statement, and after the commit, whose answer is then lost; each time it is started again."""
    with running_postgres() as server:
        ledger = opened(server.url, epsilon=100)
        engine = ledger._store._writer.engine
        statements: list[str] = []
        dies_at = -1

        def executing(connection: object, cursor: object, statement: str, *_: object) -> None:
            statements.append(statement)
            if len(statements) == dies_at:
                server.kill()
                server.start()

        sa.event.listen(engine, "before_cursor_execute", executing)
        pay(ledger, "unharmed")
        kills = len(statements)
        assert kills >= 10
        for number in range(1, kills + 1):
            statements.clear()
            dies_at, key = number, f"killed before statement {number}"
            with pytest.raises(LedgerFault):
                pay(ledger, key)
            dies_at = -1
            assert key not in [entry.key for entry in ledger.history("study")], "it was not committed"
            assert pay(ledger, key) == b"tally"
        commit = psycopg.Connection.commit

        def lost(connection: psycopg.Connection) -> None:
            commit(connection)
            server.kill()
            server.start()
            raise psycopg.OperationalError("the server closed the connection unexpectedly")

        for number in range(3):
            monkeypatch.setattr(psycopg.Connection, "commit", lost)
            with pytest.raises(LedgerFault):
                pay(ledger, f"answer {number} is lost")
            monkeypatch.undo()
            assert pay(ledger, f"answer {number} is lost", lambda: pytest.fail("paid before")) == b"tally"
        keys = [entry.key for entry in ledger.history("study")]
        assert len(keys) == len(set(keys)) == 1 + kills + 3
        assert ledger.spent("study") == len(keys) * TENTH
        ledger.verify()
    counted(SERVERS, kills + 3, 0)
