"""Where a ledger is kept: a SQLite file, or a PostgreSQL database by URL. Everything that differs is in this file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

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
      - a fault of the database is a `LedgerFault` of one line, without the password.
    """

    def __init__(self, place: str | Path, *, wait: float) -> None:
        url = _url(place)
        if url.drivername == "sqlite":
            self.name = str(url.database)
            self.file: Path | None = Path(self.name).absolute()
            self._reader, self._writer = _sqlite(self.file, wait)
        else:
            self.name = url.render_as_string(hide_password=True)
            self.file = None
            self._reader, self._writer = _postgresql(url, wait)
        for engine in {self._reader.engine, self._writer.engine}:
            sa.event.listen(engine, "handle_error", self._fault)

    def reading(self) -> AbstractContextManager[Connection]:
        if self.file and not self.file.is_file():
            raise LedgerFault(f"ledger {self.name} does not exist")
        return self._reader.transaction()

    def writing(self) -> AbstractContextManager[Connection]:
        return self._writer.transaction()

    def prepare(self, *, create: bool) -> None:
        """Create the tables where there are none and they may be; roll back what a killed writer left half-written."""
        if self.file:
            try:
                if create and not self.file.exists():
                    self.file.touch()
            except OSError as error:
                raise LedgerFault(f"ledger {self.name} cannot be created: {error.strerror}") from error
            if self._journal().exists():
                with self.writing():  # SQLite does it on the way; a reader may not
                    pass
        if create and self.version() is None:
            with self.writing() as connection:
                if connection.dialect.name == "postgresql":  # where "create if missing" is not atomic
                    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({CREATION})")
                _metadata.create_all(connection)
                connection.execute(insert_if_missing(connection, schema, {"version": VERSION}))
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
    except (sa.exc.ArgumentError, ValueError) as error:
        raise InvalidInput("a ledger's URL must read like postgresql://user@host/database") from error
    if url.get_backend_name() == "sqlite":
        return _url(url.database or "")
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise InvalidInput(f"a ledger is kept in SQLite or PostgreSQL, got {url.drivername!r}")
    return url.set(drivername="postgresql+psycopg")


def _sqlite(file: Path, wait: float) -> tuple[Access, Access]:
    def engine(mode: str) -> Engine:
        def connect() -> sqlite3.Connection:
            # No isolation level: the driver opens no transactions of its own behind our back.
            connection = sqlite3.connect(f"{file.as_uri()}?mode={mode}", uri=True, timeout=wait, isolation_level=None)
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                # FULL would leave the journal's removal, which is the commit, to be lost with the power.
                connection.execute("PRAGMA synchronous = EXTRA")
            except UnicodeDecodeError as error:  # the driver cannot even say what is wrong with the tables
                raise sqlite3.DatabaseError("its tables cannot be read") from error
            return connection

        return sa.create_engine("sqlite://", creator=connect, poolclass=sa.NullPool)

    return Access(engine("ro"), ("BEGIN",)), Access(engine("rw"), ("BEGIN IMMEDIATE",))


def _postgresql(url: URL, wait: float) -> tuple[Access, Access]:
    try:
        engine = sa.create_engine(
            url,
            poolclass=sa.NullPool,
            isolation_level="READ COMMITTED",  # an older snapshot would miss what the budget's last holder charged
            connect_args={} if "connect_timeout" in url.query else {"connect_timeout": 10},
        )
    except ModuleNotFoundError as error:
        raise MissingExtra("a ledger in PostgreSQL needs psycopg: pip install 'recordwise[postgres]'") from error
    return Access(engine, ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",)), Access(
        engine,
        (
            f"SET LOCAL lock_timeout = {round(wait * 1000)}",
            # A server may be set to confirm commits that are not yet on disk.
            "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'",
        ),
    )
