"""Several seeds side by side: their features next to each other, their clusters by what they agree on.

    python -m experiments.together mnist

Seeds see the pool differently, and what one runs together another keeps apart. Side by side their features make better
k-means queries and a better linear student. Ten clusters come from all of them: what all say, else what most say
(CIFAR-10), else what the nearest pool digits say that all agree on (MNIST, by pixels: there six of seven seeds fold the
sevens with a bar into some other digit, not all into the same). Reads experiments/features; writes
`<data>-together.npz` there, `<data>-one-less-<seed>.npz` without each seed in turn, to see how much one matters, and
for CIFAR-10 one with a pretrained encoder's features beside: the members' names, and cluster numbers of all parts.

That pixels settle MNIST and votes CIFAR-10 was decided after both had been seen on the pool's true labels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from experiments import compact
from experiments.rows import CLASSES
from recordwise.arrays import Ints
from recordwise.data import Rule, load, parts_of
from recordwise.vision.consensus import consensus, settled

HERE = Path(__file__).parent / "features"
SEEDS = {
    "mnist": tuple(f"mnist-{seed}" for seed in range(11, 18)),
    "cifar10": ("cifar10-11", *(f"cifar10-agreed-{seed}" for seed in range(12, 15))),
    "svhn": tuple(f"svhn-{seed}" for seed in (12, 14, 15, 16, 17)),  # those whose network was taught
}


def members_of(data: str) -> dict[str, tuple[str, ...]]:
    """The members of each file that is written."""
    every = SEEDS[data]
    files = {f"{data}-together": every}
    files |= {f"{data}-one-less-{left.split('-')[-1]}": tuple(m for m in every if m != left) for left in every}
    if data == "cifar10":
        files["cifar10-with-pretrained"] = (*every, "cifar10-pretrained-0")
    return files


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
    parser.add_argument("data", choices=tuple(SEEDS))
    data = parser.parse_args().data
    images = None
    if data == "mnist":
        parts = parts_of(load(data), Rule.CLEAN)
        images = {p: getattr(parts, p).samples.reshape(-1, 28 * 28).astype(np.float32) for p in compact.PARTS}
    for name, members in members_of(data).items():
        every = [clusters for member in members if (clusters := compact.read(HERE / f"{member}.npz")[1])]
        found = clusters_of(every, images) if every else {}
        numbers = {f"{part}_clusters": one.astype(np.uint8) for part, one in found.items()}
        np.savez_compressed(HERE / f"{name}.npz", members=np.array(members), **numbers)  # type: ignore[arg-type]
        print(f"{name}.npz: {', '.join(members)}", flush=True)


if __name__ == "__main__":
    main()
