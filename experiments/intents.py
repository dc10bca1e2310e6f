"""Short texts: CLINC150 (CC BY 3.0) and BANKING77 (CC BY 4.0) by what is asked for, film reviews by what they think.

`clinc10` is CLINC150 by domain, `clinc150` by intent, `banking77` by intent. Out-of-scope questions are left out. The
official test set stays the test set; the rest is shuffled once and cut into a public pool and private records.
`reviews` are the sentences of Pang and Lee (2005, sentence polarity 1.0), half of them praise; they come without a test
set, so what is over is the test set.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recordwise.arrays import Ints
from recordwise.data.source import Remote, data_root, fetch, verified
from recordwise.randomness import seeded

CLINC = "https://raw.githubusercontent.com/clinc/oos-eval/828f8093932c8fe6ca7936c3d2e52903b1c523de/data/"
POLYAI = (
    "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/57ec275d8078af65b7731c2a98be812d844a6d6b/"
    "banking_data/"
)
PANG_LEE = (
    "https://raw.githubusercontent.com/dennybritz/cnn-text-classification-tf/18762b459e21d9c70e5c242f8d43fc4e6db37a0d/"
    "data/rt-polaritydata/"
)
REMOTES = {
    "clinc150": (
        Remote(name="data_full.json", urls=(f"{CLINC}data_full.json",), md5="30c29dc6ab78edf3b5dfa640be204cde"),
        Remote(name="domains.json", urls=(f"{CLINC}domains.json",), md5="9beee9d0f36e07e914c1e3a626bdcb4a"),
    ),
    "banking77": (
        Remote(name="train.csv", urls=(f"{POLYAI}train.csv",), md5="cec64185f4197906aabce0781ef9a19b"),
        Remote(name="test.csv", urls=(f"{POLYAI}test.csv",), md5="8dcd9dc31b686c75ec1f24bf23c140cb"),
    ),
    "reviews": (
        Remote(name="rt-polarity.neg", urls=(f"{PANG_LEE}rt-polarity.neg",), md5="efd38e162b1a4ede8fbf024de182eb4a"),
        Remote(name="rt-polarity.pos", urls=(f"{PANG_LEE}rt-polarity.pos",), md5="819e2ab972d5f1314804c62921cf21a8"),
    ),
}
POOLS = {
    "clinc10": (3000, 4498),
    "clinc10-large": (9000, 9000),
    "clinc150": (9000, 9000),
    "banking77": (4000, 6003),
    "reviews": (3000, 5500),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Texts and their classes."""

    texts: list[str]
    labels: Ints

    def some(self, index: Ints) -> Part:
        return Part(texts=[self.texts[i] for i in index], labels=self.labels[index])


@dataclass(frozen=True, kw_only=True, eq=False)
class Intents:
    """A data set in three parts."""

    public: Part
    private: Part
    test: Part
    classes: tuple[str, ...]


def intents(name: str, folder: str | Path | None = None) -> Intents:
    """One of POOLS, cut; files that $RECORDWISE_DATA lacks are downloaded into it."""
    source = name if name in REMOTES else "clinc150"
    home = data_root(source, folder) / source
    fetch(REMOTES[source], home)
    files = [verified(home / remote.name, remote.md5) for remote in REMOTES[source]]
    test: Part | None
    if source == "clinc150":
        rest, test, classes = _clinc(files, by_domain=name != "clinc150")
    else:
        rest, test, classes = _banking(files) if source == "banking77" else _reviews(files)
    order = seeded(0, "intents").permutation(len(rest.texts))
    public, private = POOLS[name]
    ours, theirs = rest.some(order[:public]), rest.some(order[public : public + private])
    return Intents(public=ours, private=theirs, test=test or rest.some(order[public + private :]), classes=classes)


def _clinc(files: list[Path], *, by_domain: bool) -> tuple[Part, Part, tuple[str, ...]]:
    parts, domains = (json.loads(file.read_text()) for file in files)
    called = {intent: domain if by_domain else intent for domain, every in domains.items() for intent in every}
    classes = tuple(sorted(set(called.values())))
    rest, test = (
        _part([(text, called[intent]) for part in some for text, intent in parts[part]], classes)
        for some in (("train", "val"), ("test",))
    )
    return rest, test, classes


def _banking(files: list[Path]) -> tuple[Part, Part, tuple[str, ...]]:
    read = []
    for file in files:
        with file.open(newline="", encoding="utf-8") as lines:
            read.append([(row["text"], row["category"]) for row in csv.DictReader(lines)])
    classes = tuple(sorted({category for _, category in read[0]}))
    return _part(read[0], classes), _part(read[1], classes), classes


def _reviews(files: list[Path]) -> tuple[Part, None, tuple[str, ...]]:
    classes = ("blame", "praise")
    read = zip(classes, files, strict=True)
    pairs = [(text, name) for name, file in read for text in file.read_text(encoding="utf-8").splitlines()]
    return _part(pairs, classes), None, classes


def _part(pairs: list[tuple[str, str]], classes: tuple[str, ...]) -> Part:
    number = {name: place for place, name in enumerate(classes)}
    return Part(texts=[text for text, _ in pairs], labels=np.array([number[name] for _, name in pairs]))
