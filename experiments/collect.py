"""From what GPU runs left behind to rows of experiments/results/{features,students}.json.

    python -m experiments.collect runs

Runs come one by one. A feature row is one seed's, and replaces that seed's; a student's row has all its seeds, and a
new one joins them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from experiments.rows import CLASSES, Row, named, result_row
from experiments.sources import ALL

RESULTS = Path(__file__).parent / "results"
FOLDER = re.compile(r"(?P<data>mnist|cifar10|svhn)(-agreed)?-\d+")
PAPER = re.compile(r"paper-(?P<kind>simclr|densenet|mixmatch)(-\d+)?")
METHODS = {"alone": "self-supervised on the pool", "agreed": "sharpened by consensus", "simclr": "SimCLR"}
STUDENTS = {
    "mnist": "self-labelled ResNet-18 of width 32",
    "cifar10": "self-labelled ResNet-18",
    "svhn": "self-labelled ResNet-18",
    "ensemble": "M3, M5, M7 majority vote",
    "densenet": "DenseNet-121",
    "mixmatch": "WideResNet-28-2 with MixMatch",
}
PER_SEED = ("seeds", "test_accuracy", "label_accuracy", "nonprivate", "taught", "speed")  # the last two not of all


def features_row(data: str, way: str, facts: Row, command: str) -> Row:
    """How well true labels lie in the features and clusters of one run."""
    stages = [key.removesuffix("_public") for key in facts if key.endswith("_public") and key != "consensus_public"]
    return {
        "method": METHODS[way],
        "data": data,
        "split": "clean",
        "way": way,
        "seed": facts["seed"],
        "knn_test": next(value for key, value in facts.items() if key.endswith("knn_test")),
        "purity": {n: next(v for k, v in facts.items() if k.endswith(f"_purity{n}")) for n in (10, 40, 100, 500)},
        "pool_clusters": {stage: facts[f"{stage}_public"] for stage in stages},
        "test_clusters": {stage: facts[f"{stage}_test"] for stage in stages},
        "unanimous": facts.get("unanimous"),
        "plain_vote": facts.get("consensus_public"),
        "sha256": {key.removesuffix("_sha256"): value for key, value in facts.items() if key.endswith("_sha256")},
        "versions": facts["versions"],
        "hardware": facts["hardware"],
        "command": command,
        "date": facts.get("date", date.today().isoformat()),
    }


def student_rows(data: str, kind: str, facts: Row, command: str) -> Iterator[Row]:
    """Test accuracy of one seed's networks, taught released labels."""
    for key in facts:
        setting = named(key.removesuffix("_test").removesuffix("_ensemble"))
        if not key.endswith("_test") or setting is None:
            continue
        voted = key.endswith("_ensemble_test")
        truth = facts.get("truth_ensemble_test" if voted else "truth_test")
        yield result_row(
            setting,
            data=data,
            split="clean",
            encoder="self-supervised on the pool",
            queries="k-means" if setting.s != CLASSES else "clusters",
            student=STUDENTS["ensemble" if voted else kind],
            way=way_of(facts["labels"]),
            seeds=[f"{seed_of(facts['labels'])}/{facts.get('draw', 0)}"],
            test_accuracy=[facts[key]],
            label_accuracy=[facts[f"{setting.name}_labels"]],
            nonprivate_accuracy=truth,
            nonprivate=[truth],
            versions=facts["versions"],
            hardware=facts["hardware"],
            command=command,
        )


def way_of(folder: str) -> str:
    """How the features of a folder such as svhn-12 or cifar10-together were learnt."""
    return "-".join(word for word in folder.split("-")[1:] if not word.isdigit()) or "alone"


def seed_of(folder: str) -> str:
    """The seed of those features."""
    last = folder.split("-")[-1]
    return last if last.isdigit() else ALL


def with_seeds(row: Row, earlier: Row | None) -> Row:
    """A row with the seeds of an earlier one beside its own; a seed that both have is the newer one's."""
    entries: dict[str, list[Any]] = {}
    keys = [key for key in PER_SEED if key in row]
    for one in (earlier, row) if earlier else (row,):
        entries |= {seed: values for seed, *values in zip(*(one[key] for key in keys), strict=True)}
    lists = zip(*([seed, *values] for seed, values in sorted(entries.items())), strict=True)
    merged = row | {key: list(values) for key, values in zip(keys, lists, strict=True)}
    known = [value for value in merged["nonprivate"] if value is not None]
    return merged | {"nonprivate_accuracy": round(sum(known) / len(known), 4) if known else None}


def merge(name: str, rows: list[Row], keys: tuple[str, ...], joined: Callable[[Row, Row | None], Row]) -> None:
    path = RESULTS / f"{name}.json"

    def identity(row: Row) -> tuple[str, ...]:
        return tuple(str(row.get(key)) for key in keys)

    kept = {identity(row): row for row in json.loads(path.read_text())} if path.exists() else {}
    for row in rows:
        kept[identity(row)] = joined(row, kept.get(identity(row)))
    path.write_text(json.dumps([kept[key] for key in sorted(kept)], indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.collect RUNS, the folder that represent and teach wrote to")
    features: list[Row] = []
    students: list[Row] = []
    for path in sorted(Path(sys.argv[1]).glob("**/*.json")):
        facts, run, paper = json.loads(path.read_text()), FOLDER.fullmatch(path.parent.name), PAPER.fullmatch(path.stem)
        if paper and paper["kind"] == "simclr":
            command = f"python -m experiments.paper simclr --epochs {facts['epochs']}"
            features.append(features_row(facts["data"], "simclr", facts, command))
        elif paper:
            kind = paper["kind"]
            command = f"python -m experiments.paper {kind} --released runs/{facts['labels']}/released.npz"
            command += f" --features {facts['features']}"
            students += student_rows(facts["data"], kind, facts, f"{command} --epochs {facts['epochs']}")
        elif run and path.stem == "represent":
            data, way, seed = run["data"], way_of(run[0]), facts["seed"]
            stage = f"represent --seed {seed}" if way == "alone" else f"agree --seed {seed} --others ..."
            features.append(features_row(data, way, facts, f"python -m experiments.{data} {stage}"))
        elif run and path.stem == "released":
            data = run["data"]
            command = f"python -m experiments.{data} teach --seed SEED --released runs/FOLDER/released.npz"
            students += student_rows(data, data, facts, command)
    merge("features", features, ("data", "way", "seed"), lambda row, earlier: row)
    merge("students", students, ("data", "way", "setting", "student"), with_seeds)


if __name__ == "__main__":
    main()
