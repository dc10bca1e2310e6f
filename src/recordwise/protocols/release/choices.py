"""A class per query, chosen privately, and no counts: one by one, or all together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Doubles
from recordwise.errors import InvalidInput, positive
from recordwise.privacy.guarantee import Guarantee, exact
from recordwise.privacy.noise import SeededNoise, chance_of_the_best, chance_of_the_matching, exponential_matching
from recordwise.protocols.release.purity import BETWEEN_EQUALS, Evidence, tried_purities
from recordwise.protocols.release.release import Undecoded
from recordwise.votes.ballot import Ballot

STRENGTHS = np.geomspace(0.25, 16, 7)  # records per query, in scales, that are tried when their number is not known
SMALLEST_SCALE = 1e-150  # below it every choice is sure; a lead in such scales still is a float


@dataclass(frozen=True, eq=False)
class Choices(Undecoded):
    """One class per query, chosen privately, without counts; safe to publish.

    Attributes:
      chosen: (s,) classes.
      scale: Permute-and-flip accepted a class at a deficit of g votes with probability exp(-g / scale).
    """

    chosen: NDArray[np.int64]
    scale: Fraction

    def scores(self) -> NDArray[np.float64]:
        return np.eye(self.ballot.num_classes)[self.chosen]

    def evidence(self, query_shares: Doubles, num_records: int | None) -> Evidence:
        records, purities, lead = self._leads(query_shares, num_records)
        right = chance_of_the_best(lead, self.ballot.num_classes)
        wrong = (1 - right) / max(1, self.ballot.num_classes - 1)
        tiny = np.finfo(float).tiny
        return self._evidence(query_shares, np.log(right + tiny), np.log(wrong + tiny), purities, records)

    def simulated(self, counts: NDArray[np.float64], rng: np.random.Generator) -> Self:
        # Permute-and-flip has the law of the largest count plus exponential noise.
        noisy = counts + rng.exponential(float(self.scale), counts.shape)
        return replace(self, chosen=noisy.argmax(axis=1).astype(np.int64))

    def check(self) -> None:
        check_chosen(self.ballot, self.chosen)
        positive(scale=self.scale)

    def parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"scale": str(self.scale)}, {"array": self.chosen}

    @classmethod
    def from_parts(
        cls, ballot: Ballot, guarantee: Guarantee, about: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Self:
        return cls(ballot, guarantee, whole_numbers(arrays["array"]), exact(about["scale"], "scale"))

    def _leads(self, shares: Doubles, num_records: int | None) -> tuple[Doubles | None, Doubles, Doubles]:
        """(s,) the queries' records, (R,) purities tried, and (s, R) the lead of a query's class with each, in scales.

        Where the number of records is not known, several numbers are tried as well.
        """
        num_classes, scale = self.ballot.num_classes, max(float(self.scale), SMALLEST_SCALE)
        if num_records is not None:
            records = num_records * self.ballot.votes_per_record * shares
            strengths = (records / scale)[:, None]
        else:
            records = None
            strengths = (shares * len(shares))[:, None] * STRENGTHS
        purity = tried_purities(num_classes)
        lead = strengths[:, :, None] * (purity - (1 - purity) / max(1, num_classes - 1))  # over each rival
        return records, np.tile(purity, strengths.shape[1]), lead.reshape(len(shares), -1)

    def _evidence(
        self, shares: Doubles, right: Doubles, wrong: Doubles, purities: Doubles, records: Doubles | None
    ) -> Evidence:
        """From (s, R) log-likelihoods of what was chosen: if it is the query's label, and if another one is."""
        num_classes = self.ballot.num_classes
        chosen = np.eye(num_classes, dtype=bool)[self.chosen]
        return Evidence(
            by_purity=np.where(chosen[:, :, None], right[:, None, :], wrong[:, None, :]),
            purities=purities,
            records=records,
            class_shares=shares @ chosen,
            class_variance=float((shares**2).sum()) * (1 - 1 / num_classes) / num_classes,
        )


@dataclass(frozen=True, eq=False)
class Matched(Choices):
    """One class per query, all different, chosen together; safe to publish.

    Attributes:
      scale: A matching with g votes less than another was chosen exp(-g / scale) times as often.
    """

    @property
    def decoders(self) -> tuple[str, ...]:
        # It says nothing about labels that are not all different, so those are decoded together.
        return ("assignment", "model-average", "field", "argmax", "posterior")

    def evidence(self, query_shares: Doubles, num_records: int | None) -> Evidence:
        """The probability of the whole matching, shared out evenly: every query that is wrong costs its own lead.

        All queries' likelihoods then multiply to the exact one where queries are equally large and pure.
        """
        num_classes, (records, purities, lead) = self.ballot.num_classes, self._leads(query_shares, num_records)
        right = np.log(chance_of_the_matching(lead, num_classes)) / num_classes
        return self._evidence(query_shares, right, right - np.maximum(lead, BETWEEN_EQUALS), purities, records)

    def simulated(self, counts: NDArray[np.float64], rng: np.random.Generator) -> Self:
        noise = SeededNoise(int(rng.integers(1 << 32)))
        return replace(self, chosen=exponential_matching(counts.astype(np.int64), self.scale, noise))

    def check(self) -> None:
        super().check()
        check_different(self.ballot, self.chosen)


def whole_numbers(held: NDArray[Any]) -> NDArray[np.int64]:
    """Classes as they were packed; a `TypeError` where the array holds anything but whole numbers."""
    return held.astype(np.int64, casting="safe")


def check_chosen(ballot: Ballot, chosen: NDArray[np.int64]) -> None:
    if chosen.shape != (ballot.num_queries,) or not ((chosen >= 0) & (chosen < ballot.num_classes)).all():
        raise InvalidInput(
            f"chosen must be one of {ballot.num_classes} classes for each of {ballot.num_queries} queries"
        )


def check_different(ballot: Ballot, chosen: NDArray[np.int64]) -> None:
    if len(set(chosen.tolist())) < ballot.num_queries:
        raise InvalidInput("chosen must be all different where every class was matched with one query")
