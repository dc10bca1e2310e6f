"""Data sets as experiments with students meet them: vectors and labels of pool, records and test.

The method was developed on these sets. "abstaining" is a generated table, 94 : 6, in which 23 % of the records abstain
because they coincide with a pool row, more of them where the common class lies dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from experiments.sources import ALL, Source, read_features
from recordwise.arrays import Floats, Ints
from recordwise.data import Rule, load, parts_of
from recordwise.encoders import encode, encoder_from
from recordwise.randomness import seeded

FEATURES = Path(__file__).parent / "features"
IMAGES = ("cifar10", "svhn", "mnist")
PARTS = ("public", "private", "test")
NOBODY = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class Bed:
    """Vectors and labels of the three parts; which records abstain. Pool labels are for measuring."""

    pool: NDArray[np.float32]
    records: Floats
    test: Floats
    pool_labels: Ints
    record_labels: Ints
    test_labels: Ints
    abstaining: Ints
    encoder: str

    @property
    def num_classes(self) -> int:
        return int(self.pool_labels.max()) + 1


class Same:
    """An encoder that changes nothing: the vectors of a bed are encoded already."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def fit(self, pool: Any, y: object = None) -> Same:
        return self

    def transform(self, samples: Any) -> Any:
        return samples


def bed_of(data: str) -> Bed:
    if data in IMAGES:
        features = read_features(Source(data=data, way="together", rule=Rule.CLEAN), ALL, FEATURES)
        vectors, labels = ([parts[part] for part in PARTS] for parts in (features.vectors, features.labels))
        return bed_from(vectors, labels, "self-supervised on the pool")
    if data == "adult":
        parts = parts_of(load("adult"), Rule.CLEAN)
        encoder = encoder_from("table", parts.public.samples, seed=0).fit(parts.public.samples)
        three = (parts.public, parts.private, parts.test)
        return bed_from([encode(encoder, part.samples) for part in three], [part.labels for part in three], "table")
    if data == "digits":
        images, classes = load_digits(return_X_y=True)
        order = seeded(0, "digits").permutation(len(images))
        cuts = [order[:600], order[600:1300], order[1300:]]
        return bed_from([images[cut] / 16 for cut in cuts], [classes[cut] for cut in cuts], "pixels")
    return _abstaining_bed()


def bed_from(vectors: Sequence[Any], labels: Sequence[Any], encoder: str, abstaining: Ints = NOBODY) -> Bed:
    """From the parts in order: pool, records, test."""
    pool, records, test = (np.asarray(part, dtype=np.float32) for part in vectors)
    return Bed(
        pool=pool, records=records, test=test,
        pool_labels=labels[0], record_labels=labels[1], test_labels=labels[2],
        abstaining=abstaining, encoder=encoder,
    )  # fmt: skip


def _abstaining_bed() -> Bed:
    """94 : 6 in ten rounded columns; the common class lies denser, so its records more often equal a pool row."""
    rng = seeded(0, "abstaining")
    vectors, labels = [], []
    for size in (30_000, 60_000, 20_000):
        rare = rng.random(size) < 0.06
        x = rng.normal(size=(size, 10)) * np.where(rare[:, None], 1.0, 0.45)
        x[:, :4] += 0.9 * rare[:, None]
        vectors.append(x.round(0) + 0.0)  # no negative zeros: rows are compared by their bytes
        labels.append(rare.astype(np.int64))
    known = {row.tobytes() for row in vectors[0]}
    dense = np.array([row.tobytes() in known for row in vectors[1]])
    some = dense & (rng.random(len(dense)) < 0.23 / dense.mean())
    jitter = [x + rng.normal(size=x.shape) * 0.1 for x in vectors]
    return bed_from(jitter, labels, "none", np.flatnonzero(some))
