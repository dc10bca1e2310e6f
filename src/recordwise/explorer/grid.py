"""What to expect of every choice that the page offers: a cell for each trust, number of queries and epsilon.

A cell is the planner's own prediction, so it is what `recordwise plan` says of the same settings. Where votes do not
stand out from their noise at all, the planner tries no more queries, and a cell says so instead.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from threadpoolctl import threadpool_limits

from recordwise.errors import RecordwiseError
from recordwise.planner import Outlook, predict
from recordwise.planner.outlook import PER_QUERY
from recordwise.planner.searching import HOPELESS
from recordwise.privacy.guarantee import Trust, exact, members
from recordwise.protocols.terms import Terms
from recordwise.settings import AUTO
from recordwise.votes import Ballot

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
FACTORS = (1, 2, 4, 10, 20, 50)  # queries per class
MOST_QUERIES = 1000  # more take minutes to simulate, each
FEWEST_PARTIES = 2  # of distributed trust, where the job names none

At = tuple[int, int, int]  # the places of a trust, a number of queries and an epsilon among the stops


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One kind of trust under the job's terms.

    Attributes:
      terms: None where the job's other terms cannot be kept under this trust.
      refused: Why not.
    """

    trust: Trust
    terms: Terms | None
    refused: str = ""

    def __post_init__(self) -> None:
        members(self, trust=Trust)

    @classmethod
    def of(cls, trust: Trust, terms: Terms) -> Offer:
        """The job's own mechanism stays with the job's own trust."""
        mechanism = terms.mechanism if trust is terms.trust else AUTO
        parties = max(FEWEST_PARTIES, terms.parties) if trust is Trust.DISTRIBUTED else terms.parties
        try:
            return cls(trust=trust, terms=replace(terms, trust=trust, mechanism=mechanism, parties=parties))
        except RecordwiseError as refusal:
            return cls(trust=trust, terms=None, refused=str(refusal))


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid:
    """Predictions at the stops of three controls. Each is computed once, when it is asked for."""

    outlook: Outlook
    votes_per_record: int
    offers: tuple[Offer, ...]
    queries: tuple[int, ...]
    epsilons: tuple[float, ...]
    start: At
    cells: dict[At, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, outlook: Outlook, terms: Terms, *, num_queries: int | None, votes_per_record: int) -> Grid:
        """The stops around a job's own settings, which are among them; as many queries as a simulation has samples for.

        Args:
          num_queries: The job's own; None where the job leaves it open.
        """
        classes, most = outlook.known.num_classes, min(MOST_QUERIES, outlook.num_samples // PER_QUERY)
        sizes = {classes * factor for factor in FACTORS if classes * factor <= most}
        sizes = {size for size in sizes if size >= votes_per_record} or {min(classes, outlook.num_samples)}
        if terms.one_query_per_class:
            sizes = {classes}
        usual = sorted(sizes)[min(len(sizes) - 1, FACTORS.index(4))]  # where most searches end, or near it
        likely = usual if num_queries is None else num_queries
        epsilon = float(terms.epsilon)
        queries, epsilons = sorted(sizes | {likely}), sorted({*EPSILONS, epsilon})
        offers = tuple(Offer.of(trust, terms) for trust in Trust)
        start = list(Trust).index(terms.trust), queries.index(likely), epsilons.index(epsilon)
        return cls(
            outlook=outlook,
            votes_per_record=votes_per_record,
            offers=offers,
            queries=tuple(queries),
            epsilons=tuple(epsilons),
            start=start,
        )

    def order(self) -> list[At]:
        """All cells, those near the job's own settings first, and trust by trust."""
        trust, size, epsilon = self.start
        offered = [
            (t, q, e)
            for t, offer in enumerate(self.offers)
            for q in range(len(self.queries))
            for e in range(len(self.epsilons))
            if offer.terms is not None
        ]
        return sorted(offered, key=lambda at: (at[0] != trust, at[0], max(abs(at[1] - size), abs(at[2] - epsilon)), at))

    def cell(self, at: At) -> dict[str, Any]:
        """The cell at these places, or why there is none."""
        if at not in self.cells:
            self.cells[at] = {"at": list(at)} | self._predicted(at)
        return self.cells[at]

    def _predicted(self, at: At) -> dict[str, Any]:
        offer, size = self.offers[at[0]], self.queries[at[1]]
        if offer.terms is None:
            return {"refused": offer.refused}
        known = self.outlook.known
        try:
            terms = replace(offer.terms, epsilon=exact(self.epsilons[at[2]]))
            ballot = Ballot(
                num_queries=size,
                num_classes=known.num_classes,
                votes_per_record=self.votes_per_record,
                labels_per_record=self.outlook.labels_per_record,
            )
            protocols = terms.protocols(ballot, self.outlook.num_records)
            noise = protocols[0].noise_std(self.outlook.num_records)
            votes = self.outlook.num_records * self.votes_per_record / size
            promised = terms.guarantee(protocols)
            public = {
                "noise": round(noise, 2),
                "votes": round(votes, 2),
                "mechanism": protocols[0].name,
                "promise": str(promised),
                "odds": promised.as_odds(),
            }
            if votes < HOPELESS * noise and at != self.start:
                return public | {"refused": "noise covers the votes"}
            with threadpool_limits(1):  # the arrays are small: more threads would only wait for each other
                one = predict(self.outlook, terms, num_queries=size, votes_per_record=self.votes_per_record)
        except RecordwiseError as refusal:
            return {"refused": str(refusal)}
        return public | {
            "student": list(asdict(one.student_accuracy).values()),
            "labels": list(asdict(one.label_accuracy).values()),
        }
