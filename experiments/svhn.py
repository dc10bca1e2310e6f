"""SVHN: learn from 26,000 digits of the training set; the other 47,257 are private, the test set is whole.

    python -m experiments.svhn represent --seed 12         # the same for 14 to 17; 11 and 13 were run too
    cp runs/svhn-12/features.npz experiments/features/svhn-12.npz
    python -m experiments.together svhn                    # from here on a CPU
    python -m experiments.labelling svhn
    python -m experiments.labelling svhn --stem svhn-12 --only central-s500-k1-eps0.1 \\
        --released runs/svhn-12/released.npz
    python -m experiments.svhn teach --seed 12 --released runs/svhn-12/released.npz

Views never mirror a digit and never turn it far; colours may be anything, inverted ones too. Ten clusters would follow
colours and neighbours as much as digits, so there is no SCAN here: many clusters are asked about instead. Epochs were
set by the GPU time that was left, before any result on this data set was seen.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.vision import Recipe, main
from recordwise.vision.augment import Augment
from recordwise.vision.self_label import SelfLabel
from recordwise.vision.self_supervised import Byol

VIEW = Augment(
    size=24, crop=(0.5, 1.0), rotate=15, shear=0.2, geometry=0.7,
    brightness=0.5, contrast=0.5, saturation=0.5, hue=0.3, jitter=0.9, gray=0.3, invert=0.5,
)  # fmt: skip
STRONG = Augment(
    rotate=25, shear=0.3, zoom=0.2, shift=0.1, geometry=0.6,
    brightness=0.5, contrast=0.5, saturation=0.5, hue=0.3, jitter=0.8, gray=0.1, invert=0.2, posterize=0.2, cutout=12,
)  # fmt: skip
WEAK = Augment(shift=0.06)
STUDENT = SelfLabel(epochs=60, strong=STRONG, weak=WEAK)

RECIPE = Recipe(
    byol=Byol(epochs=250, prototype_epochs=0, view=VIEW),
    scan=None, self_label=STUDENT, rounds=0, student=STUDENT, mirror=False, dims=34,
)  # fmt: skip
SMALL = replace(
    RECIPE,
    agreement=0.0,
    byol=Byol(epochs=2, prototype_epochs=0, width=16, hidden=256, view=VIEW),
    student=replace(STUDENT, epochs=3, trusting_epochs=1),
)

if __name__ == "__main__":
    main("svhn", RECIPE, SMALL)
