"""Fixtures that more than one folder of tests uses."""

from __future__ import annotations

import functools
import gc
import itertools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import hypothesis
import pytest
import typer.main

# Test folders hold modules beside the tests that share them.
TESTS = Path(__file__).parent
sys.path += [str(folder) for folder in (TESTS, *TESTS.rglob("*")) if folder.is_dir() and folder.name != "__pycache__"]

from in_memory import memory  # noqa: E402  # it lies in one of them

# Workers get it from their parent, and whatever tests start gets it from them.
if folder := memory():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)
    os.environ.setdefault("TMPDIR", folder)
    tempfile.tempdir = None  # the place is asked for again: pytest has had it found already

# The tree of commands is made once, and not for each of the hundreds of commands that tests give in one process.
typer.main.get_command = functools.cache(typer.main.get_command)

# A busy machine is not a failing test.
hypothesis.settings.register_profile("recordwise", deadline=None)
hypothesis.settings.load_profile("recordwise")


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "append to this file how much was tried, and how much of it went wrong"
    parser.addoption("--counts", type=lambda path: Path(path).absolute(), help=told)
    parser.addoption("--share", type=float, default=1.0, help="of what the slow tests of parsers, races and runs try")


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Callable[[str, int, int], None]:
    """Writes down how many things of a kind a test tried, and how many went wrong; for `benchmarks.faults`."""
    place: Path | None = request.config.getoption("--counts")

    def write(what: str, tried: int, wrong: int) -> None:
        if place is not None:
            line = {"test": request.node.nodeid, "what": what, "tried": tried, "wrong": wrong}
            with place.open("a") as file:
                file.write(json.dumps(line) + "\n")

    return write


@pytest.fixture
def share(request: pytest.FixtureRequest) -> Callable[[int], int]:
    """How many of so many things to try."""
    part: float = request.config.getoption("--share")
    return lambda many: max(1, round(part * many))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, visibly, what needs data sets that are not on this machine."""
    if os.environ.get("RECORDWISE_DATA"):
        return
    needy = [item for item in items if item.get_closest_marker("real_data")]
    if needy:
        config.hook.pytest_deselected(items=needy)
        items[:] = [item for item in items if item not in needy]


def pytest_collection_finish() -> None:
    """What is there by now stays: the garbage collector need not look through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def quick_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans try one task instead of five, and the quickest student, where a test is about making them.

    test_plan.py says what plans are worth.
    """
    monkeypatch.setattr("recordwise.planner.outlook.AFFORDABLE", {"name": "linear"})
    monkeypatch.setattr("recordwise.planner.tasks.GUESS", (0.88,))
    monkeypatch.setattr("recordwise.planner.tasks.LEVELS", 1)
    monkeypatch.setattr("recordwise.planner.searching.SEARCHED", (0,))
    monkeypatch.setattr("recordwise.planner.searching._RECOMMENDED", {})  # what is found so is kept for nobody else


@pytest.fixture(scope="session", autouse=True)
def owner_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keys and heads of the ledgers that tests make; the tester's own are left alone."""
    folder = tmp_path_factory.mktemp("owner")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECORDWISE_KEYS", str(folder))
        yield folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that lives as long as the test run."""
    from postgres import running_postgres

    with running_postgres() as server:
        yield server.url


@pytest.fixture(scope="session")
def new_schema(postgres_server: str) -> Callable[..., str]:
    """Makes an empty schema and gives a URL that leads to it; settings are those of its connections."""
    import psycopg

    numbers = itertools.count()

    def make(*settings: str) -> str:
        name = f"test_{next(numbers)}"
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[call-overload]
        options = " ".join("-c" + setting.replace(" ", "\\ ") for setting in (f"search_path={name}", *settings))
        return f"{postgres_server}&options={quote(options)}"

    return make
