"""The committed features: which there are, and how to read them for either split."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments import compact
from recordwise.arrays import Ints
from recordwise.data import Rule, split_of

ALL = "all"  # in place of a seed, where all stand side by side


@dataclass(frozen=True, kw_only=True)
class Source:
    """One way in which features were learnt: what a feature file's name says.

    Attributes:
      way: "" is one seed, "agreed" one seed sharpened by what several agree on, "together" all seeds side by side,
        "one-less" all but one, "pretrained" an encoder that others trained, "with-pretrained" that one and all seeds
        side by side.
    """

    data: str
    way: str
    rule: Rule

    @property
    def stem(self) -> str:
        return f"{self.data}-{self.way}" if self.way else self.data

    def seeds(self, folder: Path) -> list[str]:
        """Files are called stem-seed.npz (of one less, the seed left out); all seeds side by side have no number."""
        found = (re.fullmatch(rf"{self.stem}(?:-(\d+))?", path.stem) for path in folder.glob("*.npz"))
        return sorted(match[1] or ALL for match in found if match)


def sources(data: str, folder: Path) -> list[Source]:
    """All there are features for. CIFAR-10's pool is the same under both rules, so all seeds together serve both."""
    rules = list(Rule) if data == "cifar10" else [Rule.CLEAN]
    ways = ("together", "one-less", "agreed", "", "pretrained", "with-pretrained")
    every = [
        Source(data=data, way=way, rule=rule)
        for rule in rules
        for way in ways
        if way == "together" or rule is Rule.CLEAN  # the clean split says enough about seeds and other encoders
    ]
    return [source for source in every if source.seeds(folder)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Compact public features and, where a clustering made them, cluster numbers; labels of all parts."""

    source: Source
    seed: str
    vectors: dict[str, NDArray[np.float32]]
    clusters: dict[str, Ints]
    labels: dict[str, Ints]


def read_features(source: Source, seed: str, folder: Path) -> Features:
    """The features of one seed or of all, and the labels of the split's images in the same order."""
    with np.load(folder / "labels.npz") as file:
        labels = {part: file[f"{source.data}_{part}"].astype(np.int64) for part in compact.PARTS}
    path = folder / (f"{source.stem}.npz" if seed == ALL else f"{source.stem}-{seed}.npz")
    if seed == ALL or source.way == "one-less":
        with np.load(path) as file:
            clusters = {p: file[f"{p}_clusters"].astype(np.int64) for p in compact.PARTS if f"{p}_clusters" in file}
            members = [compact.read(folder / f"{member}.npz")[0] for member in file["members"]]
        vectors = {part: np.hstack([member[part] for member in members]) for part in compact.PARTS}
    else:
        vectors, clusters = compact.read(path)
    features = Features(source=source, seed=seed, vectors=vectors, clusters=clusters, labels=labels)
    return as_in_the_paper(features) if source.rule is Rule.PAPER else features


def as_in_the_paper(features: Features) -> Features:
    """CIFAR-10: 9,000 images of the official test set join the private records, 1,000 are left for the test."""
    clean, paper = split_of("cifar10", Rule.CLEAN), split_of("cifar10", Rule.PAPER)
    left = np.isin(clean.test, paper.test)

    def dealt(parts: dict[str, Any]) -> dict[str, Any]:
        return parts and {
            "public": parts["public"],
            "private": np.concatenate([parts["private"], parts["test"][~left]]),
            "test": parts["test"][left],
        }

    return replace(
        features, vectors=dealt(features.vectors), clusters=dealt(features.clusters), labels=dealt(features.labels)
    )
