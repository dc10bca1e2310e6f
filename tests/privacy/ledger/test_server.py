"""A client that stalls keeps no lock, one that works long keeps it, and nobody waits for ever; on a live server."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import psycopg
import pytest

from recordwise.errors import LedgerFault
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.ledger import Ledger, store
from recordwise.privacy.ledger.store import Store

TENTH = Fraction(1, 10)


def opened(place: str, **wait: float) -> Ledger:
    ledger = Ledger.open(place, **wait)
    ledger.open_budget("study", epsilon=1)
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
store.IDLE, store.BEAT = 0.5, 0.1
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
    monkeypatch.setattr(store, "IDLE", 0.2)
    monkeypatch.setattr(store, "BEAT", 1e6)
    ledger = opened(place)

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
