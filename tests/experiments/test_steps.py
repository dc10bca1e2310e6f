"""Experiments run the pipeline's own steps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from experiments.steps import cast_votes, design_of, run_round

from recordwise import pipeline, votes
from recordwise.labels import query_graph
from recordwise.privacy.noise import SeededNoise
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.release import pack
from recordwise.queries import KMeansQueries
from recordwise.randomness import seeded
from recordwise.votes import Ballot

RNG = seeded(0, "steps")
TRUTH = np.arange(600) % 3
POINTS = (7.0 * np.eye(3)[TRUTH] + RNG.normal(size=(600, 3))).astype(np.float32)
POOL, RECORDS, LABELS = POINTS[:200], POINTS[200:], TRUTH[200:]
BALLOT = Ballot(num_queries=12, num_classes=3, votes_per_record=2)
QUERIES = KMeansQueries(num_queries=12, seed=0).ask(POOL)


def test_ready_vectors_vote_as_records_do() -> None:
    ours = cast_votes(RECORDS, LABELS, QUERIES, BALLOT)
    plain = votes.cast_votes(RECORDS, LABELS, QUERIES.vectors, BALLOT)
    assert np.array_equal(ours.queries, plain.queries) and np.array_equal(ours.labels, plain.labels)


def test_a_round_is_a_release_and_its_labels_and_a_student_learns_it() -> None:
    protocol = CentralLaplace(ballot=BALLOT, epsilon=Fraction(1))
    cast = cast_votes(RECORDS, LABELS, QUERIES, BALLOT)
    design = design_of(protocol, num_records=len(cast))
    found = run_round(QUERIES, cast, design, 5, pool=POOL)
    noise = SeededNoise(5)
    released = protocol.server([protocol.client(cast, noise)], noise)
    graph = query_graph(POOL, QUERIES.vectors)
    assert pack(found.release) == pack(released) and not found.release.guarantee.private
    labels = pipeline.label(released, QUERIES, graph, design)
    assert np.array_equal(found.labels.probabilities, labels.probabilities)
    assert pipeline.teach([found], POOL, POOL, design).student.score(POINTS, TRUTH) > 0.95
