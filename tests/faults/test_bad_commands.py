"""A command with a mistake ends in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from bad_commands import bad_commands
from ended import none_of, recordwise
from tiny import charges, fill

from counts import Counted

HELP = (2, "")  # a bare command shows its help on standard output, and says nothing else


def mistakes(folder: Path, commands: list[tuple[str, ...]]) -> list[str]:
    fill(folder)
    found = []
    for arguments in commands:
        ended = recordwise(*arguments, within=folder)
        if ended.mistake and (ended.code, ended.err) != HELP:
            found.append(f"{arguments}: {ended.mistake}")
    assert charges(folder) == 0
    return found


def test_some_bad_commands_end_in_one_line(tmp_path: Path) -> None:
    none_of(mistakes(tmp_path, list(bad_commands())[::7]))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_bad_commands_end_in_one_line(tmp_path: Path, counted: Counted) -> None:
    commands = list(bad_commands())
    assert len(commands) >= 138
    found = mistakes(tmp_path, commands)
    counted("commands with a mistake", len(commands), len(found))
    none_of(found)
