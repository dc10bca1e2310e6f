"""Before there is a pool: a rough answer from sizes and the law of the noise alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from recordwise.errors import InvalidInput, some_records, whole
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.terms import Terms
from recordwise.randomness import seeded
from recordwise.votes import Ballot

FACTORS = (1, 2, 4, 7, 10, 20, 50, 100, 200)
PURITY, AT = 0.9, 10  # the guess when nobody makes one: clusters 90 % pure at ten queries per class
GROWTH = 0.25  # what is impure falls with the fourth root of the number of queries: between digits and photographs
QUERIES = 2_000  # drawn for each answer


@dataclass(frozen=True, kw_only=True)
class Rough:
    """What to expect of one number of queries, each read on its own.

    Attributes:
      label_accuracy: Share of the samples whose query gets their class.
      without_noise: The same with no noise: what clusters so pure allow.
    """

    num_queries: int
    votes_per_record: int
    label_accuracy: float
    without_noise: float
    noise_std: float
    votes_per_query: float


@dataclass(frozen=True, kw_only=True)
class RoughPlan:
    """Rough predictions, and the number of queries whose labels are right most often."""

    recommended: Rough
    considered: tuple[Rough, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"rough": True, **asdict(self)}

    def as_text(self) -> str:
        lines = [
            "Rough: no pool was looked at. `recordwise plan job.toml` looks at it, and predicts with an interval.",
            "",
            "   queries  votes each  labels right  without noise  noise (std)  votes per query",
        ]
        for one in self.considered:
            mark = "->" if one == self.recommended else "  "
            lines.append(
                f"{mark} {one.num_queries:>7}  {one.votes_per_record:>10}  {100 * one.label_accuracy:>10.1f} %  "
                f"{100 * one.without_noise:>11.1f} %  {one.noise_std:>11.1f}  {one.votes_per_query:>15.1f}"
            )
        return "\n".join(lines)


def rough_plan(
    terms: Terms,
    *,
    num_records: int,
    num_classes: int,
    labels_per_record: int = 1,
    num_queries: Sequence[int] | None = None,
    votes_per_record: Sequence[int] | None = None,
    purity: float = PURITY,
) -> RoughPlan:
    """A rough plan for records and classes whose numbers are known, and nothing else.

    Queries are taken to be equally large, and each to be read on its own, so small budgets look worse than they are.

    Args:
      purity: A public guess: the share of a query's records that carry its commonest class, at ten queries per class.
    """
    some_records(num_records=num_records)
    whole(num_classes=num_classes)
    if num_classes < 2:
        raise InvalidInput(f"num_classes must be >= 2 for a plan, with fewer no label can be wrong, got {num_classes}")
    if not 1 / num_classes < purity <= 1:
        raise InvalidInput(f"purity must lie in (1/{num_classes}, 1], got {purity!r}")
    factors = (1,) if terms.one_query_per_class else FACTORS
    sizes = [num_classes * factor for factor in factors] if num_queries is None else list(num_queries)
    found = [
        _roughly(terms, num_records, num_classes, labels_per_record, size, votes, purity)
        for votes in votes_per_record or (1,)
        for size in sizes
    ]
    best = max(found, key=lambda one: one.label_accuracy)
    return RoughPlan(recommended=best, considered=tuple(found))


def _roughly(
    terms: Terms, num_records: int, num_classes: int, labels_per_record: int, size: int, votes: int, purity: float
) -> Rough:
    ballot = Ballot(
        num_queries=size, num_classes=num_classes, votes_per_record=votes, labels_per_record=labels_per_record
    )
    protocol = terms.protocols(ballot, num_records)[0]
    impure = min((1 - purity) * (AT * num_classes / size) ** GROWTH, 1 - 1 / num_classes)
    shares = np.full(num_classes, impure / (num_classes - 1))
    shares[0] = 1 - impure
    each = num_records * votes / size
    rng, noise = seeded(0, "planner", "rough"), SeededNoise(0)
    right = []
    for _ in range(max(1, round(QUERIES / size))):
        label = np.arange(size) % num_classes
        counts = rng.poisson(each * np.stack([np.roll(shares, one) for one in label]))
        chosen = protocol.release_of(counts, num_records, noise).scores().argmax(axis=1)
        right.append(np.where(chosen == label, 1 - impure, impure / (num_classes - 1)).mean())
    return Rough(
        num_queries=size,
        votes_per_record=votes,
        label_accuracy=float(np.mean(right)),
        without_noise=1 - impure,
        noise_std=protocol.noise_std(num_records),
        votes_per_query=each,
    )
