"""A ledger whose file was altered ends in one line, or still reads."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from damage import DAMAGES, Damage, cut, flipped
from ended import none_of, recordwise

from counts import Counted
from recordwise.privacy.events import Pure
from recordwise.privacy.guarantee import Guarantee
from recordwise.privacy.ledger import Ledger

FLIPS, CUTS = 280, 20


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    book = Ledger.open(path)
    for budget in ("us", "them"):
        book.open_budget(budget, epsilon=10)
        for number in range(3):
            book.release(budget, f"{number}", Pure(1), Guarantee(epsilon=1), lambda: b"released" * 9, "a note")  # type: ignore[arg-type]
    return path


def cases() -> Iterator[tuple[str, Damage]]:
    yield from DAMAGES.items()
    for number in range(CUTS):
        yield f"cut to {number / CUTS:.2f}", cut(number / CUTS)
    for seed in range(FLIPS):
        yield f"flips of seed {seed}", flipped(seed, 1 + seed % 60)


def mistakes(ledger: Path, folder: Path, chosen: list[tuple[str, Damage]]) -> list[str]:
    found = []
    for number, (name, damage) in enumerate(chosen):
        place = folder / str(number)
        shutil.copytree(ledger.parent, place)
        damage(place / ledger.name)
        commands = [("show", ledger.name), ("show", ledger.name, "--json"), ("show", ledger.name, "--budget", "us")]
        commands.append(("open", ledger.name, "--budget", "new", "--epsilon", "1"))
        for command in commands:
            ended = recordwise("ledger", *command, within=place)
            if ended.mistake:
                found.append(f"{name}: {command}: {ended.mistake}")
        shutil.rmtree(place)
    return found


def test_some_altered_ledgers_end_in_one_line(ledger: Path, tmp_path: Path) -> None:
    none_of(mistakes(ledger, tmp_path, list(cases())[::12]))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_altered_ledgers_end_in_one_line(ledger: Path, tmp_path: Path, counted: Counted) -> None:
    chosen = list(cases())
    assert len(chosen) >= 300
    found = mistakes(ledger, tmp_path, chosen)
    counted("altered ledgers", len(chosen), len(found))
    none_of(found)
