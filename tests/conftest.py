"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from urllib.parse import quote

import psycopg
import pytest

from postgres import running_postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that lives as long as the test run."""
    with running_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def new_schema(postgres_server: str) -> Callable[..., str]:
    """Makes an empty schema and gives a URL that leads to it; settings are those of its connections."""
    numbers = itertools.count()

    def make(*settings: str) -> str:
        name = f"test_{next(numbers)}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[call-overload]
        options = " ".join("-c" + setting.replace(" ", "\\ ") for setting in (f"search_path={name}", *settings))
        return f"{postgres_server}&options={quote(options)}"

    return make
