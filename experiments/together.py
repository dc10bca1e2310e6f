"""Several seeds side by side: their features next to each other, their clusters by what they agree on.

    python -m experiments.together mnist

Seeds see the pool differently, and what one runs together another keeps apart. Side by side their features make better
k-means queries and a better linear student. Ten clusters come from all of them: what all say, else what most say
(CIFAR-10), else what the nearest pool digits say that all agree on (MNIST, by pixels: there all seeds fold the sevens
with a bar into some other digit, each into its own). Reads experiments/features; writes `<data>-together.npz` there,
and for CIFAR-10 one with a pretrained encoder's features beside: the members' names, and cluster numbers of all parts.

That pixels settle MNIST and votes CIFAR-10 was decided after both had been seen on the pool's true labels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from experiments import compact
from recordwise.arrays import Ints
from recordwise.data import Rule, load, parts_of
from recordwise.queries.consensus import consensus, settled

HERE = Path(__file__).parent / "features"
CLASSES = 10
OWN = ("cifar10-11", "cifar10-agreed-12", "cifar10-agreed-13")
MEMBERS = {  # of each file that is written, by data set
    "mnist": {"mnist-together": ("mnist-11", "mnist-12", "mnist-13")},
    "cifar10": {"cifar10-together": OWN, "cifar10-with-pretrained": (*OWN, "cifar10-pretrained-0")},
    "svhn": {"svhn-together": ("svhn-11", "svhn-12")},
}


def clusters_of(every: list[dict[str, Ints]], images: dict[str, np.ndarray] | None) -> dict[str, Ints]:
    """Cluster numbers of each part from those of all members; images settle disputes where given."""
    pool = [numbers["public"] for numbers in every]
    found = {p: consensus([n[p] for n in every], pool=pool, clusters=CLASSES) for p in compact.PARTS}
    if images is None:
        return {part: one.clusters for part, one in found.items()}
    return {
        part: settled(one, images[part], pool=found["public"], pool_vectors=images["public"])
        for part, one in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Several seeds side by side")
    parser.add_argument("data", choices=tuple(MEMBERS))
    data = parser.parse_args().data
    images = None
    if data == "mnist":
        parts = parts_of(load(data), Rule.CLEAN)
        images = {p: getattr(parts, p).samples.reshape(-1, 28 * 28).astype(np.float32) for p in compact.PARTS}
    for name, members in MEMBERS[data].items():
        every = [clusters for member in members if (clusters := compact.read(HERE / f"{member}.npz")[1])]
        found = clusters_of(every, images) if every else {}
        numbers = {f"{part}_clusters": one.astype(np.uint8) for part, one in found.items()}
        np.savez_compressed(HERE / f"{name}.npz", members=np.array(members), **numbers)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
