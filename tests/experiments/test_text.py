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


def test_reviews_without_a_test_set_leave_one_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "reviews").mkdir()
    remotes = []
    for ending in ("neg", "pos"):
        path = tmp_path / "reviews" / f"rt-polarity.{ending}"
        path.write_text("".join(f"{ending} {number}\n" for number in range(30)))
        remotes.append(Remote(name=path.name, urls=(), md5=hashlib.md5(path.read_bytes()).hexdigest()))
    monkeypatch.setitem(intents.REMOTES, "reviews", tuple(remotes))
    monkeypatch.setitem(intents.POOLS, "reviews", (20, 30))
    data = intents.intents("reviews", tmp_path)
    parts = [set(part.texts) for part in (data.public, data.private, data.test)]
    assert [len(part) for part in parts] == [20, 30, 10] and len(set.union(*parts)) == 60
    assert all((text[:3] == "pos") == bool(y) for text, y in zip(data.test.texts, data.test.labels, strict=True))


def test_vectors_are_computed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = text.bed_of("clinc10", "words", folder)
    monkeypatch.delattr(text, "encoder_from")
    again = text.bed_of("clinc10", "words", folder)
    assert all((one == other).all() for one, other in zip(first.vectors, again.vectors, strict=True))


def test_a_row_replaces_the_one_it_measures_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "RESULTS", folder / "text.json")
    monkeypatch.setattr("experiments.unseen.DRAWS", 1)
    asked = ["text", "--data", "clinc10", "--encoder", "words", "--epsilon", "1", "--draws", "1"]
    monkeypatch.setattr("sys.argv", asked)
    text.main()
    monkeypatch.setattr("experiments.unseen.NoisySGD1", None)  # is not asked again
    monkeypatch.setattr("sys.argv", [*asked, "--only", "ours"])
    text.main()
    [row] = json.loads((folder / "text.json").read_text())
    assert (row["data"], row["encoder"], row["epsilon"]) == ("clinc10", "text", 1.0)
    assert row["test_accuracy"][0] > 0.8 and row["command"] == "python -m experiments.text"
    assert row["s_by"] == "rule" and 0.9 < row["best_label_accuracy"] <= 1 and row["noiseless_accuracy"] > 0.8


@pytest.mark.usefixtures("quick_plans")
def test_the_planner_chooses_how_many_to_ask(folder: Path) -> None:
    assert text.planned(text.bed_of("clinc10", "words"), 1.0) in (2, 4, 8, 20)
