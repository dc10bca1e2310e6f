"""The pipeline's steps on vectors that were made before, as experiments call them.

Steps 4 to 7 are those of `recordwise.records` and `recordwise.pipeline`, and nothing is done here that they do not do:
an experiment chooses the vectors, the queries and the protocol, and measures what comes out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.arrays import Floats
from recordwise.data import Schema
from recordwise.design import Design
from recordwise.encoders import Manner
from recordwise.labels import DecoderSettings, query_graph
from recordwise.pipeline import Round, label, release
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.protocol import Protocol
from recordwise.queries import Queries
from recordwise.records import Records, cast, read_labels
from recordwise.students import StudentSettings
from recordwise.votes import Ballot, Votes

Vectors = NDArray[np.float32]


class Encoded:
    """The encoder of samples that are vectors already."""

    def transform(self, samples: Vectors) -> Vectors:
        return samples


def cast_votes(vectors: Floats, labels: object, queries: Queries, ballot: Ballot) -> Votes:
    """Step 4: the votes of records with one label each."""
    numbers, unlabelled = read_labels(np.asarray(labels), np.arange(ballot.num_classes), 1)
    found, _, _ = cast(
        Records(vectors, numbers, unlabelled),
        schema=Schema.of(vectors[:1]),
        encoder=Encoded(),
        manner=Manner.EXACT,  # nothing is computed, so there is nothing that could depend on other records
        queries=queries,
        ballot=ballot,
    )
    return found


def design_of(
    protocol: Protocol[Any],
    *,
    decoder: str = "auto",
    student: Any = "linear",
    num_records: int | None = None,
    seed: int = 0,
) -> Design:
    """What is decided before a record is looked at; the number of records only where a decoder is to know it."""
    return Design(
        protocols=(protocol,),
        schema=Schema.of(np.zeros((1, 1), dtype=np.float32)),
        encoder=Encoded(),
        queries=None,
        decoder=DecoderSettings(decoder),
        student=StudentSettings(student),
        num_records=num_records,
        seed=seed,
    )


def run_round(
    queries: Queries,
    votes: Votes,
    design: Design,
    noise_seed: int,
    *,
    graph: NDArray[np.float64] | None = None,
    pool: Vectors | None = None,
    parties: int = 1,
) -> Round:
    """Steps 5 and 6: a release under seeded noise, which is not private, and the labels read off it.

    Args:
      graph: Of the queries, where it is known already; None makes it from the pool.
    """
    if graph is None:
        assert pool is not None
        graph = query_graph(pool, queries.vectors, metric=queries.metric)
    released = release(votes, design.protocols[0].informed(queries.sizes), SeededNoise(noise_seed), parties=parties)
    return Round(queries, graph, released, label(released, queries, graph, design))
