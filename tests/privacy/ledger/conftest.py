from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mortals import Mortals


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Names a place that holds no ledger yet: a path, or the URL of an empty schema."""
    if request.param == "postgresql":
        return request.getfixturevalue("new_schema")  # type: ignore[no-any-return]
    numbers = itertools.count()
    return lambda: f"{tmp_path}/ledger {next(numbers)}.sqlite"


@pytest.fixture
def place(new_place: Callable[[], str]) -> str:
    return new_place()


@pytest.fixture(scope="session")
def mortals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortals]:
    mortals = Mortals(tmp_path_factory.mktemp("mortals"))
    yield mortals
    mortals.end()
