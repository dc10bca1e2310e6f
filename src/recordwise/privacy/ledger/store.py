"""Where a ledger is kept: a SQLite file, or a PostgreSQL database by URL. Everything that differs is in this file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NoReturn

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext, make_url

from recordwise.errors import InvalidInput, LedgerFault, MissingExtra

VERSION = 1  # of the tables below
CREATION = 72_657_764  # the number under which PostgreSQL lets one program at a time create them

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


def insert_if_missing(connection: Connection, table: sa.Table, row: Mapping[str, object]) -> sa.Executable:
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement: sa.Executable = insert(table).values(**row).on_conflict_do_nothing()
    return statement


class Store:
    """Transactions on one ledger. Each opens its own connection, so threads, forks and dead servers need no care.

    Guarantees:
      - writers take turns: a writing transaction sees all that was committed before it began its work;
      - what `writing` has committed survives a crash of the program, of the machine, and a loss of power;
      - `reading` changes nothing, not even the file's bytes;
      - a fault of the database is a `LedgerFault` of one line, without the password.
    """

    def __init__(self, place: str | Path, *, wait: float) -> None:
        url = _url(place)
        self.name = url.database if url.drivername == "sqlite" else url.render_as_string(hide_password=True)
        self.file = Path(str(url.database)).absolute() if url.drivername == "sqlite" else None
        engines = _sqlite(self.file, wait) if self.file else _postgresql(url, wait)
        self._reader, self._writer = engines
        for engine in engines:
            sa.event.listen(engine, "handle_error", self._fault)

    def reading(self) -> AbstractContextManager[Connection]:
        if self.file and not self.file.is_file():
            raise LedgerFault(f"ledger {self.name} does not exist")
        return self._reader.begin()

    def writing(self) -> AbstractContextManager[Connection]:
        return self._writer.begin()

    def prepare(self) -> None:
        """Create the tables where there are none, and finish what a crash interrupted."""
        if self.file:
            if not self.file.parent.is_dir():
                raise LedgerFault(f"ledger {self.name} cannot be created: its folder does not exist")
            if not self.file.exists() or self._journal().exists():
                with self.writing():  # rolls back what a killed writer left half-written; a reader may not
                    pass
        if self.version() is None:
            with self.writing() as connection:
                if connection.dialect.name == "postgresql":  # where "create if missing" is not atomic
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({CREATION})")
                _metadata.create_all(connection)
                if connection.scalar(sa.select(schema.c.version)) is None:
                    connection.execute(schema.insert().values(version=VERSION))
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
            if not sa.inspect(connection).has_table(schema.name):
                return None
            version: int | None = connection.scalar(sa.select(sa.func.max(schema.c.version)))
            return version

    def _journal(self) -> Path:
        return Path(f"{self.file}-journal")

    def _fault(self, context: ExceptionContext) -> NoReturn:
        reason = str(context.original_exception).strip().split("\n")[0]
        if self.file and "readonly" in reason and self._journal().exists():
            reason = "a writer was killed while it committed; open the ledger for writing once to finish its work"
        raise LedgerFault(f"ledger {self.name}: {reason}") from context.original_exception


def _url(place: str | Path) -> URL:
    if isinstance(place, Path) or "://" not in place:
        if str(place) in ("", ":memory:"):
            raise InvalidInput(
                f"a ledger must be a file or a PostgreSQL URL, so that it outlives the program, got {place!r}"
            )
        return URL.create("sqlite", database=str(place))
    try:
        url = make_url(place)
    except sa.exc.ArgumentError as error:
        raise InvalidInput("a ledger's URL must read like postgresql://user@host/database") from error
    if url.get_backend_name() == "sqlite":
        return _url(url.database or "")
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise InvalidInput(f"a ledger is kept in SQLite or PostgreSQL, got {url.drivername!r}")
    return url.set(drivername="postgresql+psycopg")


def _sqlite(file: Path, wait: float) -> tuple[Engine, Engine]:
    def engine(mode: str, begin: str) -> Engine:
        def connect() -> sqlite3.Connection:
            # No isolation level: the driver opens no transactions of its own behind our back.
            connection = sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True, timeout=wait, isolation_level=None)
            connection.execute("PRAGMA foreign_keys = ON")
            # FULL would leave the journal's removal, which is the commit, to be lost with the power.
            connection.execute("PRAGMA synchronous = EXTRA")
            return connection

        made = sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)
        sa.event.listen(made, "begin", lambda connection: connection.exec_driver_sql(begin))
        return made

    return engine("ro", "BEGIN"), engine("rwc", "BEGIN IMMEDIATE")


def _postgresql(url: URL, wait: float) -> tuple[Engine, Engine]:
    def engine(isolation: str, *settings: str) -> Engine:
        try:
            made = sa.create_engine(
                url,
                poolclass=sa.NullPool,
                isolation_level=isolation,
                connect_args={} if "connect_timeout" in url.query else {"connect_timeout": 10},
            )
        except ModuleNotFoundError as error:
            raise MissingExtra("a ledger in PostgreSQL needs psycopg: pip install 'recordwise[postgres]'") from error

        def begin(connection: Connection) -> None:
            for setting in settings:
                connection.exec_driver_sql(setting)

        sa.event.listen(made, "begin", begin)
        return made

    return engine("REPEATABLE READ", "SET TRANSACTION READ ONLY"), engine(
        "READ COMMITTED",  # a snapshot older than the lock on the budget would miss what the last holder charged
        f"SET LOCAL lock_timeout = {round(wait * 1000)}",
        # A server may be set to confirm commits that are not yet on disk.
        "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'",
    )
