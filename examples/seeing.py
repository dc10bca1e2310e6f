"""An unlabelled pool of images: learn features and clusters from it, then let private records name them.

Uses the small digits that come with scikit-learn, and settings that fit into half a minute of one CPU core; what a pool
of tens of thousands of images wants instead, on a GPU, is in docs/concepts/seeing.md. Killed and run again, it goes on:
every stage keeps a checkpoint after every epoch.
Run: python examples/seeing.py [FOLDER]      (the folder is where checkpoints and weights go, "seeing" if none is given)
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from torch.nn import functional

from recordwise.distiller import PrivateDistiller
from recordwise.vision.augment import Augment
from recordwise.vision.saved import save_weights
from recordwise.vision.scan import Scan, scan
from recordwise.vision.self_label import SelfLabel, agreeing, self_label
from recordwise.vision.self_supervised import features_of
from recordwise.vision.simclr import SimClr, simclr
from recordwise.vision.spherical import nearest
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "seeing")
compute = Compute(device="cpu")  # Compute(device="cuda", compile=True) on a GPU
seed = 1

digits = load_digits()
images = np.kron((15 * digits.images).astype(np.uint8), np.ones((1, 2, 2), dtype=np.uint8))  # 16 pixels, bytes
order = np.random.default_rng(0).permutation(len(images))
public, private, rest = order[:600], order[600:1400], order[1400:]

# What may happen to a digit without making it another one; photographs may also be mirrored and recoloured.
VIEW = Augment(crop=(0.8, 1.0), rotate=10, shift=0.1, padding="zeros", brightness=0.2, contrast=0.2, jitter=0.5)
STRONG = Augment(rotate=15, shear=0.1, zoom=0.1, shift=0.1, geometry=0.7, padding="zeros", cutout=3)
WEAK = Augment(rotate=5, shift=0.05, padding="zeros")


def stage(name: str) -> TrainingRun:
    """Keeps every epoch, so that a run that is killed goes on from there."""
    return TrainingRun(
        seed=seed, compute=compute, checkpoint=folder / f"{name}.pt", checkpoint_every=1,
        progress=lambda epoch, value: print(f"{name:>9}, epoch {epoch + 1:2}: {value:6.3f}"),
    )  # fmt: skip


# 1 represent: features from the pool alone. `pretrain` with `Byol` settings is the stronger choice for a real pool.
pool = compute.images(images[public])
backbone = simclr(
    pool,
    SimClr(
        epochs=15, batch=50, rate=0.05, warm_up=0.1, temperature=0.2, width=8, hidden=128, projection=32, view=VIEW
    ),
    run=stage("features"),
)  # fmt: skip
neighbours = nearest(functional.normalize(features_of(backbone, pool, compute), dim=1), 10)

# 2 ask: clusters, sharpened by the network's own sure answers; a cluster is a question to the records.
clusters = scan(
    backbone, 64, pool, neighbours, Scan(clusters=10, heads=5, epochs=8, batch=50, rate=2e-3, view=STRONG),
    run=stage("clusters"),
)  # fmt: skip
found = features_of(clusters, pool, compute).argmax(1)
network = self_label(
    backbone, 64, pool, found, agreeing(found, neighbours, 0.6),
    SelfLabel(epochs=8, trusting_epochs=4, batch=50, keep=0.9, sure=0.8, strong=STRONG, weak=WEAK),
    classes=10, run=stage("sharpened"),
)  # fmt: skip
save_weights(network, folder / "clusters.safetensors")
save_weights(backbone, folder / "backbone.safetensors")

# 3 to 7: the files are encoders by their names, here and in a job file. One with a head gives cluster probabilities.
# Both runs ask the same records, so one ledger adds up what they cost.
for file, num_queries, epsilon in (("clusters.safetensors", 10, 0.5), ("backbone.safetensors", 40, 2.0)):
    model = PrivateDistiller(
        epsilon=epsilon, num_queries=num_queries, encoder=folder / file, queries={"metric": "cosine"},
        classes=np.arange(10),
        account={"ledger": folder / "ledger.sqlite", "budget": "digits", "budget_epsilon": 2.5},
    )  # fmt: skip
    model.fit(images[private], digits.target[private], X_public=images[public])
    right = model.score(images[rest], digits.target[rest])
    print(f"{file}, {num_queries} queries, epsilon {epsilon}: {right:.1%} of test images right")
    print(f"  {model.guarantee_}")
    print(f"  encoder SHA-256 {model.hashes_['encoder']}")
