"""The method, from private records to a student, in its seven steps.

1 represent   pool and records, by an encoder that is a function of the public pool alone
2 ask         s queries of the pool: cluster centres first, later what the student is least sure of
3 publish     encoder, queries and protocol are fixed before any record is looked at
4 vote        each record picks its k nearest queries              (private, never leaves this step)
5 release     the votes' tally, through a protocol, paid for in the ledger
6 decode      a label, soft label and confidence per query         (free: post-processing)
7 teach       a student on the pool with its queries' labels       (free: post-processing)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from recordwise.arrays import Bools, Ints, digest
from recordwise.checkpoint import Checkpoint, Unkept
from recordwise.data import Samples, copies, refuse_overlap, rows
from recordwise.encoders import encode, encoder_from, fingerprint
from recordwise.encoders.spec import opened
from recordwise.errors import InvalidInput, real, whole
from recordwise.fits import count_fit
from recordwise.labels import ABSTAIN, DECODERS, Labels, decode, neighbour_graph
from recordwise.pipelines import refuse_fitted_steps
from recordwise.planner import recommend_queries
from recordwise.privacy.guarantee import Neighbours, Trust, exact, one_of
from recordwise.privacy.noise import Noise, Normal, SystemNoise
from recordwise.progress import Progress, Silent
from recordwise.protocols.central import CentralLaplace, CentralMatching, CentralPermuteAndFlip
from recordwise.protocols.local.questions import Questions
from recordwise.protocols.packed import pack, unpack
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.terms import Terms
from recordwise.queries import KMeansQueries, Queries, UncertainQueries
from recordwise.records import (
    by_client,
    check_alike,
    check_columns,
    classes_and_labels,
    first_line,
    silenced,
    with_abstainers,
)
from recordwise.students import class_probabilities, rehearse, student_from, teach
from recordwise.tally import Assigned, Choices, Matched, Release, Tally
from recordwise.till import Till
from recordwise.votes import NOBODY, Ballot, Metric, Votes, cast_votes

# (round, what is asked, how it is protected, who pays) -> what is released
Gather = Callable[[int, Queries, Protocol[Any], Till], Release]

# Settings of what happens to a release afterwards. No question depends on them unless another round follows, so they
# may be thought over when a run is taken up again, at no cost.
AFTERWARDS = {"decoder", "min_confidence", "student", "student_input"}
CHUNK = 65_536  # records encoded and connected at a time, so that memory does not grow with their number


@dataclass(frozen=True, eq=False)
class Round:
    """One round's public outcome: what was asked, what was released, what was made of it."""

    queries: Queries
    release: Release
    labels: Labels


class PrivateDistiller(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A classifier taught by private records, safe to publish with the sentence in `guarantee_`.

    Guarantees:
      - everything `fit` leaves behind is a function of the public pool and of releases that cost at most
        (epsilon, delta) for any one private record;
      - a mistake in the arguments is refused before anything is spent; but a classifier of the caller's own that cannot
        learn the pool shows it only when it is taught. What was paid for is in `rounds_` then, and in the ledger.

    Every `fit` spends its epsilon again: searching parameters by fitting repeatedly, or scoring on private folds, costs
    a budget each time, which a `ledger` keeps count of; without one, a warning tells what the fits of this process cost
    together. In a scikit-learn `Pipeline`, steps before this one must be frozen: what they learn from private records
    is protected by nothing. Under other trusts than central, `fit` plays all parties in one
    process, which sees every vote; between machines that is the federation's work.

    The list of classes is taken as public. Declare it with `classes`; otherwise it is read off `y`.

    Args:
      epsilon: The privacy budget of the whole fit, all rounds together.
      delta: Zero for pure differential privacy.
      neighbours: "replace" (one record by another) or "add-remove".
      trust: Who may see votes without noise: "central", "distributed", "local" or "shuffle".
      mechanism: "auto", or one of `protocols.terms.MECHANISMS` for that trust.
      parties: Under distributed trust, how many parties hold the records. One party makes all noise itself, and could
        take it away: it is trusted like the aggregator under central trust.
      colluding: Under distributed and shuffle trust, how many of those who add noise may read the release, or tell
        their noise to who does. 0 counts everybody's noise; `guarantee_` says what holds against a reader then.
      num_queries: How many queries a round asks, or "auto" for the planner's choice.
      votes_per_record: How many queries each record votes for (k).
      labels_per_record: How many classes a record may have at most (r); more than one makes `y` a 0/1 matrix.
      classes: The public list of classes; None reads it off `y`.
      rounds: How many times queries are asked; each round costs an equal share of the budget.
      max_distance: A record farther than this from a query does not vote for it. Public.
      round_epsilon: Individual accounting: a full round of votes costs a record this much, and it votes as long as it
        can pay from its own allowance of `epsilon` in all. Records that abstain (`max_distance`) pay nothing, so
        rounds · round_epsilon may exceed epsilon. None charges every record for every round, voting or not.
      metric: "euclidean" or "cosine".
      encoder: A name ("auto", "scaler", "pca", "hog", "text", "table"), a file of weights, a scikit-learn transformer
        or a torch module; `encoders.encoder_from` lists all.
      decoder: How labels are read off the noisy tally; "auto" follows the evidence in the documentation.
      min_confidence: Queries whose label is less sure than this are left out of the student's training.
      student: A name ("linear", "mlp"), a scikit-learn classifier or a torch module.
      student_input: "vectors" (what the encoder makes) or "samples" (the raw pool).
      expected_records: A public guess of the number of records; needed for num_queries="auto" under add-remove, where
        their number is private. Under distributed and shuffle trust it must be an upper bound: that many take part,
        those without a record only adding noise.
      overlap: What to do about records that also lie in the pool: "refuse" the fit, or let them "abstain". Whether a
        record abstains depends on that record and the public pool alone.
      ledger: Path or URL of the ledger that pays; None keeps no account beyond this fit.
      budget: The ledger's budget to charge.
      budget_epsilon: Opens that budget, if it is not open yet, with this epsilon and `budget_delta`; None needs an open
        one.
      budget_delta: See `budget_epsilon`.
      run_dir: A folder that lets a killed fit go on where it was, without a second charge or a second release.
      noise: Where the privacy noise comes from; None is the operating system. A seeded source is for experiments:
        everything it touches is marked not private.
      progress: Shows the steps as they go.
      random_state: Seeds clustering and the student, never the noise.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 0.0,
        neighbours: str = "replace",
        trust: str = "central",
        mechanism: str = "auto",
        parties: int = 1,
        colluding: int = 1,
        num_queries: int | str = "auto",
        votes_per_record: int = 1,
        labels_per_record: int = 1,
        classes: ArrayLike | None = None,
        rounds: int = 1,
        max_distance: float | None = None,
        round_epsilon: float | None = None,
        metric: str = "euclidean",
        encoder: Any = "auto",
        decoder: str = "auto",
        min_confidence: float = 0.0,
        student: Any = "linear",
        student_input: str = "vectors",
        expected_records: int | None = None,
        overlap: str = "refuse",
        ledger: str | Path | None = None,
        budget: str = "default",
        budget_epsilon: float | None = None,
        budget_delta: float = 0.0,
        run_dir: str | Path | None = None,
        noise: Noise | None = None,
        progress: Progress | None = None,
        random_state: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.trust = trust
        self.mechanism = mechanism
        self.parties = parties
        self.colluding = colluding
        self.num_queries = num_queries
        self.votes_per_record = votes_per_record
        self.labels_per_record = labels_per_record
        self.classes = classes
        self.rounds = rounds
        self.max_distance = max_distance
        self.round_epsilon = round_epsilon
        self.metric = metric
        self.encoder = encoder
        self.decoder = decoder
        self.min_confidence = min_confidence
        self.student = student
        self.student_input = student_input
        self.expected_records = expected_records
        self.overlap = overlap
        self.ledger = ledger
        self.budget = budget
        self.budget_epsilon = budget_epsilon
        self.budget_delta = budget_delta
        self.run_dir = run_dir
        self.noise = noise
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Samples, y: ArrayLike, *, X_public: Samples) -> Self:
        """Label the public pool with the private records (X, y), and teach a student on it."""
        refuse_fitted_steps()
        noise = self._noise()
        check_columns(X_public, X)
        X = self._samples(X, reset=True)
        self.classes_, labels = classes_and_labels(X, y, classes=self.classes, labels_per_record=self.labels_per_record)
        check_alike(X_public, X)
        copied = self._overlap(X_public, X)
        senders = self._senders(self._terms(), len(labels))

        def gather(number: int, queries: Queries, protocol: Protocol[Any], till: Till) -> Release:
            if self.ledger is None and noise.private and number == 1:
                count_fit(X, self.guarantee_)
            cast = silenced(self._vote(X, labels, queries, protocol.ballot), copied)
            votes = till.admit(cast, protocol, whose=lambda: fingerprint([X, labels]))
            messages = (protocol.client(one, noise) for one in by_client(with_abstainers(votes, senders), self.parties))
            return protocol.server(messages, noise)

        self.in_one_process_ = True
        for name in ("n_features_in_", "feature_names_in_"):  # what `fit` leaves about columns is the pool's
            self.__dict__.pop(name, None)
        if np.ndim(X_public) == 2:
            validate_data(self, X_public, reset=True, skip_check_array=True)
        return self._distil(X_public, gather, num_records=len(labels), noise=noise)

    def _distil(self, X_public: Samples, gather: Gather, *, num_records: int, noise: Noise) -> Self:
        """The seven steps, whoever holds the records: `gather` lets them vote and releases, steps 4 and 5."""
        terms = self._terms()
        progress = self.progress or Silent()
        if self.student_input not in ("vectors", "samples"):
            raise InvalidInput(f"student_input must be 'vectors' or 'samples', got {self.student_input!r}")
        real(min_confidence=self.min_confidence, max_distance=0 if self.max_distance is None else self.max_distance)
        if not 0 <= self.min_confidence <= 1:
            raise InvalidInput(f"min_confidence must lie in [0, 1], got {self.min_confidence!r}")
        if self.decoder not in DECODERS:
            raise InvalidInput(f"decoder must be one of {', '.join(DECODERS)}, got {self.decoder!r}")
        if not (isinstance(self.random_state, int | np.integer) and self.random_state >= 0):
            raise InvalidInput(f"random_state must be a whole number >= 0, got {self.random_state!r}")
        if self.max_distance is not None and not self.max_distance >= 0:
            raise InvalidInput(f"max_distance must be >= 0, got {self.max_distance!r}")
        one_of(Metric, metric=self.metric)
        student_from(self.student, seed=self.random_state)
        encoder_from(self.encoder, X_public, seed=self.random_state)
        ballot = Ballot(
            num_queries=self._num_queries(terms, num_records=num_records, pool_size=len(X_public)),
            num_classes=len(self.classes_),
            votes_per_record=self.votes_per_record,
            labels_per_record=self.labels_per_record,
        )
        protocols = self._protocols(terms, ballot, self._public_number(terms, num_records))

        if ballot.num_queries > len(X_public):
            raise InvalidInput(f"num_queries must be <= the pool's {len(X_public)} samples, got {ballot.num_queries}")

        # So far nothing was written: from here on the run has a folder and a budget.
        known: dict[str, Any] = {"classes": [str(name) for name in self.classes_], "private": noise.private}
        if terms.neighbours is Neighbours.REPLACE:
            known["records"] = num_records
        folder = self._folder(X_public, known)
        till = Till.open(
            terms,
            folder=folder,
            noise=noise,
            ledger=self.ledger,
            budget=self.budget,
            budget_terms=None if self.budget_epsilon is None else (self.budget_epsilon, self.budget_delta),
            individual=self.round_epsilon is not None,
            num_records=num_records,
        )
        promise = terms.guarantee(protocols) if till.payments is None else till.payments.guarantee()
        self.guarantee_ = replace(promise, private=noise.private)

        till.refuse_unpayable(protocols)

        # 1 represent
        with progress.step("represent", 1):
            self.encoder_ = folder.keep("encoder", lambda: self._fit_encoder(X_public))
            pool = encode(self.encoder_, X_public)
        material = pool if self.student_input == "vectors" else X_public
        student = student_from(self.student, seed=self.random_state)
        rehearse(student, material, len(self.classes_), multi_label=self.labels_per_record > 1)

        self.rounds_: list[Round] = []
        for number, planned in enumerate(protocols, start=1):
            # 2 ask, 3 publish
            with progress.step(f"ask (round {number})", 1):
                queries = folder.keep(f"queries-{number}", partial(self._ask, pool, material, ballot.num_queries))
                graph = neighbour_graph(pool, queries.vectors, metric=queries.metric)
                protocol = planned.knowing(queries.sizes)
                decoded = partial(
                    decode,
                    sizes=queries.sizes,
                    graph=graph,
                    decoder=self.decoder,
                    num_records=num_records if terms.neighbours is Neighbours.REPLACE else None,
                )
                decoded(_nothing(protocol))  # what cannot be decoded is refused before it is paid for

            # 4 vote, 5 release: a release the ledger already holds costs no second look at the records
            def produce(number: int = number, queries: Queries = queries, protocol: Protocol[Any] = protocol) -> bytes:
                return pack(gather(number, queries, protocol, till))

            release = unpack(till.pay(number, protocol, produce))

            # 6 decode
            self.rounds_.append(Round(queries, release, decoded(release).abstain_below(self.min_confidence)))

            # 7 teach
            with progress.step(f"teach (round {number})", 1):
                self._teach(material)

        self.hashes_ = {"pool": fingerprint(X_public), "encoder": fingerprint(self.encoder_)}
        for number, one in enumerate(self.rounds_, start=1):
            self.hashes_[f"queries, round {number}"] = digest(one.queries.vectors)
        return self

    def predict(self, X: Samples) -> NDArray[Any]:
        """The student's class for each sample; a 0/1 matrix of classes where a record may have several."""
        check_is_fitted(self, "student_")
        predicted = np.asarray(self.student_.predict(self._material(X)))
        return predicted if predicted.ndim == 2 else self.classes_[predicted]

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) the student's probabilities, in the order of `classes_`."""
        check_is_fitted(self, "student_")
        return class_probabilities(self.student_, self._material(X), len(self.classes_))

    def published(self) -> PrivateDistiller:
        """This classifier without what only its owner needs: where the ledger and the run lie, noise, progress."""
        check_is_fitted(self, "student_")
        bare = copy.copy(self)
        bare.ledger = bare.run_dir = bare.noise = bare.progress = None
        return bare

    def _noise(self) -> Noise:
        return SystemNoise() if self.noise is None else copy.deepcopy(self.noise)  # a second fit replays the first

    def _protocols(self, terms: Terms, ballot: Ballot, num_records: int) -> tuple[Protocol[Any], ...]:
        if self.round_epsilon is None:
            return terms.protocols(ballot, num_records)
        epsilon = exact(self.round_epsilon, "round_epsilon")
        if not 0 < epsilon <= terms.epsilon:
            raise InvalidInput(f"round_epsilon must lie in (0, {float(terms.epsilon):g}], got {self.round_epsilon!r}")
        return (CentralLaplace(ballot=ballot, neighbours=terms.neighbours, epsilon=epsilon),) * self.rounds

    def _terms(self) -> Terms:
        return Terms(
            epsilon=exact(self.epsilon, "epsilon"),
            delta=exact(self.delta, "delta"),
            neighbours=self.neighbours,  # type: ignore[arg-type]  # made a member by Terms
            trust=self.trust,  # type: ignore[arg-type]
            mechanism=self.mechanism,
            rounds=self.rounds,
            parties=self.parties,
            colluding=self.colluding,
        )

    def _samples(self, X: Samples, *, reset: bool) -> Samples:
        """Samples as they came; rows of numbers are held to scikit-learn's rules."""
        if hasattr(X, "__array__") and not hasattr(X, "__len__"):
            X = np.asarray(X)
        if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "fiubc":
            raise InvalidInput(f"samples must have shape (n, dim), got {X.shape}. Reshape your data")
        if issparse(X):
            raise TypeError("sparse samples are not supported: pass a dense array, or text and tables as they are")
        numbers = getattr(X, "dtype", None) is not None and np.asarray(X).dtype.kind in "fiubc" and np.ndim(X) <= 2
        try:
            return validate_data(self, X, reset=reset) if numbers else X
        except ValueError as fault:
            raise InvalidInput(first_line(fault)) from fault

    def _folder(self, X_public: Samples, known: Mapping[str, Any]) -> Checkpoint | Unkept:
        """The run's folder, which belongs to these settings, this pool and what is publicly known of the records."""
        if self.run_dir is None:
            return Unkept()
        free = {"ledger", "budget_epsilon", "budget_delta", "run_dir", "noise", "progress"}
        if self.rounds == 1:
            free |= AFTERWARDS
        facts = {
            name: value if isinstance(value, str | int | float | bool | None) else repr(value)
            for name, value in {**self.get_params(deep=False), "encoder": opened(self.encoder)}.items()
            if name not in free
        }
        return Checkpoint.open(self.run_dir, {**facts, **known, "pool": fingerprint(X_public)})

    def _fit_encoder(self, X_public: Samples) -> Any:
        return clone(encoder_from(self.encoder, X_public, seed=self.random_state), safe=False).fit(X_public)

    def _public_number(self, terms: Terms, num_records: int) -> int:
        """What may be known about the number of records: the number itself where it is public, else a public guess."""
        if self.expected_records is not None:
            whole(expected_records=self.expected_records)
        if terms.neighbours is Neighbours.REPLACE:
            return num_records
        if self.expected_records is None and terms.trust is not Trust.CENTRAL:
            raise InvalidInput(
                f"{terms.trust} trust needs expected_records under add-remove, where their number is private"
            )
        return self.expected_records or 1  # central protocols do not depend on it

    def _senders(self, terms: Terms, num_records: int) -> int:
        """How many take part. It shows in a release, so under add-remove it is a public number, not the true one."""
        if terms.neighbours is Neighbours.REPLACE or terms.trust is Trust.CENTRAL:
            return num_records
        planned = self._public_number(terms, num_records)
        if planned < num_records:
            raise InvalidInput(
                f"expected_records must be at least the number of records under {terms.trust} trust, got {planned}"
            )
        return planned

    def _num_queries(self, terms: Terms, *, num_records: int, pool_size: int) -> int:
        if self.num_queries != "auto":
            return self.num_queries  # type: ignore[return-value]  # the ballot checks it
        if self.expected_records is None and terms.neighbours is Neighbours.ADD_REMOVE:
            raise InvalidInput(
                "num_queries='auto' needs expected_records under add-remove, where the number of records is private"
            )
        return recommend_queries(
            terms,
            num_records=self._public_number(terms, num_records),
            pool_size=pool_size,
            num_classes=len(self.classes_),
            votes_per_record=self.votes_per_record,
            labels_per_record=self.labels_per_record,
        )

    def _ask(self, pool: NDArray[np.float32], material: Samples, num_queries: int) -> Queries:
        metric = one_of(Metric, metric=self.metric)
        if not self.rounds_:
            return KMeansQueries(num_queries=num_queries, seed=self.random_state, metric=metric).ask(pool)
        unsure = class_probabilities(self.student_, material, len(self.classes_))
        seed = self.random_state + len(self.rounds_)
        return UncertainQueries(num_queries=num_queries, seed=seed, metric=metric).ask(pool, unsure)

    def _overlap(self, X_public: Samples, X: Samples) -> Bools:
        """Which records are copies of pool samples; none, or an error, unless they are to abstain."""
        if self.overlap == "abstain":
            return copies(X, X_public)
        if self.overlap != "refuse":
            raise InvalidInput(f"overlap must be 'refuse' or 'abstain', got {self.overlap!r}")
        refuse_overlap(X_public, X)
        return np.zeros(len(X), dtype=np.bool_)

    def _vote(self, X: Samples, labels: NDArray[Any], queries: Queries, ballot: Ballot) -> Votes:
        picks, classes = [], []
        with (self.progress or Silent()).step("vote", len(labels)) as advance:
            for start in range(0, len(labels), CHUNK):
                some = slice(start, start + CHUNK)
                vectors = encode(self.encoder_, rows(X, some))
                votes = cast_votes(
                    vectors,
                    labels[some],
                    queries.vectors,
                    ballot,
                    metric=queries.metric,
                    max_distance=self.max_distance,
                )
                picks.append(votes.queries)
                classes.append(votes.labels)
                advance(len(votes))
        return Votes(ballot, np.concatenate(picks), np.concatenate(classes))

    def _teach(self, material: Samples) -> None:
        """Give every pool sample the labels of its queries, one per round, and train on them."""
        multi_label = self.labels_per_record > 1
        chances = np.zeros((len(material), len(self.classes_)))
        weights = np.zeros(len(material))
        for one in self.rounds_:
            owner = one.queries.owner
            weight = np.where(owner != NOBODY, (one.labels.confidence * one.labels.answered)[owner], 0.0)
            chances += weight[:, None] * one.labels.soft[owner]
            weights += weight
        labelled = weights > 0
        chances[labelled] /= weights[labelled, None]
        self.pool_chances_ = chances
        self.pool_labels_: Ints = np.where(labelled, chances.argmax(axis=1), ABSTAIN)
        self.pool_confidence_ = weights / len(self.rounds_)
        student = student_from(self.student, seed=self.random_state)
        self.student_ = teach(student, material, chances, weights=weights, multi_label=multi_label)

    def _material(self, X: Samples) -> Samples:
        X = self._samples(X, reset=False)
        return encode(self.encoder_, X) if self.student_input == "vectors" else X


def _nothing(protocol: Protocol[Any]) -> Release:
    """A release of the protocol's kind that says nothing about anybody."""
    ballot, promise = protocol.ballot, protocol.guarantee
    if isinstance(protocol, CentralPermuteAndFlip):
        return Choices(ballot, promise, np.zeros(ballot.num_queries, dtype=np.int64), protocol.scale)
    if isinstance(protocol, CentralMatching):
        return Matched(ballot, promise, np.arange(ballot.num_queries), protocol.scale)
    if isinstance(protocol, Questions):
        even = np.full((ballot.num_queries, ballot.num_classes), 1 / ballot.num_classes)
        return Assigned(ballot, promise, np.arange(ballot.num_queries), even, 1 / ballot.num_classes)
    return Tally(ballot, promise, np.zeros((ballot.num_queries, ballot.num_classes)), Normal(1.0))
