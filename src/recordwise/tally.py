"""What a protocol releases: noisy counts, or just a class per query; with the law of the noise and the guarantee."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.privacy.guarantee import Guarantee, Neighbours, Trust, Unit
from recordwise.privacy.noise.law import Law
from recordwise.votes.ballot import Ballot


@dataclass(frozen=True, eq=False)
class Tally:
    """An unbiased s × C estimate of the votes, safe to publish.

    Attributes:
      estimate: (s, C) true count plus noise; cells can be negative.
      law: The law of each cell's noise, the same for every cell.
    """

    ballot: Ballot
    guarantee: Guarantee
    estimate: NDArray[np.float64]
    law: Law

    @property
    def noise_std(self) -> float:
        return self.law.std


@dataclass(frozen=True, eq=False)
class Choices:
    """One class per query, chosen privately, without counts; safe to publish.

    Attributes:
      chosen: (s,) classes.
      scale: Permute-and-flip accepted a class at a deficit of g votes with probability exp(-g / scale).
    """

    ballot: Ballot
    guarantee: Guarantee
    chosen: NDArray[np.int64]
    scale: Fraction


Release = Tally | Choices


def pack(release: Release) -> bytes:
    """A release as bytes, for the ledger: plain arrays and JSON, nothing that runs when it is read."""
    guarantee = {name: str(value) for name, value in vars(release.guarantee).items()}
    about: dict[str, Any] = {"kind": type(release).__name__, "ballot": vars(release.ballot), "guarantee": guarantee}
    if isinstance(release, Tally):
        law = {name: str(value) for name, value in vars(release.law).items()}
        about |= {"law": {"name": type(release.law).__name__, **law}}
        array: NDArray[Any] = release.estimate
    else:
        about |= {"scale": str(release.scale)}
        array = release.chosen
    file = io.BytesIO()
    np.savez(file, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), array=array)
    return file.getvalue()


def unpack(content: bytes) -> Release:
    """The release that `pack` wrote."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        about, array = json.loads(file["about"].tobytes()), file["array"]
    ballot = Ballot(**about["ballot"])
    told = about["guarantee"]
    guarantee = Guarantee(
        epsilon=Fraction(told["epsilon"]),
        delta=Fraction(told["delta"]),
        neighbours=Neighbours(told["neighbours"]),
        trust=Trust(told["trust"]),
        unit=Unit(told["unit"]),
        honest_parties=None if told["honest_parties"] == "None" else int(told["honest_parties"]),
        private=told["private"] == "True",
    )
    if about["kind"] == "Choices":
        return Choices(ballot, guarantee, array, Fraction(about["scale"]))
    law = dict(about["law"])
    return Tally(ballot, guarantee, array, LAWS[law.pop("name")](**{name: Fraction(v) for name, v in law.items()}))
