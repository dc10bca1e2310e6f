"""Files that are there whole or not at all, whoever else writes them at the same time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from recordwise import durable
from recordwise.durable import make_folder, write_once


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


def test_every_folder_on_the_way_to_a_new_one_is_synced_up_to_where_its_disk_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[Path]()
    monkeypatch.setattr(durable, "sync_folder", synced.append)
    monkeypatch.setattr(Path, "is_mount", lambda self: self == tmp_path)
    for _ in range(2):  # whoever made them may have been killed before they were synced
        make_folder(tmp_path / "one" / "two" / "three")
        assert synced == [tmp_path / "one" / "two", tmp_path / "one", tmp_path]
        synced.clear()
    assert (tmp_path / "one" / "two" / "three").is_dir()
