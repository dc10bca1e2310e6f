"""Where a ledger lies: a file, or a PostgreSQL database. Of a database's URL nothing shows that is secret."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, unquote

import sqlalchemy as sa
from sqlalchemy.engine import URL, make_url

from recordwise.errors import HIDDEN, InvalidInput, LedgerFault

FORM = "a ledger's URL must read like postgresql://user@host/database"
_SECRET = re.compile(r"password|passwd|secret|token", re.IGNORECASE)  # parameters of a connection that are
_KEY_VALUE = re.compile(r"(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service)\s*=", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """A place, without its secrets; they are given to the driver apart, and to nobody else.

    Attributes:
      name: What to call it. No secret is in it.
      file: Of SQLite, with symbolic links followed: journals lie beside the file itself. None for a server.
      url: Of a server, without secrets.
      secrets: Parameters of a connection, by their names.
    """

    name: str
    file: Path | None = None
    url: URL | None = None
    secrets: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, place: str | Path) -> Place:
        if isinstance(place, Path) or "://" not in place:
            return _file(place)
        try:
            url = make_url(place)
        except (sa.exc.ArgumentError, ValueError):
            raise InvalidInput(FORM) from None  # what was asked for may hold a password
        if url.get_backend_name() == "sqlite":
            return _file(url.database or "")
        if url.get_backend_name() not in ("postgresql", "postgres"):
            raise InvalidInput(f"a ledger is kept in SQLite or PostgreSQL, got {url.drivername!r}")
        return _server(url)

    @property
    def remembered(self) -> str:
        """By what its owner remembers it: the same from wherever, and by whatever name, it is reached."""
        return self.name if self.file is None else str(self.file)

    def scrubbed(self, text: str) -> str:
        """The text without this place's secrets, however they are spelled in it."""
        known = {*self.secrets.values(), os.environ.get("PGPASSWORD", "")}
        spellings = {spell(secret) for secret in known for spell in (str, quote, quote_plus, _quote_all, unquote)}
        for secret in sorted(spellings - {""}, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return text


def _file(place: str | Path) -> Place:
    name = str(place)
    if name in ("", ":memory:"):
        raise InvalidInput(
            f"a ledger must be a file or a PostgreSQL URL, so that it outlives the program, got {place!r}"
        )
    if isinstance(place, str) and _KEY_VALUE.search(place):
        raise InvalidInput(f"{FORM}, and not like host=... user=...")
    try:
        return Place(name, file=Path(name).resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a link that leads to itself, a name no system has
        raise LedgerFault(f"ledger {name} cannot be reached: {error}") from error


def _server(url: URL) -> Place:
    if "@" in (url.host or "") or "@" in (url.username or ""):
        raise InvalidInput(f"{FORM}; an @ in a password is written %40")  # else half of it is taken for the host
    secrets = {} if url.password is None else {"password": str(url.password)}
    query: dict[str, Any] = {}
    for name, value in url.query.items():
        if _SECRET.search(name):
            secrets[name] = value if isinstance(value, str) else value[-1]
        else:
            query[name] = value
    bare = URL.create("postgresql", url.username, None, url.host, url.port, url.database, query)
    shown = bare.set(password=HIDDEN) if "password" in secrets else bare
    return Place(shown.render_as_string(hide_password=True), url=bare, secrets=secrets)


def _quote_all(text: str) -> str:
    return quote(text, safe="")
