"""A run's folder: when it is bound to what it began with, and when a mistake can still be mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from recordwise.checkpoint import Checkpoint
from recordwise.errors import ChangedInput, InvalidInput


def test_a_run_that_released_nothing_starts_afresh_when_a_mistake_is_mended(tmp_path: Path) -> None:
    first = Checkpoint.open(tmp_path / "run", {"num_queries": 1000})
    first.keep("encoder", lambda: "for a thousand")
    second = Checkpoint.open(tmp_path / "run", {"num_queries": 100})
    assert second.run_id != first.run_id
    assert second.keep("encoder", lambda: "for a hundred") == "for a hundred"


def test_a_run_that_released_something_keeps_its_facts(tmp_path: Path) -> None:
    first = Checkpoint.open(tmp_path / "run", {"num_queries": 1000})
    first.bind(1, "no ledger")
    with pytest.raises(ChangedInput, match="num_queries was 1000"):
        Checkpoint.open(tmp_path / "run", {"num_queries": 100})
    assert Checkpoint.open(tmp_path / "run", {"num_queries": 1000}).run_id == first.run_id


def test_a_fact_that_was_not_yet_stated_is_what_it_was_then(tmp_path: Path) -> None:
    first = Checkpoint.open(tmp_path / "run", {"rounds": 2})
    first.bind(1, "no ledger")
    once = {"queries.focus": 0.5}
    assert Checkpoint.open(tmp_path / "run", {"rounds": 2, "queries.focus": 0.5}, once=once).run_id == first.run_id
    assert Checkpoint.open(tmp_path / "run", {"rounds": 2}, once=once).run_id == first.run_id  # it asks for no choice
    with pytest.raises(ChangedInput, match=r"queries\.focus was 0\.5"):
        Checkpoint.open(tmp_path / "run", {"rounds": 2, "queries.focus": 0.0}, once=once)


def test_files_of_others_are_never_taken_away(tmp_path: Path) -> None:
    Checkpoint.open(tmp_path / "run", {"pool": "a"})
    (tmp_path / "run" / "server.key").write_text("of a coordinator that has asked silos")
    with pytest.raises(ChangedInput, match="pool"):
        Checkpoint.open(tmp_path / "run", {"pool": "b"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="new, empty"):
        Checkpoint.open(tmp_path / "other", {})
