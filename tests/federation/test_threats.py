"""The threat model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "concepts" / "threats.md"


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", PAGE.read_text())
    assert len(named) > 25
    texts: dict[str, str] = {}  # by name; files of several folders may share one
    for path in HERE.parent.rglob("test_*.py"):
        texts[path.name] = texts.get(path.name, "") + path.read_text()
    for file, function in named:
        assert f"def {function}(" in texts[file] or not function, f"{file}::{function}"


def test_every_row_of_the_threat_model_names_a_test() -> None:
    attacks = PAGE.read_text().split("## How much was tried")[0]
    heads = ("| tries", "| takes")
    rows = [line for line in attacks.splitlines() if line.startswith("| ") and not line.startswith(heads)]
    assert len(rows) > 40
    assert not [row for row in rows if not re.search(r"`test_\w+\.py", row)]


def test_every_attacker_of_the_threat_model_has_a_section() -> None:
    text = PAGE.read_text()
    for attacker in (
        "A stranger",
        "A registered node",
        "insider",
        "The coordinator",
        "The shuffler",
        "A thief of a disk",
        "Who can write to a run's folder",
    ):
        assert re.search(rf"^## .*{attacker}", text, re.MULTILINE)
