from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from experiments import collect

MADE = {"versions": {"torch": "2"}, "hardware": {"processor": "a chip"}}
PURITY = {f"final_purity{n}": 0.9 for n in (10, 40, 100, 500)}


def facts(folder: Path, name: str, **found: object) -> None:
    """What a run leaves in `folder`, which is called data-seed or data-way-seed."""
    folder.mkdir(exist_ok=True)
    seed = folder.name.split("-")[-1]
    (folder / name).write_text(json.dumps({"seed": seed, "labels": folder.name, **found, **MADE}))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    monkeypatch.setattr(collect, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["collect", str(folder)])
    return folder


def rows(runs: Path, name: str) -> list[dict[str, Any]]:
    collect.main()
    found: list[dict[str, Any]] = json.loads((runs.parent / f"{name}.json").read_text())
    return found


def test_rows_of_new_runs_join_those_of_earlier_ones(runs: Path):
    facts(runs / "mnist-13", "represent.json", scan_public=0.8, scan_test=0.7, final_knn_test=0.9, **PURITY)
    said = {"central-s40-k1-eps0.1_test": 0.95, "central-s40-k1-eps0.1_labels": 0.9, "truth_test": 0.99}
    ensemble = {"central-s40-k1-eps0.1_ensemble_test": 0.96, "truth_ensemble_test": 0.995}
    facts(runs / "mnist-13", "released.json", **said, **ensemble)
    assert [row["pool_clusters"] for row in rows(runs, "features")] == [{"scan": 0.8}]
    facts(runs / "svhn-agreed-12", "released.json", **{**said, "central-s40-k1-eps0.1_test": 0.5})
    found = rows(runs, "students")
    assert [(row["data"], row["way"], row["test_accuracy"], row["nonprivate_accuracy"]) for row in found] == [
        ("mnist", "alone", [0.96], 0.995),  # M3, M5, M7: rows lie in the order of their names
        ("mnist", "alone", [0.95], 0.99),
        ("svhn", "agreed", [0.5], 0.99),
    ]


def test_seeds_of_one_setting_are_one_row(runs: Path):
    for seed, test, truth in ((13, 0.9, 0.98), (12, 0.8, None)):
        said = {"central-s500-k1-eps0.1_test": test, "central-s500-k1-eps0.1_labels": 0.7}
        facts(runs / f"svhn-{seed}", "released.json", **said, **({"truth_test": truth} if truth else {}))
        rows(runs, "students")
    facts(runs / "svhn-13", "released.json", **{**said, "central-s500-k1-eps0.1_test": 0.91, "truth_test": 0.99})
    (row,) = rows(runs, "students")
    assert row["seeds"] == ["12/0", "13/0"]
    assert row["test_accuracy"] == [0.8, 0.91]  # a run again takes the place of its seed
    assert row["nonprivate"] == [None, 0.99]
    assert row["nonprivate_accuracy"] == 0.99


def test_what_each_seed_was_taught_stays_beside_it():
    def row(seed: str, taught: str) -> dict[str, Any]:
        per_seed = {"test_accuracy": [0.9], "label_accuracy": [0.8], "nonprivate": [None], "taught": [taught]}
        return {"seeds": [seed], **per_seed}

    merged = collect.with_seeds(row("21/0", "first"), collect.with_seeds(row("22/1", "second"), None))
    assert (merged["seeds"], merged["taught"]) == (["21/0", "22/1"], ["first", "second"])


def test_what_the_paper_used_is_collected_too(runs: Path):
    simclr = {key.replace("final", "simclr"): value for key, value in PURITY.items()} | {"simclr_knn_test": 0.7}
    (runs / "paper-simclr.json").write_text(json.dumps({"seed": 12, "data": "cifar10", "epochs": 60, **simclr, **MADE}))
    taught = {"data": "cifar10", "labels": "cifar10-together", "features": "f.npz", "epochs": 9, "truth_test": 0.9}
    said = {"central-s500-k1-eps1_test": 0.8, "central-s500-k1-eps1_labels": 0.85}
    (runs / "paper-densenet.json").write_text(json.dumps({"seed": 12, **taught, **said, **MADE}))
    (runs / "paper-densenet-13.json").write_text(json.dumps({"seed": 13, "draw": 1, **taught, **said, **MADE}))
    (features,) = rows(runs, "features")
    assert (features["method"], features["knn_test"]) == ("SimCLR", 0.7)
    (student,) = rows(runs, "students")
    assert (student["student"], student["way"], student["test_accuracy"]) == ("DenseNet-121", "together", [0.8, 0.8])
    assert student["seeds"] == ["all/0", "all/1"]  # of the features, not the student's own, and of the noise
    assert student["command"].endswith("--released runs/cifar10-together/released.npz --features f.npz --epochs 9")
    assert features["command"].endswith("simclr --epochs 60")
