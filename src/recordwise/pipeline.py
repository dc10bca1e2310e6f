"""The method, from a public pool and private records to a student, in its seven steps.

1 represent   pool and records, by an encoder that is a function of the public pool alone
2 ask         s queries of the pool: clusters first, later smaller ones where the student is least sure, if it pays
3 publish     schema, encoder, queries and protocol are fixed before any record is looked at
4 vote        each record picks its k nearest queries              (private, never leaves this step)
5 release     the votes' tally, through a protocol, paid for by an account
6 label       a label, soft label and confidence per query         (free: post-processing)
7 teach       a student on the pool, from counts or labels         (free: post-processing)

Each step is a function of plain values, and `distil` runs them. Steps 4 and 5 happen where the records are: in this
process, which then sees every vote, or at silos.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from recordwise.account import OpenAccount
from recordwise.arrays import NOBODY, Ints
from recordwise.data import Samples, Schema
from recordwise.design import Design
from recordwise.encoders import Manner, encode_public, how_encoded
from recordwise.errors import InvalidInput
from recordwise.labels import ABSTAIN, Labels, decode, query_graph, voters_at
from recordwise.labels.soft import at
from recordwise.privacy.guarantee import members
from recordwise.privacy.noise import Noise
from recordwise.progress import Progress, part, step
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import Release
from recordwise.queries import Queries, UncertainQueries, first_queries, focus_of
from recordwise.records import COPIES_VOTE, Records, cast, tell_holder
from recordwise.students import (
    Asked,
    Learnt,
    class_probabilities,
    learn,
    learn_from_counts,
    reads_counts,
    refuse_weights,
    student_from,
    try_student,
)
from recordwise.students import teach as teach_student
from recordwise.students.again import WORTH, PossibleRound, expected_gain
from recordwise.students.spec import VECTORS
from recordwise.votes import Votes


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """Step 3: what one round asks of whoever holds records. Public."""

    round: int
    schema: Schema
    encoder: Any
    manner: Manner | None
    queries: Queries
    protocol: Protocol[Any]


Voters = Callable[[Question], Release]  # steps 4 and 5, wherever the records lie


@dataclass(frozen=True, eq=False)
class Round:
    """One round's public outcome: what was asked, what was released, what was made of it."""

    queries: Queries
    graph: NDArray[np.float64]
    release: Release
    labels: Labels


@dataclass(frozen=True, kw_only=True, eq=False)
class Taught:
    """A student, and the labels of the pool that go with it.

    Attributes:
      labels: (m,) each pool sample's class, ABSTAIN where it has none. Of a student of labels it is what the sample's
        queries say, which need not be the likeliest of its `probabilities`.
      probabilities: (m, C) of each class.
      confidence: (m,) the chance that the sample's label is right, as in `Labels`; zero where it was given none.
      learnt: What a student that read the counts themselves says about the release; None for others.
    """

    student: Any
    labels: Ints
    probabilities: NDArray[np.float64]
    confidence: NDArray[np.float64]
    learnt: Learnt | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Distilled:
    """What a run leaves behind: a function of the public pool and of what was released.

    Attributes:
      num_records: Where it is public.
    """

    encoder: Any
    manner: Manner
    rounds: tuple[Round, ...]
    taught: Taught
    num_records: int | None = None

    def __post_init__(self) -> None:
        members(self, manner=Manner)


def distil(
    samples: Samples,
    design: Design,
    voters: Voters,
    account: OpenAccount,
    *,
    progress: Progress | None = None,
    on_round: Callable[[Round], object] = lambda one: None,
) -> Distilled:
    """The seven steps, on a public pool.

    Args:
      on_round: Called with each round once it is paid for, so that it is not lost with a student that cannot be taught.
    """
    account.refuse_unpayable(design.protocols)
    if not all(planned.blank().shows_purity for planned in design.protocols):
        refuse_weights(design.new_student())
    with step(progress, "represent"):
        with part(0.0, 0.5):
            encoder = account.keep("encoder", lambda: clone(design.encoder, safe=False).fit(samples))
        with part(0.5, 1.0):
            manner = how_encoded(encoder, samples)
    with step(progress, "encode the pool"):
        pool = encode_public(encoder, samples, manner=manner)
    material = pool if design.student.input == VECTORS else samples
    try_student(design.new_student(), material, design.ballot.num_classes, several=design.ballot.labels_per_record > 1)

    rounds: list[Round] = []
    for number, planned in enumerate(design.protocols, start=1):
        with step(progress, f"ask (round {number})"):
            queries = account.keep(f"queries-{number}", lambda: ask(pool, material, rounds, design))
            graph = query_graph(pool, queries.vectors, metric=queries.metric)
            question = Question(
                round=number,
                schema=design.schema,
                encoder=encoder,
                manner=manner,
                queries=queries,
                protocol=planned.informed(queries.sizes),
            )
            blank = question.protocol.blank()
            label(blank, queries, graph, design)  # refused now, if it cannot be decoded
            if design.stops and not blank.has_counts:
                raise InvalidInput("rounds='auto' needs counts and one label per record: say how many rounds")
        if rounds and design.stops:
            with step(progress, f"weigh round {number}"):
                gain = account.keep(f"gain-{number}", partial(gain_of, rounds, queries, pool, design))
            if gain < WORTH:
                break
        # A release that the account already holds costs no second look at the records.
        released = account.pay(number, question.protocol, lambda question=question: voters(question))  # type: ignore[misc]
        rounds.append(Round(queries, graph, released, label(released, queries, graph, design)))
        on_round(rounds[-1])
    with step(progress, "teach"):
        taught = teach(rounds, pool, material, design)
    there = design.num_records if design.counted else None
    return Distilled(encoder=encoder, manner=manner, rounds=tuple(rounds), taught=taught, num_records=there)


def ask(pool: NDArray[np.float32], material: Samples, rounds: Sequence[Round], design: Design) -> Queries:
    """Step 2: the next queries: clusters of the pool, and after a round others, smaller where its student is unsure."""
    ballot = design.ballot
    if not rounds:
        return first_queries(
            design.queries,
            pool,
            num_queries=ballot.num_queries,
            votes_per_record=ballot.votes_per_record,
            seed=design.seed,
        )
    first = rounds[0].queries
    focus = focus_of(design.queries)
    unsure = np.full((len(pool), ballot.num_classes), 1 / ballot.num_classes)
    if focus > 0:
        with part(0.0, 0.7):
            unsure = class_probabilities(teach(rounds, pool, material, design).student, material, ballot.num_classes)
    again = UncertainQueries(
        num_queries=ballot.num_queries, seed=design.seed + len(rounds), metric=first.metric, focus=focus
    )
    with part(0.7, 1.0):
        return replace(again.ask(pool, unsure), max_distance=first.max_distance)


def gain_of(rounds: Sequence[Round], following: Queries, pool: NDArray[np.float32], design: Design) -> float:
    """What one more round is expected to teach, in nats per sample, by what was released so far."""
    learnt = learn_from_counts(pool, _asked(rounds, design), seed=design.seed)
    asked = [*(one.queries for one in rounds), following]
    plans = [
        PossibleRound(
            queries=queries, graph=query_graph(pool, queries.vectors, metric=queries.metric), protocol=planned
        )
        for queries, planned in zip(asked, design.protocols, strict=False)
    ]
    voting = float(learnt.turnout[0].rates.sum()) / design.ballot.votes_per_record
    truth = learnt.student.predict_proba(pool)
    return expected_gain(pool, truth, plans, num_records=max(1, round(voting)), seed=design.seed)


def vote(records: Records, question: Question, progress: Progress | None = None) -> Votes:
    """Step 4: every record's votes, in the order of the records. Private. Their holder is told who abstains."""
    first = question.round == 1
    if not first and records.overlap == COPIES_VOTE:
        records = replace(records, pool=None)  # copies were looked for, to tell the holder of them
    with step(progress, "vote"):
        votes, why, copied = cast(
            records,
            schema=question.schema,
            encoder=question.encoder,
            manner=question.manner,
            queries=question.queries,
            ballot=question.protocol.ballot,
        )
    if first:
        tell_holder(np.where(why == 0, records.unlabelled, why), copied, records.overlap)
    return votes


def release(
    votes: Votes, protocol: Protocol[Any], noise: Noise, *, parties: int = 1, senders: int | None = None
) -> Release:
    """Step 5, with all parties played here: what clients send and the server publishes.

    Args:
      senders: How many take part, where that shows in a release and the number of records is private.
    """
    return protocol.server(protocol.clients(votes, noise, parties=parties, senders=senders), noise)


def label(released: Release, queries: Queries, graph: NDArray[np.float64], design: Design) -> Labels:
    """Step 6: labels of the queries, from the release and public facts alone.

    Where there are counts, how many records vote at each query is read off the release as well: some may abstain. Where
    a release cannot tell how pure queries are, `min_confidence` is compared with `Labels.leads`: confidence is a guess.
    """
    sizes, num_records = voters_at(released, queries.sizes, design.num_records)
    found = decode(released, sizes=sizes, graph=graph, decoder=design.decoder.name, num_records=num_records)
    return found.abstain_below(design.decoder.min_confidence, by_leads=not released.shows_purity)


def teach(rounds: Sequence[Round], pool: NDArray[np.float32], material: Samples, design: Design) -> Taught:
    """Step 7: a student of the pool, from the releases' counts where it reads them, else from the queries' labels.

    Args:
      pool: The pool's vectors.
      material: What the student learns from: the same vectors, or the samples.
    """
    student = design.new_student()
    if not reads_counts(student):
        return _teach_labels(student, rounds, material, design)
    if not all(one.release.has_counts for one in rounds):

        def from_labels(model: Any, samples: Samples) -> Taught:
            return _teach_labels(student_from(model, seed=design.seed), rounds, samples, design)

        return student.without_counts(from_labels, pool, material)  # type: ignore[no-any-return]
    learnt = learn(student, pool, material, _asked(rounds, design))
    probabilities = np.asarray(learnt.probabilities, dtype=np.float64)
    confidence = probabilities.max(axis=1)
    return Taught(
        student=learnt.student,
        labels=np.where(confidence >= design.decoder.min_confidence, probabilities.argmax(axis=1), ABSTAIN),
        probabilities=probabilities,
        confidence=confidence,
        learnt=learnt,
    )


def _asked(rounds: Sequence[Round], design: Design) -> list[Asked]:
    return [
        Asked(release=one.release, owner=one.queries.owner, graph=one.graph, num_records=design.num_records)
        for one in rounds
    ]


def _teach_labels(student: Any, rounds: Sequence[Round], material: Samples, design: Design) -> Taught:
    """Every pool sample gets the labels of its queries, one per round, and the student learns them.

    A label that noise may have flipped counts for less. Where a sample's queries differ, it gets the surer one's label.
    """
    probabilities = np.zeros((len(material), design.ballot.num_classes))
    weights, said = np.zeros(len(material)), np.zeros_like(probabilities)
    for one in rounds:
        owner = one.queries.owner
        weight = np.where(owner != NOBODY, (one.labels.leads * one.labels.answered)[owner], 0.0)
        probabilities += weight[:, None] * one.labels.probabilities[owner]
        said[np.arange(len(said)), one.labels.hard[owner]] += weight
        weights += weight
    labelled = weights > 0
    probabilities[labelled] /= weights[labelled, None]
    several, label = design.ballot.labels_per_record > 1, said.argmax(axis=1)
    confidence = weights / len(rounds) if several else at(probabilities, label)
    return Taught(
        student=teach_student(student, material, probabilities, weights=weights, multi_label=several),
        labels=np.where(labelled, label, ABSTAIN),
        probabilities=probabilities,
        confidence=confidence,
    )
