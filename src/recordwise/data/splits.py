"""Which samples of a named data set are public, private and test: fixed, disjoint, hashed (SPEC section 6).

Two rules. `CLEAN` takes the pool and the private records from the training set and keeps the whole official test set
for the test. `PAPER` follows arXiv 2207.13253, which takes its pool (MNIST, SVHN) or some private records (CIFAR-10)
from the test set too; it is here to compare with published figures only. (The paper says 26k of SVHN's test set for the
pool and the remaining 1k for the test; the set has 26,032, so the pool gets 25,032.)
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from recordwise.arrays import Ints
from recordwise.data.named import DataSet
from recordwise.data.overlap import copies
from recordwise.data.samples import Loaded, rows
from recordwise.errors import InvalidInput
from recordwise.randomness import seeded


class Rule(StrEnum):
    CLEAN = "clean"
    PAPER = "paper"


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Row numbers of the three parts; the test set's rows are counted on after those of the training set.

    Guarantees:
      - no row is in two parts;
      - the same on every machine: `digest` of each named split is written down here and compared.
    """

    public: Ints
    private: Ints
    test: Ints

    def __post_init__(self) -> None:
        together = np.concatenate([self.public, self.private, self.test])
        if len(np.unique(together)) != len(together):
            raise InvalidInput("the parts of a split must be disjoint, some row is in two of them")

    @property
    def digest(self) -> str:
        """SHA-256 of the three lists of row numbers."""
        sha = hashlib.sha256()
        for part in (self.public, self.private, self.test):
            sha.update(f"{len(part)}:".encode() + part.astype("<i8").tobytes())
        return sha.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """A data set after its split. The pool's labels are there to measure label accuracy, never to train on."""

    public: Loaded
    private: Loaded
    test: Loaded
    classes: tuple[str, ...]
    split: Split


# How many rows of (train, test) each part gets; they are dealt out in this order after one shuffle of each set, which
# is the same under both rules: CIFAR-10's pool, and what is learnt from it, serves both.
_SHARES: dict[tuple[str, Rule], dict[str, tuple[int, int]]] = {
    ("mnist", Rule.PAPER): {"public": (0, 5_000), "private": (60_000, 0), "test": (0, 5_000)},
    ("mnist", Rule.CLEAN): {"public": (30_000, 0), "private": (30_000, 0), "test": (0, 10_000)},
    ("svhn", Rule.PAPER): {"public": (0, 25_032), "private": (73_257, 0), "test": (0, 1_000)},
    ("svhn", Rule.CLEAN): {"public": (26_000, 0), "private": (47_257, 0), "test": (0, 26_032)},
    ("cifar10", Rule.PAPER): {"public": (30_000, 0), "private": (20_000, 9_000), "test": (0, 1_000)},
    ("cifar10", Rule.CLEAN): {"public": (30_000, 0), "private": (20_000, 0), "test": (0, 10_000)},
    ("adult", Rule.CLEAN): {"public": (16_280, 0), "private": (16_281, 0), "test": (0, 16_281)},
}

_DIGESTS: dict[tuple[str, Rule], str] = {
    ("mnist", Rule.PAPER): "ff6aa037081a1563db68d5f1ac69d47914d682c8fde6852ea9bb4f51ff02392c",
    ("mnist", Rule.CLEAN): "f69119172596db8ee5a963738abcc1e2845c86a965af0fa51730482633839319",
    ("svhn", Rule.PAPER): "e5c5098c67686c58d709e94ed73ffa8edc73820f0364cc4aa885d17e6d7a631d",
    ("svhn", Rule.CLEAN): "0a26dfaffcb7b5583e56e9cf823106391d4906d7d873d8a03eedccc7bda4ee41",
    ("cifar10", Rule.PAPER): "8d47379c5195de7a8891bc3bbea3cac6e6bfceebc55e58172a19ad0081cb4177",
    ("cifar10", Rule.CLEAN): "302652368b62d0db9d5e3e011aa2f0397fce4af3be8ecc03ba600cdbeabbd4e3",
    ("adult", Rule.CLEAN): "8d1df9ebf4e3bacb9ea3477d63703fea7538a56427bfc36ff1e443470287a0ec",
}


def split_of(name: str, rule: Rule) -> Split:
    """The fixed split of a named data set."""
    if (name, rule) not in _SHARES:
        known = ", ".join(f"{known} ({rule})" for known, rule in _SHARES)
        raise InvalidInput(f"there is no {rule} split of {name!r}, only {known}")
    shares = _SHARES[name, rule]
    sizes = [sum(share[part] for share in shares.values()) for part in (0, 1)]
    decks = [
        first + seeded(0, "split", name, Rule.CLEAN, part).permutation(size)  # one shuffle, whichever rule deals
        for part, first, size in zip(("train", "test"), (0, sizes[0]), sizes, strict=True)
    ]
    dealt = {}
    for part, counts in shares.items():
        hand = [deck[:count] for deck, count in zip(decks, counts, strict=True)]
        decks = [deck[count:] for deck, count in zip(decks, counts, strict=True)]
        dealt[part] = np.sort(np.concatenate(hand)).astype(np.int64)
    split = Split(**dealt)
    if split.digest != _DIGESTS[name, rule]:
        raise InvalidInput(f"the {rule} split of {name!r} must have digest {_DIGESTS[name, rule]}, got {split.digest}")
    return split


def parts_of(data: DataSet, rule: Rule) -> Parts:
    """The three parts of a data set; pool samples that are exact copies of a private or test sample are left out."""
    split = split_of(data.name, rule)
    samples = np.concatenate([data.train.samples, data.test.samples])
    labels = np.concatenate([np.asarray(data.train.labels), np.asarray(data.test.labels)])
    if len(samples) != sum(len(part) for part in (split.public, split.private, split.test)):
        raise InvalidInput(f"data set {data.name!r} must have the published number of samples, got {len(samples)}")
    elsewhere = rows(samples, np.concatenate([split.private, split.test]))
    split = Split(
        public=split.public[~copies(samples[split.public], elsewhere)], private=split.private, test=split.test
    )
    public, private, test = (
        Loaded(samples=samples[part], labels=labels[part], columns=data.train.columns)
        for part in (split.public, split.private, split.test)
    )
    return Parts(public=public, private=private, test=test, classes=data.classes, split=split)
