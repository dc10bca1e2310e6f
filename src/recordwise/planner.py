"""What a run will be worth, before anything is spent.

Nothing private is looked at: a made-up world with the same number of records, classes and queries, and clusters as pure
as the user guesses, goes through the real protocol's noise and the real decoder a few times. The world is a mixture of
bell curves, several to a class, drawn together until clusters of it are as pure as the guess; so it also says what
becomes of purity when more or fewer queries are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Ints
from recordwise.errors import InvalidInput, whole
from recordwise.labels import decode, neighbour_graph
from recordwise.nearest import nearest_queries
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.terms import Terms
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.votes import Ballot

PURITY, AT = 0.9, 10  # the guess when nobody makes one: clusters 90 % pure at ten queries per class
# Of the made-up world: dimensions, bell curves in all (at least four to a class), and how far apart those of one class
# lie, in units of the distance between classes. Its purity then grows with the queries as it does for digits and MNIST.
DIM, MODES, WITHIN = 6, 40, 0.6
POOL, RECORDS = 3_000, 6_000  # its samples; counts are then drawn for the real number of records
WORLDS, DRAWS = 3, 3  # made-up worlds, and runs in each
TIE = 0.003  # closer than this the made-up worlds cannot tell choices apart


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What to expect of one choice of queries.

    Attributes:
      label_accuracy: Share of the pool that gets its right label, on average over runs.
      spread: Its standard deviation from run to run.
      without_noise: The same with no noise: what the clusters allow.
      noise_std: Of a released count.
      votes_per_query: Votes that a query gets on average.
    """

    num_queries: int
    votes_per_record: int
    label_accuracy: float
    spread: float
    without_noise: float
    noise_std: float
    votes_per_query: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Predictions for several choices, and the one to take."""

    recommended: Prediction
    considered: tuple[Prediction, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def as_text(self) -> str:
        lines = ["  queries  votes each  labels right        without noise  noise (std)  votes per query"]
        for one in self.considered:
            mark = "->" if one == self.recommended else "  "
            lines.append(
                f"{mark} {one.num_queries:>6}  {one.votes_per_record:>10}  {100 * one.label_accuracy:>6.1f} % "
                f"± {100 * one.spread:<6.1f}  {100 * one.without_noise:>9.1f} %  {one.noise_std:>11.1f}  "
                f"{one.votes_per_query:>15.1f}"
            )
        return "\n".join(lines)


def predict(
    terms: Terms,
    ballot: Ballot,
    *,
    num_records: int,
    purity: float = PURITY,
    at_queries: int | None = None,
    pool_size: int = POOL,
    seed: int = 0,
) -> Prediction:
    """The label accuracy to expect, with its spread.

    Args:
      num_records: How many records will vote, or a public guess.
      purity: A public guess: the share of a query's records that carry its commonest class.
      at_queries: The number of queries that the guess is about; ten per class when None.
      pool_size: Clusters of few pool samples are less even; a large pool counts as POOL.
    """
    whole(num_records=num_records, pool_size=pool_size)
    at_queries = AT * ballot.num_classes if at_queries is None else at_queries
    protocol = terms.protocols(ballot, num_records)[0]
    runs = [
        run
        for world in range(WORLDS)
        for run in _runs(
            _world(ballot.num_classes, purity, at_queries, seed + world),
            protocol,
            num_records,
            min(pool_size, POOL),
            seed + world,
        )
    ]
    right, clean = np.array(runs).T
    return Prediction(
        num_queries=ballot.num_queries,
        votes_per_record=ballot.votes_per_record,
        label_accuracy=float(right.mean()),
        spread=float(right.std(ddof=1)),
        without_noise=float(clean.mean()),
        noise_std=protocol.noise_std(num_records),
        votes_per_query=num_records * ballot.votes_per_record / ballot.num_queries,
    )


def plan(
    terms: Terms,
    *,
    num_records: int,
    num_classes: int,
    labels_per_record: int = 1,
    num_queries: Sequence[int] | None = None,
    votes_per_record: Sequence[int] | None = None,
    purity: float = PURITY,
    at_queries: int | None = None,
    pool_size: int = POOL,
    seed: int = 0,
) -> Plan:
    """Predictions for each s and k asked about; recommended is the most accurate."""
    if num_classes < 2:
        raise InvalidInput(f"num_classes must be >= 2 for a plan, with fewer no label can be wrong, got {num_classes}")
    if votes_per_record is None:
        votes_per_record = (1,) if terms.one_vote else (1, 2)
    if num_queries is None:
        sizes: Sequence[int] = [num_classes] if terms.one_query_per_class else _candidates(num_classes, pool_size)
    else:
        sizes = num_queries
    predictions = []
    for votes in votes_per_record:
        whole(votes_per_record=votes)
        for size in sizes:
            if votes <= size <= min(pool_size, POOL):
                ballot = Ballot(
                    num_queries=size,
                    num_classes=num_classes,
                    votes_per_record=votes,
                    labels_per_record=labels_per_record,
                )
                predictions.append(
                    predict(
                        terms,
                        ballot,
                        num_records=num_records,
                        purity=purity,
                        at_queries=at_queries,
                        pool_size=pool_size,
                        seed=seed,
                    )
                )
    if not predictions:
        raise InvalidInput(f"num_queries must lie between k and the pool's {pool_size} samples, got {list(sizes)}")
    best = max(prediction.label_accuracy for prediction in predictions)
    # Among choices that cannot be told apart: fewer votes carry less noise, more queries tell the student more.
    as_good = [prediction for prediction in predictions if prediction.label_accuracy >= best - TIE]
    recommended = min(as_good, key=lambda prediction: (prediction.votes_per_record, -prediction.num_queries))
    return Plan(recommended=recommended, considered=tuple(predictions))


@lru_cache(maxsize=64)
def recommend_queries(
    terms: Terms, *, num_records: int, pool_size: int, num_classes: int, votes_per_record: int, labels_per_record: int
) -> int:
    """How many queries to ask when nobody says; the guesses behind it are the planner's defaults."""
    if terms.one_query_per_class:
        return num_classes
    found = plan(
        terms,
        num_records=num_records,
        num_classes=num_classes,
        labels_per_record=labels_per_record,
        votes_per_record=(votes_per_record,),
        pool_size=pool_size,
    )
    return found.recommended.num_queries


def _candidates(num_classes: int, pool_size: int) -> list[int]:
    """From one query per class up to fifty; a query should own a few pool samples."""
    most = min(pool_size, max(num_classes, min(pool_size, POOL) // 5))
    sizes = [num_classes * factor for factor in (1, 2, 4, 7, 10, 20, 50)]
    return [size for size in sizes if size <= most] or [min(num_classes, pool_size)]


@dataclass(frozen=True, eq=False)
class _World:
    """Made-up samples with classes: a pool to be labelled and records that vote."""

    pool: NDArray[np.float32]
    pool_classes: Ints
    records: NDArray[np.float32]
    record_classes: Ints
    num_classes: int


@lru_cache(maxsize=16)
def _world(num_classes: int, purity: float, at_queries: int, seed: int) -> _World:
    """Spread the bell curves apart until k-means clusters are as pure as the guess."""
    if not 1 / num_classes < purity <= 1:
        raise InvalidInput(f"purity must lie in (1/{num_classes}, 1], got {purity!r}")
    at_queries = max(2, min(at_queries, POOL // 5))
    narrow, wide = 0.0, 16.0
    for _ in range(9):
        middle = (narrow + wide) / 2
        world = _draw(num_classes, middle, seed)
        owner = KMeansQueries(num_queries=at_queries, seed=seed).ask(world.pool[:1000]).owner
        cells = np.zeros((at_queries, num_classes))
        np.add.at(cells, (owner, world.pool_classes[:1000]), 1)
        narrow, wide = (middle, wide) if cells.max(axis=1).sum() / 1000 < purity else (narrow, middle)
    return _draw(num_classes, wide, seed)


def _draw(num_classes: int, apart: float, seed: int) -> _World:
    rng = seeded(seed, "planner", "world")
    modes = max(4, MODES // num_classes)
    between, within = rng.normal(size=(num_classes, 1, DIM)), rng.normal(size=(num_classes, modes, DIM))
    between[..., num_classes - 1 :] = 0  # few classes differ in few directions, and most of what varies is not class
    centres = apart * (between + WITHIN * within)
    classes = rng.integers(num_classes, size=POOL + RECORDS)
    samples = centres[classes, rng.integers(modes, size=len(classes))] + rng.normal(size=(len(classes), DIM))
    vectors = samples.astype(np.float32)
    return _World(vectors[:POOL], classes[:POOL], vectors[POOL:], classes[POOL:], num_classes)


def _runs(
    world: _World, protocol: Protocol[Any], num_records: int, pool_size: int, seed: int
) -> Iterator[tuple[float, float]]:
    """Label accuracy of the pool with the protocol's noise, and without, run by run."""
    ballot = protocol.ballot
    pool, truth = world.pool[:pool_size], world.pool_classes[:pool_size]
    queries = KMeansQueries(num_queries=ballot.num_queries, seed=seed).ask(pool)
    graph = neighbour_graph(pool, queries.vectors)
    picks = nearest_queries(world.records, queries.vectors, ballot.votes_per_record)
    cells = np.zeros((ballot.num_queries, ballot.num_classes))
    np.add.at(cells, (picks, world.record_classes[:, None]), 1)
    rng, noise = seeded(seed, "planner", "counts"), SeededNoise(seed)
    for _ in range(DRAWS):
        counts = rng.poisson(cells * (num_records / len(world.records)))
        released = protocol.informed(queries.sizes).release_of(counts, num_records, noise)
        # Records have one label each in the made-up world, whatever the ballot allows.
        released = replace(released, ballot=replace(ballot, labels_per_record=1))
        labels = decode(released, sizes=queries.sizes, graph=graph, num_records=num_records)
        yield (
            float((labels.hard[queries.owner] == truth).mean()),
            float((counts.argmax(axis=1)[queries.owner] == truth).mean()),
        )
