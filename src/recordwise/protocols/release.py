"""What a protocol releases: noisy counts, or just a class per query; with the law of the noise and the guarantee.

A release is kept in ledgers and sent as bytes: plain arrays and JSON, nothing that runs when it is read.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, LedgerFault
from recordwise.formats import Archive, json_from
from recordwise.privacy.guarantee import Guarantee, exact
from recordwise.privacy.noise import DiscreteGaussian, DiscreteLaplace, Normal, PolyaDifference, SumOfEstimates
from recordwise.privacy.noise.law import Law
from recordwise.votes.ballot import Ballot

LAWS: dict[str, Any] = {
    law.__name__: law for law in (DiscreteLaplace, DiscreteGaussian, PolyaDifference, Normal, SumOfEstimates)
}
KINDS: dict[str, type[Release]] = {}


@dataclass(frozen=True, eq=False)
class Release(ABC):
    """What is published about one ballot. A subclass is one kind of release, known by its class name."""

    ballot: Ballot
    guarantee: Guarantee

    def __init_subclass__(cls) -> None:
        KINDS[cls.__name__] = cls

    @property
    def has_counts(self) -> bool:
        """Whether a student can be taught from its counts, and not only from labels."""
        return False

    @property
    @abstractmethod
    def decoders(self) -> tuple[str, ...]:
        """The decoders that can read it, the one that "auto" takes first."""

    @abstractmethod
    def scores(self) -> NDArray[np.float64]:
        """(s, C) what it says for each cell: the estimate, or one where a class was chosen."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what no protocol releases about this ballot."""

    @abstractmethod
    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Everything but ballot and guarantee, as JSON and as arrays."""

    @classmethod
    @abstractmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        """The release whose `parts` these are."""


@dataclass(frozen=True, eq=False)
class Tally(Release):
    """An unbiased s × C estimate of the votes, safe to publish.

    Attributes:
      estimate: (s, C) true count plus noise; cells can be negative.
      law: The law of each cell's noise, the same for every cell.
    """

    estimate: NDArray[np.float64]
    law: Law

    @property
    def noise_std(self) -> float:
        return self.law.std

    @property
    def has_counts(self) -> bool:
        return self.ballot.labels_per_record == 1

    @property
    def decoders(self) -> tuple[str, ...]:
        if self.ballot.labels_per_record > 1:
            return ("sets",)
        return _single_label_decoders(self.ballot)

    def scores(self) -> NDArray[np.float64]:
        return self.estimate

    def check(self) -> None:
        shape = (self.ballot.num_queries, self.ballot.num_classes)
        if self.estimate.shape != shape or not np.isfinite(self.estimate).all():
            raise InvalidInput(f"estimate must be finite with shape {shape}, got {self.estimate.shape}")

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"law": type(self.law).__name__, "parameters": _plain(self.law)}, {"array": self.estimate}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        parameters = {name: exact(v, name) if isinstance(v, str) else v for name, v in about["parameters"].items()}
        return cls(ballot, guarantee, arrays["array"], LAWS[about["law"]](**parameters))


@dataclass(frozen=True, eq=False)
class Choices(Release):
    """One class per query, chosen privately, without counts; safe to publish.

    Attributes:
      chosen: (s,) classes.
      scale: Permute-and-flip accepted a class at a deficit of g votes with probability exp(-g / scale).
    """

    chosen: NDArray[np.int64]
    scale: Fraction

    @property
    def decoders(self) -> tuple[str, ...]:
        return _single_label_decoders(self.ballot)

    def scores(self) -> NDArray[np.float64]:
        return np.eye(self.ballot.num_classes)[self.chosen]

    def check(self) -> None:
        _check_chosen(self.ballot, self.chosen)

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"scale": str(self.scale)}, {"array": self.chosen}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        return cls(ballot, guarantee, arrays["array"], exact(about["scale"], "scale"))


@dataclass(frozen=True, eq=False)
class Matched(Choices):
    """One class per query, all different, chosen together; safe to publish.

    Attributes:
      scale: A matching with g votes less than another was chosen exp(-g / scale) times as often.
    """

    @property
    def decoders(self) -> tuple[str, ...]:
        # It says nothing about labels that are not all different, so those are decoded together.
        return ("assignment", "matching", "field", "argmax", "posterior")

    def check(self) -> None:
        super().check()
        _check_different(self.ballot, self.chosen)


@dataclass(frozen=True, eq=False)
class Assigned(Release):
    """One class per query, all different, and how likely each class is for each query; safe to publish.

    Attributes:
      chosen: (s,) classes, s = C.
      probabilities: (s, C) of each label, every row a distribution, under the model by which it was chosen.
      purity: The expected share of a query's records that carry its label.
    """

    chosen: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    purity: float

    decoders: ClassVar[tuple[str, ...]] = ("assigned",)

    def scores(self) -> NDArray[np.float64]:
        return np.eye(self.ballot.num_classes)[self.chosen]

    def check(self) -> None:
        _check_chosen(self.ballot, self.chosen)
        _check_different(self.ballot, self.chosen)

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"purity": self.purity}, {"array": self.chosen, "probabilities": self.probabilities}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        return cls(ballot, guarantee, arrays["array"], arrays["probabilities"], float(about["purity"]))


def _single_label_decoders(ballot: Ballot) -> tuple[str, ...]:
    """Those that give one class to each query need as many queries as classes."""
    any_number = ("field", "argmax", "posterior")
    return ("matching", *any_number, "assignment") if ballot.num_queries == ballot.num_classes else any_number


Undecoded = Tally | Choices  # what labels are yet to be inferred from


def pack(release: Release) -> bytes:
    """A release as bytes, for the ledger and the wire."""
    own, arrays = release.parts()
    about = {
        "release": type(release).__name__,
        "ballot": _plain(release.ballot),
        "guarantee": release.guarantee.to_json(),
        **own,
    }
    file = io.BytesIO()
    np.savez(file, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpack(content: bytes) -> Release:
    """The release that `pack` wrote."""
    try:
        with Archive(content, what="the release") as file:
            arrays = dict(file)
        about = json_from(arrays.pop("about").tobytes())
        ballot, guarantee = Ballot(**about["ballot"]), Guarantee(**about["guarantee"])
        return KINDS[about["release"]].from_parts(ballot, guarantee, about, arrays)
    except (ValueError, KeyError, TypeError, OSError) as fault:
        raise LedgerFault(f"a release could not be read back: {fault}") from fault


def _check_chosen(ballot: Ballot, chosen: NDArray[np.int64]) -> None:
    if chosen.shape != (ballot.num_queries,) or not ((chosen >= 0) & (chosen < ballot.num_classes)).all():
        raise InvalidInput(
            f"chosen must be one of {ballot.num_classes} classes for each of {ballot.num_queries} queries"
        )


def _check_different(ballot: Ballot, chosen: NDArray[np.int64]) -> None:
    if len(set(chosen.tolist())) < ballot.num_queries:
        raise InvalidInput("chosen must be all different where every class was matched with one query")


def _plain(value: Any) -> dict[str, Any]:
    """A dataclass of numbers and names as JSON: fractions become strings, everything else stays as it is."""
    shown = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: str(one) if isinstance(one, Fraction) else one for name, one in shown.items()}
