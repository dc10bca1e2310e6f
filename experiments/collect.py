"""From what `represent`, `agree` and `teach` left behind to rows of experiments/results/{features,students}.json.

    python -m experiments.collect runs

A row replaces the one of the same data, way, seed and setting and leaves the others alone: GPU runs come one by one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
STUDENTS = {"mnist": "self-labelled ResNet-18 of width 32", "ensemble": "M3, M5, M7 majority vote"}
FOLDER = re.compile(r"(?P<data>mnist|cifar10|svhn)(?:-(?P<way>agreed))?-(?P<seed>\d+)")
SETTING = re.compile(r"(?P<protocol>[a-z-]+)-s(?P<s>\d+)-k(?P<k>\d+)-eps(?P<epsilon>[\d.]+)")

Row = dict[str, Any]


def features_row(data: str, way: str, seed: int, facts: Row) -> Row:
    """How well true labels lie in the features and clusters of one run."""
    stages = [key.removesuffix("_public") for key in facts if key.endswith("_public") and key != "consensus_public"]
    again = f"agree --seed {seed} --others ..." if way == "agreed" else f"represent --seed {seed}"
    return {
        "method": "sharpened by consensus" if way == "agreed" else "self-supervised on the pool",
        "data": data,
        "split": "clean",
        "way": way or "alone",
        "seed": seed,
        "knn_test": next(value for key, value in facts.items() if key.endswith("knn_test")),
        "purity": {n: next(v for k, v in facts.items() if k.endswith(f"_purity{n}")) for n in (10, 40, 100, 500)},
        "pool_clusters": {stage: facts[f"{stage}_public"] for stage in stages},
        "test_clusters": {stage: facts[f"{stage}_test"] for stage in stages},
        "unanimous": facts.get("unanimous"),
        "plain_vote": facts.get("consensus_public"),
        "sha256": {key.removesuffix("_sha256"): value for key, value in facts.items() if key.endswith("_sha256")},
        "versions": facts["versions"],
        "hardware": facts["hardware"],
        "command": f"python -m experiments.{data} {again}",
        "date": facts.get("date", date.today().isoformat()),
    }


def student_rows(data: str, way: str, seed: int, facts: Row) -> Iterator[Row]:
    """Test accuracy of the networks taught one run's released labels."""
    for key in facts:
        found = SETTING.fullmatch(key.removesuffix("_test").removesuffix("_ensemble"))
        if not key.endswith("_test") or found is None:
            continue
        kind = "ensemble" if key.endswith("_ensemble_test") else data
        truth = "truth_ensemble_test" if kind == "ensemble" else "truth_test"
        yield {
            "method": "recordwise",
            "data": data,
            "split": "clean",
            "setting": found[0],
            "encoder": "self-supervised on the pool",
            "way": way or "alone",
            "queries": "k-means" if found["s"] != "10" else "clusters",
            "student": STUDENTS.get(kind, "self-labelled ResNet-18"),
            "protocol": found["protocol"],
            "s": int(found["s"]),
            "k": int(found["k"]),
            "epsilon": float(found["epsilon"]),
            "delta": 0.0,
            "neighbours": "replace",
            "seeds": [f"{seed}/0"],
            "test_accuracy": [facts[key]],
            "label_accuracy": [facts[f"{found[0]}_labels"]],
            "nonprivate_accuracy": facts.get(truth),
            "versions": facts["versions"],
            "hardware": facts["hardware"],
            "command": f"python -m experiments.{data} teach --seed {seed} --released runs/.../released.npz",
            "date": facts.get("date", date.today().isoformat()),
        }


def merge(name: str, rows: list[Row], keys: tuple[str, ...]) -> None:
    path = RESULTS / f"{name}.json"

    def identity(row: Row) -> tuple[str, ...]:
        return tuple(str(row.get(key)) for key in keys)

    kept = {identity(row): row for row in json.loads(path.read_text())} if path.exists() else {}
    kept |= {identity(row): row for row in rows}
    path.write_text(json.dumps(list(kept.values()), indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.collect RUNS, the folder that represent and teach wrote to")
    features, students = [], []
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        named = FOLDER.fullmatch(folder.name)
        if named is None:
            continue
        data, way, seed = named["data"], named["way"] or "", int(named["seed"])
        if (folder / "represent.json").exists():
            features.append(features_row(data, way, seed, json.loads((folder / "represent.json").read_text())))
        if (folder / "released.json").exists():
            students += student_rows(data, way, seed, json.loads((folder / "released.json").read_text()))
    merge("features", features, ("data", "way", "seed"))
    merge("students", students, ("data", "way", "setting", "student", "seeds"))


if __name__ == "__main__":
    main()
