from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from experiments import collect

MADE = {"versions": {"torch": "2"}, "hardware": {"processor": "a chip"}}


def facts(folder: Path, name: str, **found: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps({**found, **MADE}))


def test_rows_of_new_runs_join_those_of_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collect, "RESULTS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["collect", str(tmp_path / "runs")])
    (tmp_path / "runs").mkdir()
    purity = {f"final_purity{n}": 0.9 for n in (10, 40, 100, 500)}
    facts(
        tmp_path / "runs" / "mnist-13", "represent.json", scan_public=0.8, scan_test=0.7, final_knn_test=0.9, **purity
    )
    said = {"central-s40-k1-eps0.1_test": 0.95, "central-s40-k1-eps0.1_labels": 0.9, "truth_test": 0.99}
    ensemble = {"central-s40-k1-eps0.1_ensemble_test": 0.96, "truth_ensemble_test": 0.995}
    facts(tmp_path / "runs" / "mnist-13", "released.json", **said, **ensemble)
    collect.main()
    facts(tmp_path / "runs" / "svhn-agreed-12", "released.json", **{**said, "central-s40-k1-eps0.1_test": 0.5})
    collect.main()
    students = json.loads((tmp_path / "students.json").read_text())
    assert [(row["data"], row["way"], row["test_accuracy"], row["nonprivate_accuracy"]) for row in students] == [
        ("mnist", "alone", [0.95], 0.99),
        ("mnist", "alone", [0.96], 0.995),
        ("svhn", "agreed", [0.5], 0.99),
    ]
    features = json.loads((tmp_path / "features.json").read_text())
    assert [row["pool_clusters"] for row in features] == [{"scan": 0.8}]
