"""CLINC150 (Larson et al. 2019, CC BY 3.0): short requests in words, by the ten domains they belong to.

    python -m experiments.clinc150 path/to/oos-eval/data

writes experiments/features/clinc150.npz: vectors of the package's text encoder, fitted on the pool, and labels. Half of
the training and validation requests, drawn by a fixed seed, are the pool, the other half private; the official test
set is whole. Requests outside all domains are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments import compact
from recordwise.arrays import Ints
from recordwise.encoders import Text
from recordwise.randomness import seeded

FEATURES = Path(__file__).parent / "features" / "clinc150.npz"
LABELS = FEATURES.with_name("clinc150-labels.npz")
DIMS = 60


def write(folder: Path) -> None:
    """Features and labels of the three parts, from the data set's own files."""
    domains = json.loads((folder / "domains.json").read_text())
    place = {intent: number for number, name in enumerate(sorted(domains)) for intent in domains[name]}
    parts = json.loads((folder / "data_full.json").read_text())
    texts = {part: np.array([text for text, _ in parts[part]], dtype=object) for part in ("train", "val", "test")}
    labels = {part: np.array([place[intent] for _, intent in parts[part]]) for part in texts}
    seen = np.concatenate([texts["train"], texts["val"]])
    known = np.concatenate([labels["train"], labels["val"]])
    order = seeded(0, "clinc150").permutation(len(seen))
    half = len(seen) // 2
    rows = {"public": (seen[order[:half]], known[order[:half]]), "private": (seen[order[half:]], known[order[half:]])}
    rows["test"] = (texts["test"], labels["test"])
    encoder = Text(dim=DIMS).fit(list(rows["public"][0]))
    vectors = {part: encoder.transform(list(words)) for part, (words, _) in rows.items()}
    compact.write(FEATURES, vectors, {}, dims=DIMS)
    kept = {part: found.astype(np.uint8) for part, (_, found) in rows.items()}
    np.savez_compressed(LABELS, **kept)  # type: ignore[arg-type]


def read() -> tuple[dict[str, NDArray[np.float32]], dict[str, Ints]]:
    """Vectors and labels of the three parts."""
    with np.load(LABELS) as file:
        labels = {part: file[part].astype(np.int64) for part in compact.PARTS}
    return compact.read(FEATURES)[0], labels


if __name__ == "__main__":
    write(Path(sys.argv[1]))
