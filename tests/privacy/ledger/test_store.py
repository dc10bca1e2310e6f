"""What is particular to a file, and to a server."""

from __future__ import annotations

import builtins
import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.sql.compiler import SQLCompiler

from recordwise.errors import InvalidInput, LedgerFault, MissingExtra
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.ledger.store import Store

TENTH = Fraction(1, 10)


def test_reading_leaves_every_byte_of_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "odd name?#%20.sqlite"
    ledger = Ledger.open(path)
    ledger.open_budget("study", epsilon=1)
    ledger.release("study", "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), lambda: b"tally")
    before, stamp = path.read_bytes(), path.stat().st_mtime_ns
    path.chmod(0o400)
    for reader in (Ledger.open(path, read_only=True), ledger):
        assert len(reader.history("study")) == 1
        assert reader.payload("study", "round-1") == b"tally"
        assert reader.left("study") == Fraction(9, 10)
        assert [budget.name for budget in reader.budgets()] == ["study"]
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, stamp)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit])
def test_who_ends_the_process_inside_a_statement_is_no_fault_of_the_ledger(
    tmp_path: Path, ending: type[BaseException]
) -> None:
    store = Store(tmp_path / "ledger.sqlite", wait=1)
    store.prepare(create=True, begin=lambda connection, held: None)

    def stop(*_: object) -> None:
        raise ending

    def write() -> None:
        with store.writing() as connection:
            sa.event.listen(connection, "before_cursor_execute", stop)
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(ending):
        write()


def test_opening_again_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    Ledger.open(path).open_budget("study", epsilon=1)
    before = path.read_bytes()
    Ledger.open(f"sqlite:///{path}").open_budget("study", epsilon=1)
    assert path.read_bytes() == before


def test_a_commit_on_disk_survives_a_loss_of_power(tmp_path: Path) -> None:
    # What makes it so is SQLite's promise for these settings (sqlite.org/pragma.html#pragma_synchronous).
    store = Store(tmp_path / "ledger.sqlite", wait=1)
    store.prepare(create=True, begin=lambda connection, held: None)
    with store.writing() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 3  # EXTRA
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "delete"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


def test_a_server_confirms_no_commit_before_it_is_on_disk(new_schema: Callable[..., str]) -> None:
    for asked, used in (("off", "on"), ("remote_apply", "remote_apply")):
        with Store(new_schema(f"synchronous_commit={asked}"), wait=1).writing() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == used


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "a ledger must be a file or a PostgreSQL URL"),
        (":memory:", "so that it outlives the program"),
        ("sqlite://", "so that it outlives the program"),
        ("mysql://host/x", "a ledger is kept in SQLite or PostgreSQL, got 'mysql'"),
        ("postgresql://host:port/x", "a ledger's URL must read like"),
    ],
)
def test_a_place_that_cannot_hold_a_ledger_is_refused(place: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Ledger.open(place)


def test_files_that_are_no_ledger_are_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Sir or Madam, " * 100)
    with pytest.raises(LedgerFault, match=r"letter.txt: file is not a database"):
        Ledger.open(tmp_path / "letter.txt")
    with sqlite3.connect(tmp_path / "shop.sqlite") as other:
        other.execute("CREATE TABLE orders (id INTEGER)")
    other.close()
    with pytest.raises(LedgerFault, match=r"shop.sqlite holds no ledger"):
        Ledger.open(tmp_path / "shop.sqlite", read_only=True)
    with pytest.raises(LedgerFault, match="cannot be created: No such file or directory"):
        Ledger.open(tmp_path / "nowhere" / "ledger.sqlite")
    with pytest.raises(LedgerFault, match="does not exist"):
        Ledger.open(tmp_path)


def test_a_mistyped_place_is_not_made_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "leger.sqlite"
    with pytest.raises(LedgerFault, match=r"leger.sqlite does not exist"):
        Ledger.open(path, create=False)
    assert not path.exists()
    path.touch()
    with pytest.raises(LedgerFault, match=r"leger.sqlite holds no ledger"):
        Ledger.open(path, create=False)
    Ledger.open(path).open_budget("study", epsilon=1)
    assert Ledger.open(path, create=False).left("study") == 1


def test_a_ledger_lost_behind_our_back_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger.open(path)
    path.unlink()
    with pytest.raises(LedgerFault, match="does not exist"):
        ledger.budgets()
    with pytest.raises(LedgerFault):
        ledger.open_budget("study", epsilon=1)
    assert not path.exists()


def test_a_server_that_does_not_answer_is_a_fault_of_one_line() -> None:
    with pytest.raises(LedgerFault, match="connection") as caught:
        Ledger.open("postgresql://me:hush@127.0.0.1:1/x")
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_connection_lost_in_the_middle_of_a_release_releases_nothing(new_schema: Callable[..., str]) -> None:
    place = new_schema("application_name=doomed")
    ledger = Ledger.open(place)
    ledger.open_budget("study", epsilon=1)

    def produce() -> bytes:
        with psycopg.connect(place.replace("doomed", "killer")) as connection:
            doomed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'doomed'"
            assert connection.execute(doomed).fetchall() == [(True,)]
        return b"never seen"

    with pytest.raises(LedgerFault, match=r"terminating connection|closed"):
        ledger.release("study", "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), produce)
    assert ledger.history("study") == []
    assert ledger.release("study", "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), lambda: b"seen") == b"seen"


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_psycopg(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'")
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without_psycopg)
    with pytest.raises(MissingExtra, match=r"pip install 'recordwise\[postgres\]'"):
        Store("postgresql://localhost/x", wait=1)


def test_errors_of_another_database_pass_through_a_release(tmp_path: Path) -> None:
    ledger = Ledger.open(tmp_path / "ledger.sqlite")
    ledger.open_budget("study", epsilon=1)

    def produce() -> bytes:
        with sa.create_engine("sqlite://").begin() as connection:
            connection.exec_driver_sql("SELECT * FROM records")
        return b""

    with pytest.raises(sa.exc.OperationalError, match="no such table: records"):
        ledger.release("study", "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), produce)


def test_a_ledger_behind_a_symbolic_link_recovers(tmp_path: Path) -> None:
    """A journal lies beside the file that a link leads to, not beside the link."""
    original, copy = tmp_path / "original.sqlite", tmp_path / "elsewhere" / "copy.sqlite"
    ledger = Ledger.open(original)
    ledger.open_budget("study", epsilon=1)
    ledger.release("study", "round-1", Pure(TENTH), Guarantee(epsilon=TENTH), lambda: b"tally")
    copy.parent.mkdir()
    with contextlib.closing(sqlite3.connect(original, isolation_level=None)) as writer:
        writer.execute("PRAGMA cache_size = 1")  # so that it writes to the file before it commits
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("UPDATE recordwise_releases SET note = 'half', payload = zeroblob(1000000)")
        for end in ("", "-journal"):
            shutil.copy(f"{original}{end}", f"{copy}{end}")
        writer.execute("ROLLBACK")
    link = tmp_path / "link.sqlite"
    link.symlink_to(copy)
    with pytest.raises(LedgerFault, match="a writer was killed while it committed"):
        Ledger.open(link, read_only=True)
    assert [entry.note for entry in Ledger.open(link).history("study")] == [""]
    assert Ledger.open(link, read_only=True).payload("study", "round-1") == b"tally"


def test_a_second_ledger_in_a_file_compiles_no_statement_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use(name: str) -> None:
        ledger = Ledger.open(tmp_path / name)
        ledger.open_budget("study", epsilon=1)
        ledger.release("study", "one", Pure(Fraction(1)), Guarantee(epsilon=Fraction(1)), lambda: b"tally")
        assert len(ledger.history("study")) == 1

    use("first")
    compiled: list[object] = []
    compiling = SQLCompiler.__init__

    def counted(self: SQLCompiler, dialect: Dialect, statement: object, *args: object, **options: object) -> None:
        if isinstance(statement, sa.Select | sa.UpdateBase):
            compiled.append(statement)
        compiling(self, dialect, statement, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(SQLCompiler, "__init__", counted)
    use("second")
    assert compiled == []
