"""What every kind of release answers for itself: whoever decodes, teaches or reports asks it, and not what kind it is.

A release is kept in ledgers and sent as bytes: plain arrays and JSON, nothing that runs when it is read.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.errors import InvalidInput, LedgerFault
from recordwise.formats import Archive, json_from
from recordwise.privacy.guarantee import Guarantee
from recordwise.protocols.release.purity import Evidence
from recordwise.votes.ballot import Ballot

if TYPE_CHECKING:
    from recordwise.protocols.release.tally import Tally

KINDS: dict[str, type[Release]] = {}


@dataclass(frozen=True, eq=False)
class Release(ABC):
    """What is published about one ballot. A subclass is one kind of release, known by its class name."""

    ballot: Ballot
    guarantee: Guarantee

    def __init_subclass__(cls) -> None:
        if ABC in cls.__bases__:  # what several kinds share is no kind
            return
        if KINDS.setdefault(cls.__name__, cls).__module__ != cls.__module__:
            raise InvalidInput(f"a kind of release must have a name of its own, {cls.__name__} is taken")
        KINDS[cls.__name__] = cls

    @property
    @abstractmethod
    def decoders(self) -> tuple[str, ...]:
        """The decoders that can read it, the one that "auto" takes first."""

    @abstractmethod
    def scores(self) -> NDArray[np.float64]:
        """(s, C) what it says for each cell: the estimate, or one where a class was chosen."""

    @property
    def tally(self) -> Tally | None:
        """The noisy counts it holds; None where it shows none."""
        return None

    @property
    def has_counts(self) -> bool:
        """Whether a student can be taught from its counts, and not only from labels."""
        return self.tally is not None and self.ballot.labels_per_record == 1

    @property
    def shows_purity(self) -> bool:
        """Whether it says how many of a query's records have its label; if not, that is a guess."""
        return self.tally is not None

    def figures(self) -> dict[str, Any]:
        """What a report shows of it, as JSON: of counts, their noise and each query's lead.

        One phrase under "words" stands on the report's page.
        """
        tally = self.tally
        if tally is None:
            return {}
        largest = np.sort(tally.estimate, axis=1)[:, ::-1]
        second = largest[:, 1] if largest.shape[1] > 1 else 0.0  # one class is no contest
        return {
            "noise_std": tally.noise_std,
            "law": type(tally.law).__name__,
            "gaps": np.round(largest[:, 0] - second, 2).tolist(),
            "tally": np.round(tally.estimate, 2).tolist(),
        }

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


class Undecoded(Release, ABC):
    """A release from which labels are yet to be inferred: it says how likely it is, and what others would look like."""

    @property
    def decoders(self) -> tuple[str, ...]:
        any_number = ("field", "argmax", "posterior")
        # Those that give one class to each query need as many queries as classes.
        as_many = self.ballot.num_queries == self.ballot.num_classes
        return ("model-average", *any_number, "assignment") if as_many else any_number

    @abstractmethod
    def evidence(self, query_shares: Doubles, num_records: int | None) -> Evidence:
        """What it says about each query on its own.

        Args:
          query_shares: (s,) the part of the pool that belongs to each query.
          num_records: How many records voted, where that is public.
        """

    @abstractmethod
    def simulated(self, counts: NDArray[np.float64], rng: np.random.Generator) -> Self:
        """A release of other counts, by the same law: good enough to try a decoder out, not to protect."""


def pack(release: Release) -> bytes:
    """A release as bytes, for the ledger and the wire."""
    own, arrays = release.parts()
    about = {
        "release": type(release).__name__,
        "ballot": plain(release.ballot),
        "guarantee": release.guarantee.to_json(),
        **own,
    }
    file = io.BytesIO()
    np.savez(file, about=np.frombuffer(json.dumps(about).encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def unpack(content: bytes) -> Release:
    """The release that `pack` wrote; whatever else the bytes hold is refused, and runs nothing."""
    try:
        with Archive(content, what="the release") as file:
            arrays = dict(file)
        about = json_from(arrays.pop("about").tobytes())
        ballot, guarantee = Ballot(**about["ballot"]), Guarantee(**about["guarantee"])
        release = KINDS[about["release"]].from_parts(ballot, guarantee, about, arrays)
        release.check()
        return release
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError) as fault:
        raise LedgerFault(f"a release could not be read back: {fault}") from fault


def plain(value: Any) -> dict[str, Any]:
    """A dataclass of numbers and names as JSON: fractions become strings, everything else stays as it is."""
    shown = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: str(one) if isinstance(one, Fraction) else one for name, one in shown.items()}
