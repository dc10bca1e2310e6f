from __future__ import annotations

from collections.abc import Iterator

import pytest
from victims import Victims


@pytest.fixture(scope="session")
def victims() -> Iterator[Victims]:
    victims = Victims()
    yield victims
    victims.end()
