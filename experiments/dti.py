"""MNIST by DTI clustering: prototypes learnt from the pool's pixels alone, and what they cost.

    python -m experiments.dti --prototypes 10 --seeds 11 12 13

Each seed starts from other random digits, and the one that rebuilds the pool best is kept, which no label decides. True
labels measure purity, after the fact. Leaves runs/mnist-dti-K/: the clusters of the pool, the private records and the
test set, the prototypes, and dti.json.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from experiments.images import Images, load_images
from experiments.measuring import Log, made_by, purity
from recordwise.data import Rule
from recordwise.vision.dti import Dti, Transform, assign, cluster_by_transformation
from recordwise.vision.steps import Compute
from recordwise.vision.training import TrainingRun

EPOCHS = 150


def settings(prototypes: int, epochs: int) -> Dti:
    """Affine moves nearly from the start, then the others, each when the one before has settled."""
    return Dti(
        prototypes=prototypes,
        epochs=epochs,
        curriculum=(
            (Transform.AFFINE, epochs // 50),
            (Transform.MORPHOLOGICAL, epochs * 3 // 10),
            (Transform.THIN_PLATE, epochs * 6 // 10),
        ),
        slow_from=epochs * 9 // 10,
    )


def cluster(images: Images, dti: Dti, seeds: list[int], *, compute: Compute, folder: Path) -> None:
    """The best of several runs, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(folder / "dti.json")
    log.say(settings=repr(dti), pool=len(images.public), seeds=seeds, **made_by(compute))
    least = float("inf")
    for seed in seeds:
        errors: list[float] = []

        def tell(epoch: int, error: float, seed: int = seed, errors: list[float] = errors) -> None:
            errors.append(error)
            if (epoch + 1) % 10 == 0:
                log.say(seed=seed, epoch=epoch + 1, error=round(error, 6))

        with log.timed(f"seed{seed}"):
            model = cluster_by_transformation(
                images.public, dti, run=TrainingRun(seed=seed, compute=compute, progress=tell)
            )
        found = {part: assign(model, pixels) for part, pixels in images.parts.items()}
        log.say(
            **{
                f"seed{seed}_error": round(errors[-1], 6),
                f"seed{seed}_purity_pool": round(purity(found["public"], images.public_labels), 4),
                f"seed{seed}_purity_test": round(purity(found["test"], images.test_labels), 4),
            }
        )
        if errors[-1] < least:
            least = errors[-1]
            kept = {part: clusters.byte().cpu().numpy() for part, clusters in found.items()}
            np.savez_compressed(folder / "clusters.npz", **kept)  # type: ignore[arg-type]
            np.save(folder / "prototypes.npy", model.images.detach().half().cpu().numpy())
            log.say(kept=seed)
    log.say(finished=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="DTI clustering of MNIST's pool")
    parser.add_argument("--prototypes", type=int, default=10)
    parser.add_argument("--split", type=Rule, choices=list(Rule), default=Rule.CLEAN)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11])
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="the curriculum stretches with them")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="a few steps on a few images, to see that it runs")
    parser.add_argument("--no-record", action="store_true", help="do not replay steps as CUDA graphs")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where clusters go")
    given = parser.parse_args()
    compute = Compute(device=given.device, record=not given.no_record)
    data = "mnist" if given.split is Rule.CLEAN else f"mnist-{given.split}"
    images = load_images("mnist", given.split, given.runs / f"{data}.npz", compute, limit=256 if given.small else None)
    dti = settings(given.prototypes, 10 if given.small else given.epochs)
    cluster(images, dti, given.seeds, compute=compute, folder=given.runs / f"{data}-dti-{given.prototypes}")


if __name__ == "__main__":
    main()
