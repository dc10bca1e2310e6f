from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mortals import Mortals


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Names a place that holds no ledger yet: a path, or the URL of an empty schema."""
    if request.param == "postgresql":
        yield request.getfixturevalue("new_schema")
        return
    numbers = itertools.count()
    # In memory where the machine offers it: a process can be killed there as well as on a disk, and syncing is quick.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield lambda: f"{folder}/ledger {next(numbers)}.sqlite"


@pytest.fixture
def place(new_place: Callable[[], str]) -> str:
    return new_place()


@pytest.fixture(scope="session")
def mortals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortals]:
    mortals = Mortals(tmp_path_factory.mktemp("mortals"))
    yield mortals
    mortals.end()
