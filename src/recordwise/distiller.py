"""The method as a scikit-learn classifier: a thin shell around `recordwise.pipeline`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from recordwise.account import Account
from recordwise.checkpoint import Checkpoint, NoFolder
from recordwise.data import Samples, Schema, taken
from recordwise.encoders import encode_public, encoder_from
from recordwise.encoders.spec import opened
from recordwise.errors import InvalidInput, first_line, real, whole
from recordwise.fits import count_fit
from recordwise.hashing import digest, fingerprint
from recordwise.labels import DECODERS
from recordwise.nearest import Metric
from recordwise.pipeline import Design, Distilled, Question, Round, Voters, distil, release, vote
from recordwise.planner import recommend_queries
from recordwise.privacy.guarantee import Neighbours, Trust, exact, one_of
from recordwise.privacy.noise import Noise, SystemNoise
from recordwise.progress import Progress
from recordwise.protocols.central import CentralLaplace
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.release import Release
from recordwise.protocols.terms import Terms
from recordwise.queries import Queries, check_queries
from recordwise.queries.spec import KMEANS
from recordwise.records import COPIES_VOTE, Records, as_labels, check_labels, public_classes, read_labels
from recordwise.sklearn_steps import refuse_fitted_steps
from recordwise.students import class_probabilities, student_from
from recordwise.votes import Ballot

# Settings of what happens to a release afterwards. No question depends on them unless another round follows, so they
# may change on resume, at no cost.
AFTERWARDS = {"decoder", "min_confidence", "student", "student_input"}
MOST_RECORDS = 2**40  # what a secure sum leaves room for where the number of records is private: nobody has as many


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """A run on records in one place that has not begun.

    Attributes:
      senders: How many take part, where that shows in a release and the number of records is private.
    """

    records: Records
    pool: Samples
    classes: NDArray[Any]
    design: Design
    account: Account
    noise: Noise
    senders: int | None


class PrivateDistiller(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A classifier taught by private records, safe to publish with the sentence in `guarantee_`.

    Guarantees:
      - everything `fit` leaves behind is a function of the public pool and of releases that cost at most
        (epsilon, delta) for any one private record;
      - a record's votes are a function of that record and of what is public; a record that cannot be read, encoded or
        labelled abstains, and only a log line on this machine tells how many did;
      - a mistake in what is public is refused before anything is spent; but a classifier of the caller's own that
        cannot learn the pool may show it only when it is taught. What was paid for is in `rounds_` then, and in the
        ledger.

    Every `fit` spends its epsilon again: searching parameters by fitting repeatedly, or scoring on private folds, costs
    a budget each time, which a `ledger` keeps count of; without one, a warning tells what the fits of this process cost
    together. In a scikit-learn `Pipeline`, steps before this one must be frozen: what they learn from private records
    is protected by nothing. Under other trusts than central, `fit` plays all parties in one process, which sees every
    vote; `recordwise.federation` puts them on different machines.

    The list of classes is taken as public. Declare it with `classes`; otherwise it is read off `y`. So is the form of X
    and y: columns, an array's shape and the type of its numbers. `schema_` says how a record is read.

    Args:
      epsilon: The privacy budget of the whole fit, all rounds together.
      delta: Zero for pure differential privacy.
      neighbours: "replace" (one record by another) or "add-remove".
      trust: Who may see votes without noise: "central", "distributed", "local" or "shuffle".
      mechanism: "auto", or a name that `protocols.registry.names` lists for that trust.
      parties: Under distributed trust, how many parties hold the records. One party makes all noise itself, and could
        take it away: it is trusted like the aggregator under central trust.
      colluding: Under distributed and shuffle trust, how many of those who add noise may read the release, or tell
        their noise to somebody who does. 0 counts everybody's noise; `guarantee_` says what then holds against them.
      num_queries: How many queries a round asks, or "auto" for the planner's choice.
      queries: What the first round asks: "kmeans", settings such as {"name": "kmeans", "balanced": True}, ready
        `Queries` or an object with `ask(pool)`.
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
      student: "counts" (linear, explains the whole released table; learns labels where a release has no counts),
        another name ("linear", "mlp"), a scikit-learn classifier or a torch module.
      student_input: "vectors" (what the encoder makes) or "samples" (the raw pool).
      expected_records: A public guess of the number of records; needed under add-remove, where their number is private,
        for num_queries="auto" and for shuffle trust. There so many take part, whatever the number of records.
      overlap: What records do that also lie in the pool: "vote" or "abstain". Whether a record abstains depends on that
        record and the public pool alone.
      schema: How records are read: a `Schema`, a mapping, or a JSON or TOML file; None is what the pool fixes.
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

    Attributes:
      guarantee_: What the whole fit promises any one record; prints as the sentence to publish.
      student_: The classifier that was taught; `predict` and `predict_proba` ask it.
      classes_: The public list of classes.
      rounds_: For each round the queries, the release and the labels read off it.
      pool_labels_: (m,) each pool sample's class as its place in `classes_`, -1 where it has none.
      pool_probabilities_: (m, C) of each class, for each pool sample.
      pool_confidence_: (m,) how sure each pool sample's label is.
      encoder_: The encoder, fitted on the pool.
      schema_: How samples are read.
      hashes_: SHA-256 of pool, schema, encoder and queries, for the report.

    Example:
      >>> from sklearn.datasets import load_digits
      >>> X, y = load_digits(return_X_y=True)
      >>> model = PrivateDistiller(epsilon=1.0, num_queries=30, encoder="pca", classes=range(10))
      >>> model = model.fit(X[:900], y[:900], X_public=X[900:1500])
      >>> print(model.guarantee_)
      Pure differential privacy, central trust: replacing any one record by any other changes ...
      >>> model.predict(X[1500:]).shape
      (297,)
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
        queries: Any = KMEANS,
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
        student: Any = "counts",
        student_input: str = "vectors",
        expected_records: int | None = None,
        overlap: str = COPIES_VOTE,
        schema: Schema | Mapping[str, Any] | str | Path | None = None,
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
        self.queries = queries
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
        self.schema = schema
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
        run = self.prepare(X, y, X_public=X_public)

        def voters(question: Question) -> Release:
            if self.ledger is None and run.noise.private and question.round == 1:
                count_fit(run.records.samples, self.guarantee_)
            cast = vote(run.records, question, self.progress)
            votes = run.account.admit(cast, question.protocol, whose=run.records.fingerprint)
            return release(votes, question.protocol, run.noise, parties=self.parties, senders=run.senders)

        self.in_one_process_ = True
        return self.fit_with(voters, run.pool, run.design, run.account, run.classes)

    def prepare(self, X: Samples, y: ArrayLike, *, X_public: Samples) -> Prepared:
        """All that a run needs before it begins; a mistake in what is public is refused here."""
        noise, terms = self.noise_source(), self.terms()
        X = self._samples(X, reset=True)
        schema, pool = self.read_pool(X_public)
        schema.check_form(X)
        if not len(X) and terms.neighbours is Neighbours.REPLACE:
            raise InvalidInput("X must hold at least one sample, got 0")
        y = as_labels(y, len(X))
        classes = public_classes(y, classes=self.classes, labels_per_record=self.labels_per_record)
        check_labels(y, len(classes), self.labels_per_record)
        labels, unlabelled = read_labels(y, classes, self.labels_per_record)
        records = Records(X, labels, unlabelled, pool=pool, overlap=self.overlap)
        for name in ("n_features_in_", "feature_names_in_"):  # what `fit` leaves about columns is the pool's
            self.__dict__.pop(name, None)
        if np.ndim(X_public) == 2:
            validate_data(self, X_public, reset=True, skip_check_array=True)
        design = self.design(pool, schema, classes, num_records=len(records))
        hidden = terms.trust is Trust.SHUFFLE and terms.neighbours is not Neighbours.REPLACE
        return Prepared(
            records=records,
            pool=pool,
            classes=classes,
            design=design,
            account=self.open_account(design, pool, classes, num_records=len(records), noise=noise),
            noise=noise,
            senders=self._public_number(terms, 0) if hidden else None,
        )

    def fit_with(self, voters: Voters, pool: Samples, design: Design, account: Account, classes: NDArray[Any]) -> Self:
        """Run the pipeline with records that lie wherever `voters` finds them."""
        self.classes_, self.schema_ = classes, design.schema
        self.guarantee_ = account.guarantee(self.terms().guarantee(design.protocols))
        self.rounds_: list[Round] = []
        return self.take(
            distil(pool, design, voters, account, progress=self.progress, on_round=self.rounds_.append), pool
        )

    def take(self, found: Distilled, pool: Samples) -> Self:
        """Become what a run of the pipeline has left."""
        self.encoder_, self.manner_, self.rounds_ = found.encoder, found.manner, list(found.rounds)
        self.student_, self.pool_labels_ = found.taught.student, found.taught.labels
        self.pool_probabilities_, self.pool_confidence_ = found.taught.probabilities, found.taught.confidence
        self.learnt_ = found.taught.learnt
        self.hashes_ = {
            "pool": fingerprint(pool),
            "schema": self.schema_.digest,
            "encoder": fingerprint(self.encoder_),
        }
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
        bare.schema = self.schema_  # and not the path of a file
        return bare

    def design(
        self,
        pool: Samples,
        schema: Schema,
        classes: NDArray[Any],
        *,
        num_records: int,
        protocols: tuple[Protocol[Any], ...] | None = None,
    ) -> Design:
        """All that is decided before a record is looked at; a mistake in it is refused here, before anything is spent.

        Args:
          protocols: How each round is protected, where others decide on it; None is by the terms.
        """
        terms = self.terms()
        self._refuse_mistakes()
        if protocols is None:
            ballot = self.ballot(pool, classes, num_records=num_records)
            protocols = self._protocols(terms, ballot, self._room_for(terms, num_records))
        if protocols[0].ballot.num_queries > len(pool):
            raise InvalidInput(
                f"num_queries must be <= the pool's {len(pool)} samples, got {protocols[0].ballot.num_queries}"
            )
        return Design(
            protocols=protocols,
            schema=schema,
            encoder=encoder_from(self.encoder, pool, seed=self.random_state),
            queries=self.queries,
            metric=one_of(Metric, metric=self.metric),
            max_distance=self.max_distance,
            decoder=self.decoder,
            min_confidence=self.min_confidence,
            student=self.student,
            student_input=self.student_input,
            num_records=num_records if terms.neighbours is Neighbours.REPLACE else None,
            seed=self.random_state,
        )

    def ballot(self, pool: Samples, classes: NDArray[Any], *, num_records: int) -> Ballot:
        """What records may vote for."""
        return Ballot(
            num_queries=self._num_queries(self.terms(), num_records, len(pool), len(classes)),
            num_classes=len(classes),
            votes_per_record=self.votes_per_record,
            labels_per_record=self.labels_per_record,
        )

    def open_account(
        self, design: Design, pool: Samples, classes: NDArray[Any], *, num_records: int, noise: Noise
    ) -> Account:
        """From here on the run has a folder and a budget; before, nothing is written."""
        facts: dict[str, Any] = {
            "classes": [str(name) for name in classes],
            "private": noise.private,
            "schema": design.schema.as_dict(),
        }
        if design.num_records is not None:
            facts["records"] = design.num_records
        return Account.open(
            self.terms(),
            folder=self._folder(pool, facts),
            noise=noise,
            ledger=self.ledger,
            budget=self.budget,
            budget_terms=None if self.budget_epsilon is None else (self.budget_epsilon, self.budget_delta),
            individual=self.round_epsilon is not None,
            num_records=num_records,
        )

    def _refuse_mistakes(self) -> None:
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
        student_from(self.student, seed=self.random_state)
        check_queries(self.queries)

    def read_pool(self, X_public: Samples) -> tuple[Schema, Samples]:
        """The schema, which the pool fixes unless one is given, and the pool as it reads it."""
        schema = Schema.of(X_public) if self.schema is None else Schema.given(self.schema)
        pool = schema.pool(X_public, "X_public")
        if not len(pool):
            raise InvalidInput("X_public must hold at least one sample, got 0")
        return schema, pool

    def noise_source(self) -> Noise:
        return SystemNoise() if self.noise is None else copy.deepcopy(self.noise)  # a second fit replays the first

    def _protocols(self, terms: Terms, ballot: Ballot, num_records: int) -> tuple[Protocol[Any], ...]:
        if self.round_epsilon is None:
            return terms.protocols(ballot, num_records)
        epsilon = exact(self.round_epsilon, "round_epsilon")
        if not 0 < epsilon <= terms.epsilon:
            raise InvalidInput(f"round_epsilon must lie in (0, {float(terms.epsilon):g}], got {self.round_epsilon!r}")
        # A record pays for the votes it casts: all of them cost it its part of the round, whatever a neighbour shares.
        share = Fraction(ballot.cells_changed(terms.neighbours), ballot.cells_per_record)
        each = epsilon * share / terms.neighbours.records_changed
        return (CentralLaplace(ballot=ballot, neighbours=terms.neighbours, epsilon=each),) * self.rounds

    def terms(self) -> Terms:
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
        if not issparse(X):
            X = taken(X, "X")
        if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "fiubc":
            raise InvalidInput(f"samples must have shape (n, dim), got {X.shape}. Reshape your data")
        if issparse(X):
            raise TypeError("sparse samples are not supported: pass a dense array, or text and tables as they are")
        numbers = getattr(X, "dtype", None) is not None and np.asarray(X).dtype.kind in "fiubc" and np.ndim(X) <= 2
        try:
            if not numbers:
                return X
            # What a record holds is not looked at here; an empty collection is refused where its size is public.
            return validate_data(self, X, reset=reset, ensure_all_finite=False, ensure_min_samples=0)
        except ValueError as fault:
            raise InvalidInput(first_line(fault)) from fault

    def _folder(self, pool: Samples, known: Mapping[str, Any]) -> Checkpoint | NoFolder:
        """The run's folder, which belongs to these settings, this pool and what is publicly known of the records."""
        if self.run_dir is None:
            return NoFolder()
        free = {"ledger", "budget_epsilon", "budget_delta", "run_dir", "noise", "progress", "schema"}
        if self.rounds == 1:
            free |= AFTERWARDS
        facts = {
            name: value if isinstance(value, str | int | float | bool | None) else repr(value)
            for name, value in {**self.get_params(deep=False), "encoder": opened(self.encoder)}.items()
            if name not in free
        }
        return Checkpoint.open(self.run_dir, {**facts, **known, "pool": fingerprint(pool)})

    def _public_number(self, terms: Terms, num_records: int) -> int:
        """What may be known about the number of records: the number itself where it is public, else a public guess."""
        if self.expected_records is not None:
            whole(expected_records=self.expected_records)
        if terms.neighbours is Neighbours.REPLACE:
            return num_records
        if self.expected_records is None and terms.trust is Trust.SHUFFLE:
            raise InvalidInput(
                f"{terms.trust} trust needs expected_records under add-remove, where their number is private"
            )
        return self.expected_records or 1  # central protocols do not depend on it

    def _room_for(self, terms: Terms, num_records: int) -> int:
        """The public number that protocols are made for. A secure sum must have room for any number of records."""
        public = self._public_number(terms, num_records)
        hidden = terms.trust is Trust.DISTRIBUTED and terms.neighbours is not Neighbours.REPLACE
        return MOST_RECORDS if hidden else public

    def _num_queries(self, terms: Terms, num_records: int, pool_size: int, num_classes: int) -> int:
        if isinstance(self.queries, Queries):
            return len(self.queries)
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
            num_classes=num_classes,
            votes_per_record=self.votes_per_record,
            labels_per_record=self.labels_per_record,
        )

    def _material(self, X: Samples) -> Samples:
        X = self.schema_.pool(self._samples(X, reset=False), "X")
        return encode_public(self.encoder_, X, manner=self.manner_) if self.student_input == "vectors" else X
