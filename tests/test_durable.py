"""Files that are there whole or not at all, whoever else writes them at the same time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from recordwise.durable import write_once


def test_two_threads_of_one_process_write_the_same_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes and goes while the first has written its bytes and not yet named them."""
    place, sync, said = tmp_path / "job.toml", os.fsync, list[bool]()

    def meanwhile(handle: int) -> None:
        sync(handle)
        monkeypatch.setattr(os, "fsync", sync)
        other = threading.Thread(target=lambda: said.append(write_once(place, b"second")))
        other.start()
        other.join()

    monkeypatch.setattr(os, "fsync", meanwhile)
    said.append(write_once(place, b"first"))
    assert said == [True, False]
    assert place.read_bytes() == b"second" and [one.name for one in tmp_path.iterdir()] == ["job.toml"]
