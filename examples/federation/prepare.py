"""Three hospitals and a coordinator, from scikit-learn's digits: python examples/federation/prepare.py fed

Makes what `recordwise coordinator init` and `recordwise silo init` make, fills in the settings, and prints what to type
in two terminals. docs/federation.md walks through it. Each silo gets digits of its own; the pool is unlabelled.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from recordwise.federation.nodes import new_party
from recordwise.federation.registered import register
from recordwise.randomness import seeded

SILOS = ("north", "south", "west")
ADDRESS = "127.0.0.1:9600"

COORDINATOR = """name = "digits of three hospitals"

[public]
path = "pool.npz"

[test]
path = "test.npz"
labels = "labels"

[privacy]
epsilon = 4.0
trust = "distributed"

[method]
classes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
encoder = "pca"
num_queries = 40
rounds = 1

[federation]
threshold = 3
records = [600, 900]

[federation.silos]
{silos}"""

SILO = """name = "{name}"

[records]
path = "records.npz"
samples = "samples"
labels = "labels"

[policy]
epsilon = 5.0
trust = "distributed"
min_parties = 2

[peers]
{silos}"""


def prepare(folder: Path) -> None:
    """Everything but the processes."""
    digits = load_digits()
    order = seeded(0, "federation").permutation(len(digits.data))
    pool, test, *held = np.split(order, [600, 897, 1197, 1497])
    hub = folder / "hub"
    new_party(hub, "coordinator.crt")
    silos = "".join(f'{name} = "{new_party(folder / name, "node.crt").hex()}"\n' for name in SILOS)
    register(hub, [folder / name / "node.crt" for name in SILOS])
    for name, rows in zip(SILOS, held, strict=True):
        np.savez(folder / name / "records.npz", samples=digits.data[rows], labels=digits.target[rows])
        (folder / name / "silo.toml").write_text(SILO.format(name=name, silos=silos))
    np.savez(hub / "pool.npz", samples=digits.data[pool])
    np.savez(hub / "test.npz", samples=digits.data[test], labels=digits.target[test])
    (hub / "coordinator.toml").write_text(COORDINATOR.format(silos=silos))


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "fed")
    prepare(folder)
    print("# terminal 1: the silos (on machines of their own in real life)")
    for name in SILOS:
        print(f"recordwise silo run {folder}/{name} --address {ADDRESS} --certificate {folder}/hub/coordinator.crt &")
    print(f"\n# terminal 2: the run\nrecordwise coordinator run {folder}/hub")


if __name__ == "__main__":
    main()
