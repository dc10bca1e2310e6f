"""MNIST: learn from 30,000 digits of the training set; the other 30,000 are private, the test set is whole.

    python -m experiments.mnist represent --seed 12        # the same for 11 and 13 to 18
    cp runs/mnist-12/features.npz experiments/features/mnist-12.npz
    python -m experiments.together mnist                   # from here on a CPU
    python -m experiments.labelling mnist
    python -m experiments.labelling mnist --stem mnist-12 --only central-s40-k1-eps0.1 \\
        --released runs/mnist-12/released.npz
    python -m experiments.mnist teach --seed 12 --released runs/mnist-12/released.npz

Settings were fixed before the first run; the views were made milder after a look at a small network on 4,000 images.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.vision import Recipe, main
from recordwise.vision.augment import Augment
from recordwise.vision.scan import Scan
from recordwise.vision.self_label import SelfLabel
from recordwise.vision.self_supervised import Byol
from recordwise.vision.supervised import Supervised

VIEW = Augment(
    size=24, crop=(0.6, 1.0), rotate=20, shear=0.3, padding="zeros", brightness=0.4, contrast=0.4, jitter=0.5
)
STRONG = Augment(
    rotate=25, shear=0.3, zoom=0.2, shift=0.1, geometry=0.7, padding="zeros",
    brightness=0.3, contrast=0.3, jitter=0.5, cutout=8,
)  # fmt: skip
WEAK = Augment(rotate=5, shift=0.05, padding="zeros")

RECIPE = Recipe(
    byol=Byol(epochs=100, prototype_epochs=30, warm_up_epochs=5, follow_epochs=15, width=32, hidden=2048, view=VIEW),
    scan=Scan(epochs=15, view=STRONG),
    self_label=SelfLabel(epochs=25, trusting_epochs=4, strong=STRONG, weak=WEAK),
    rounds=2,
    student=SelfLabel(epochs=25, trusting_epochs=8, strong=STRONG, weak=WEAK),
    mirror=False,
    dims=30,
    ensemble=Supervised(epochs=15, view=Augment(rotate=15, shear=0.2, zoom=0.1, shift=0.08, padding="zeros")),
)
SMALL = replace(
    RECIPE,
    agreement=0.0,
    ensemble=replace(RECIPE.ensemble, epochs=1) if RECIPE.ensemble else None,
    byol=replace(RECIPE.byol, epochs=2, prototype_epochs=2, width=16, hidden=256),
    scan=Scan(epochs=2, view=STRONG),
    self_label=replace(RECIPE.self_label, epochs=3, trusting_epochs=1),
    student=replace(RECIPE.student, epochs=3, trusting_epochs=1),
)

if __name__ == "__main__":
    main("mnist", RECIPE, SMALL)
