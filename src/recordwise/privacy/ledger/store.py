"""How a ledger is kept: a SQLite file, or a PostgreSQL database. Everything that differs is in this file."""

from __future__ import annotations

import functools
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, Dialect, Engine, ExceptionContext

from recordwise.errors import LedgerFault, MissingExtra
from recordwise.privacy.ledger.place import Place

VERSION = 2  # of the tables below; version 1 had no chain
CREATION = 72_657_764  # the number under which PostgreSQL lets one program at a time create them

# Seconds. A server ends a transaction whose client says nothing for IDLE, and frees its locks; while a release is
# produced, however long that takes, a thread says something every BEAT. A client that is stopped, asleep or cut off
# stops saying it. GRACE is what one statement may take beyond waiting for a lock.
IDLE, BEAT, GRACE = 120.0, 20.0, 60.0
CONNECT = 10
# So are dead connections found, from either side, within a minute and a half.
KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 6}

_metadata = sa.MetaData()

schema = sa.Table("recordwise_ledger", _metadata, sa.Column("version", sa.Integer, primary_key=True))

budgets = sa.Table(
    "recordwise_budgets",
    _metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("epsilon", sa.Text, nullable=False),  # a fraction in decimal digits: exact, and readable without us
    sa.Column("delta", sa.Text, nullable=False),
    sa.Column("neighbours", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("trust", sa.Text, nullable=False),
    sa.Column("opened", sa.Text, nullable=False),
)

releases = sa.Table(
    "recordwise_releases",
    _metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("budget", sa.Text, sa.ForeignKey(budgets.c.name), nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("guarantee", sa.Text, nullable=False),
    sa.Column("spent", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("budget", "key"),
)

# One link for every row above, in the order in which they were written, and for what happened to the ledger itself.
chain = sa.Table(
    "recordwise_chain",
    _metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("budget", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("head", sa.Text, nullable=False),
)

# One row: the chain's end, signed. Writers take turns at it.
seals = sa.Table(
    "recordwise_seal",
    _metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("count", sa.BigInteger, nullable=False),
    sa.Column("head", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("tag", sa.Text, nullable=False),
)


def insert_budget(connection: Connection, row: Mapping[str, object]) -> bool:
    """Write a budget unless there is one of its name; whether it was written."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(budgets).values(**row).on_conflict_do_nothing().returning(budgets.c.name)
    return connection.execute(statement).first() is not None


class Access(NamedTuple):
    """A way to the database, and what makes a transaction on it the kind it has to be."""

    engine: Engine
    first: tuple[str, ...]

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        with self.engine.begin() as connection:
            for statement in self.first:
                connection.exec_driver_sql(statement)
            yield connection


class Store:
    """Transactions on one ledger. Each opens its own connection, so threads, forks and dead servers need no care.

    Guarantees:
      - writers take turns: a writing transaction sees all that was committed before it began its work;
      - what `writing` has committed survives a crash of the program, of the machine, and a loss of power;
      - `reading` changes nothing, not even the file's bytes;
      - nothing waits for ever: not for a server, for a lock, or for a client that vanished with one;
      - a fault of the database is a `LedgerFault` of one line, without the password.
    """

    def __init__(self, place: str | Path, *, wait: float) -> None:
        self.place = Place.of(place)
        self.name, self.file = self.place.name, self.place.file
        self._reader, self._writer = _sqlite(self.file, wait) if self.file else _postgresql(self.place, wait)
        for engine in {self._reader.engine, self._writer.engine}:
            engine.update_execution_options(recordwise_fault=self._fault)

    def reading(self) -> AbstractContextManager[Connection]:
        if self.file and not self.file.is_file():
            raise LedgerFault(f"ledger {self.name} does not exist")
        return self._reader.transaction()

    def writing(self) -> AbstractContextManager[Connection]:
        return self._writer.transaction()

    @contextmanager
    def awake(self, connection: Connection) -> Iterator[None]:
        """Keep a transaction from looking idle while its holder works on something else than the database."""
        if self.file:
            yield
            return
        done = threading.Event()
        driver: Any = connection.connection.driver_connection

        def beat() -> None:
            while not done.wait(BEAT):
                try:
                    driver.execute("SELECT 1")
                except Exception:  # the connection is lost, as its holder will find out
                    return

        thread = threading.Thread(target=beat, name="recordwise-ledger", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def prepare(self, *, create: bool, begin: Callable[[Connection, int | None], object]) -> None:
        """Create the tables where there are none and they may be; roll back what a killed writer left half-written.

        Args:
          begin: Called with the version that was there, in the transaction that makes it the newest.
        """
        if self.file:
            try:
                if create and not self.file.exists():
                    self.file.touch()
            except OSError as error:
                raise LedgerFault(f"ledger {self.name} cannot be created: {error.strerror}") from error
            if self._journal().exists():
                with self.writing():  # SQLite does it on the way; a reader may not
                    pass
        held = self.version()
        if (create and held is None) or (held is not None and held < VERSION):
            with self.writing() as connection:
                if connection.dialect.name == "postgresql":  # where "create if missing" is not atomic
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({CREATION})")
                held = self.version_of(connection)  # somebody else may have done it meanwhile
                if held is None or held < VERSION:
                    _metadata.create_all(connection)
                    connection.execute(schema.delete())
                    connection.execute(schema.insert().values(version=VERSION))
                    begin(connection, held)
        self.check()

    def check(self) -> None:
        """Refuse what is not a ledger of a version this program knows."""
        version = self.version()
        if version is None:
            raise LedgerFault(f"{self.name} holds no ledger")
        if version > VERSION:
            raise LedgerFault(
                f"ledger {self.name} was written by a newer Recordwise (version {version}; this one knows {VERSION})"
            )

    def version(self) -> int | None:
        with self.reading() as connection:
            return self.version_of(connection)

    def version_of(self, connection: Connection) -> int | None:
        if not sa.inspect(connection).has_table(schema.name):
            return None
        version: int | None = connection.scalar(sa.select(sa.func.max(schema.c.version)))
        return version

    def _journal(self) -> Path:
        return Path(f"{self.file}-journal")

    def _fault(self, context: ExceptionContext) -> None:
        original = context.original_exception
        if not isinstance(original, Exception):
            return  # somebody ends this process, and the ledger has no fault: it goes on as it is
        original.args = tuple(self.place.scrubbed(part) if isinstance(part, str) else part for part in original.args)
        reason = (str(original).strip().split("\n") or [""])[0]
        if self.file and "readonly" in reason and self._journal().exists():
            reason = "a writer was killed while it committed; open the ledger for writing once to finish its work"
        raise LedgerFault(f"ledger {self.name}: {reason}") from original


def _on_fault(context: ExceptionContext) -> None:
    """Have the store whose engine failed say what is wrong: listeners belong to a dialect, which stores share."""
    assert context.engine is not None
    context.engine.get_execution_options()["recordwise_fault"](context)


@functools.cache
def _about_sqlite() -> tuple[Dialect, URL, dict[str, Any]]:
    """What all ledgers in files share: their compiled statements above all, which else each would compile anew."""
    engine = sa.create_engine("sqlite://", poolclass=sa.NullPool)
    with engine.connect():  # the dialect asks SQLite what it can do
        pass
    sa.event.listen(engine, "handle_error", _on_fault)
    return engine.dialect, engine.url, {"compiled_cache": {}}


def _sqlite(file: Path, wait: float) -> tuple[Access, Access]:
    def engine(mode: str) -> Engine:
        def connect() -> Any:  # a connection of sqlite3
            # No isolation level: the driver opens no transactions of its own behind our back.
            connection = sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True, timeout=wait, isolation_level=None)
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                # FULL would leave the journal's removal, which is the commit, to be lost with the power.
                connection.execute("PRAGMA synchronous = EXTRA")
            except UnicodeDecodeError as error:  # the driver cannot even say what is wrong with the tables
                raise sqlite3.DatabaseError("its tables cannot be read") from error
            return connection

        return Engine(sa.NullPool(connect, dialect=dialect), dialect, url, execution_options=compiled)

    dialect, url, compiled = _about_sqlite()
    return Access(engine("ro"), ("BEGIN",)), Access(engine("rw"), ("BEGIN IMMEDIATE",))


def _postgresql(place: Place, wait: float) -> tuple[Access, Access]:
    assert place.url is not None
    asked: dict[str, object] = {
        "connect_timeout": CONNECT,
        **KEEPALIVE,
        "tcp_user_timeout": round(1000 * (KEEPALIVE["keepalives_idle"] + GRACE)),
    }
    chosen = {name: value for name, value in asked.items() if name not in place.url.query}
    try:
        engine = sa.create_engine(
            place.url.set(drivername="postgresql+psycopg"),
            poolclass=sa.NullPool,
            isolation_level="READ COMMITTED",  # an older snapshot would miss what the budget's last holder charged
            connect_args=chosen | place.secrets,
        )
    except ModuleNotFoundError as error:
        raise MissingExtra("a ledger in PostgreSQL needs psycopg: pip install 'recordwise[postgres]'") from error
    sa.event.listen(engine, "handle_error", _on_fault)
    limits = (
        f"SET LOCAL lock_timeout = {round(1000 * wait)}; SET LOCAL statement_timeout = {round(1000 * (wait + GRACE))}; "
        f"SET LOCAL idle_in_transaction_session_timeout = {round(1000 * IDLE)}; "
        # The server, too, looks whether the other side is alive; on a socket of this machine it need not.
        + "; ".join(f"SET LOCAL tcp_{name} = {value}" for name, value in KEEPALIVE.items())
    )
    # A server may be set to confirm commits that are not yet on disk.
    on_disk = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
    snapshot = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    return Access(engine, (f"{snapshot}; {limits}",)), Access(engine, (f"{limits}; {on_disk}",))
