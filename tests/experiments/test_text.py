"""The experiment on short texts: its cuts, and a row per data set, encoder and epsilon."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from experiments import intents, text
from recordwise.data.source import Remote

WORDS = {"money": "card balance bank payment fee loan", "music": "song album play band concert guitar"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "clinc150"
    home.mkdir()
    lines = [
        (f"{word} {other} number {turn}", f"{domain}-{word}")
        for domain, words in WORDS.items()
        for word in words.split()
        for other in words.split()
        for turn in range(6)
    ]
    parts = {"train": lines[::3], "val": lines[1::3], "test": lines[2::3], "oos_train": [("what", "oos")]}
    domains = {domain: [f"{domain}-{word}" for word in words.split()] for domain, words in WORDS.items()}
    contents = {"data_full.json": json.dumps(parts), "domains.json": json.dumps(domains)}
    remotes = []
    for name, content in contents.items():
        (home / name).write_text(content)
        remotes.append(Remote(name=name, urls=(), md5=hashlib.md5(content.encode()).hexdigest()))
    monkeypatch.setitem(intents.REMOTES, "clinc150", tuple(remotes))
    monkeypatch.setitem(intents.POOLS, "clinc10", (80, 200))
    monkeypatch.setenv("RECORDWISE_DATA", str(tmp_path))
    return tmp_path


def test_texts_are_cut_once_and_nothing_is_in_two_parts(folder: Path) -> None:
    data = intents.intents("clinc10")
    assert data.classes == ("money", "music")
    parts = [set(part.texts) for part in (data.public, data.private, data.test)]
    assert [len(part) for part in parts] == [80, 200, 144]
    assert not parts[0] & parts[1] and not (parts[0] | parts[1]) & parts[2]
    assert {data.classes[label] for label in data.private.labels} == {"money", "music"}


def test_a_row_replaces_the_one_it_measures_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "RESULTS", folder / "text.json")
    monkeypatch.setattr("experiments.unseen.DRAWS", 1)
    monkeypatch.setattr("sys.argv", ["text", "--data", "clinc10", "--encoder", "words"])
    monkeypatch.setattr(text, "EPSILONS", (1.0,))
    for _ in range(2):
        text.main()
    [row] = json.loads((folder / "text.json").read_text())
    assert (row["data"], row["encoder"], row["epsilon"]) == ("clinc10", "text", 1.0)
    assert row["test_accuracy"][0] > 0.8 and row["command"] == "python -m experiments.text"
