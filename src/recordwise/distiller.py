"""The method as a scikit-learn classifier: a thin shell around `recordwise.pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from recordwise.account import Account, OpenAccount
from recordwise.data import Samples, taken
from recordwise.data.held import labels_in
from recordwise.design import Design
from recordwise.errors import InvalidInput, first_line, hidden
from recordwise.fits import count_fit
from recordwise.hashing import digest, fingerprint
from recordwise.labels import ABSTAIN, DecoderSettings
from recordwise.pipeline import Distilled, Question, Round, Voters, distil, release, vote
from recordwise.planner import BudgetPlan
from recordwise.planner import plan as make_plan
from recordwise.privacy.noise import Noise, SystemNoise
from recordwise.progress import Progress, step
from recordwise.protocols.release import Release
from recordwise.protocols.terms import TrustSettings
from recordwise.published import Published
from recordwise.queries.spec import KMEANS
from recordwise.records import RecordSettings
from recordwise.run_settings import Prepared, RunSettings
from recordwise.settings import AUTO
from recordwise.sklearn_steps import refuse_fitted_steps
from recordwise.verdict import verdict_on


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
    a budget each time, which a ledger keeps count of (`account`); without one, a warning tells what the fits of this
    process cost together. In a scikit-learn `Pipeline`, steps before this one must be frozen: what they learn from
    private records is protected by nothing. Under other trusts than central, `fit` plays all parties in one process,
    which sees every vote; `recordwise.federation` puts them on different machines.

    The list of classes is taken as public. Declare it with `classes`; otherwise it is read off `y`. So is the form of X
    and y: columns, an array's shape and the type of its numbers. `schema_` says how a record is read.

    Six parameters take a name, settings as a mapping, or an object; a job file writes the same words, the mapping as a
    table.

    Args:
      epsilon: The privacy budget of the whole fit, all rounds together.
      delta: Zero for pure differential privacy.
      neighbours: "replace" (one record by another) or "add-remove".
      trust: Who may see votes without noise: "central", "distributed", "local" or "shuffle"; or `TrustSettings`, such
        as {"name": "distributed", "parties": 5}.
      mechanism: "auto", or a name that `protocols.registry.names` lists for that trust.
      encoder: A name ("auto", "scaler", "pca", "hog", "text", "table"), a file of weights, a scikit-learn transformer
        or a torch module; `encoders.encoder_from` lists all.
      num_queries: How many queries a round asks, or "auto" for the planner's choice.
      queries: What the first round asks: "kmeans"; `QuerySettings`, such as {"metric": "cosine", "max_distance": 0.5};
        ready `Queries`; or an object with `ask(pool)`.
      votes_per_record: How many queries each record votes for (k).
      classes: The public list of classes; None reads it off `y`.
      rounds: How many times queries are asked; each round costs an equal share of the budget. "auto" asks at most
        three times, and again only where what was released says that it pays (`recordwise.students.again`); what is
        not asked is not charged.
      decoder: How labels are read off a release; "auto" follows the evidence in the documentation. Or
        `DecoderSettings`, such as {"min_confidence": 0.8}.
      student: "counts" (explains the whole released table: linear, with a small network where the release is clearly
        likelier with it; learns labels where a release has no counts), another name ("linear", "mlp"), a scikit-learn
        classifier or a torch module; or `StudentSettings`, such as {"model": network, "input": "samples"}.
      records: `RecordSettings`: the records' schema, what copies of pool samples do, how many records are expected and
        how many labels one may have.
      account: `Account`: the ledger and budget that pay, and the folder of a run that can go on.
      random_state: Seeds clustering and the student, never the noise.

    Attributes:
      guarantee_: What the whole fit promises any one record; prints as the sentence to publish.
      student_: The classifier that was taught; `predict` and `predict_proba` ask it.
      classes_: The public list of classes.
      rounds_: For each round the queries, the release and the labels read off it.
      verdict_: How far the labels can be relied on, as far as the release itself shows; prints as a line, and one
        more for each thing to look at.
      mechanism_: The mechanism that was used, in words.
      pool_labels_: (m,) each pool sample's class, as `classes` names it. Where some have none, the array holds objects,
        and None for them. Where a sample may have several, an (m, C) 0/1 matrix, as `predict` gives. Of a student of
        labels it is the label of the sample's query, over several rounds of the surer ones, and need not be the
        likeliest in `pool_probabilities_`, which are expected shares.
      pool_places_: (m,) the same as places in `classes_`, -1 where a sample has none; the likeliest of several.
      pool_probabilities_: (m, C) of each class, for each pool sample.
      pool_confidence_: (m,) the chance that each pool sample's label is right, as in `Labels`.
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
        trust: str | Mapping[str, Any] | TrustSettings = "central",
        mechanism: str = "auto",
        encoder: Any = "auto",
        num_queries: int | str = "auto",
        queries: Any = KMEANS,
        votes_per_record: int = 1,
        classes: ArrayLike | None = None,
        rounds: int | str = 1,
        decoder: str | Mapping[str, Any] | DecoderSettings = "auto",
        student: Any = "counts",
        records: Mapping[str, Any] | RecordSettings | None = None,
        account: Mapping[str, Any] | Account | None = None,
        random_state: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.neighbours = neighbours
        self.trust = trust
        self.mechanism = mechanism
        self.encoder = encoder
        self.num_queries = num_queries
        self.queries = queries
        self.votes_per_record = votes_per_record
        self.classes = classes
        self.rounds = rounds
        self.decoder = decoder
        self.student = student
        self.records = records
        self.account = account
        self.random_state = random_state

    def __repr__(self, N_CHAR_MAX: float = 700) -> str:
        """What scikit-learn shows, whole, without the password of the ledger's URL."""
        return hidden(super().__repr__(N_CHAR_MAX=float("inf")))

    def _html_repr(self) -> str:
        """In a notebook: what scikit-learn shows; once fitted, under what was promised and what came of it."""
        settings = hidden(super()._html_repr())
        if not hasattr(self, "verdict_"):
            return settings
        verdict, promise = self.verdict_, self.guarantee_
        lines = (f"<b>{escape(str(verdict))}</b>", escape(str(promise)), escape(promise.as_odds()))
        return (
            '<div style="border-left: 4px solid #4a5fc1; padding: 2px 14px; max-width: 56em">'
            + "".join(f'<p style="margin: 6px 0">{line}</p>' for line in lines)
            + f"</div><details><summary>settings</summary>{settings}</details>"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def settings(self) -> RunSettings:
        """The parameters, read and checked."""
        return RunSettings.given(self.get_params(deep=False))

    def fit(
        self,
        X: Samples,
        y: ArrayLike | None,
        *,
        X_public: Samples,
        noise: Noise | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Label the public pool with the private records (X, y), and teach a student on it.

        Samples are arrays, lists, frames of pandas or polars, tables of pyarrow, datasets of Hugging Face, tensors and
        datasets of PyTorch, or sparse matrices.

        Args:
          y: The records' labels; None where X is a PyTorch dataset of pairs (sample, label).
          noise: Where the privacy noise comes from; None is the operating system. A seeded source is for experiments:
            everything it touches is marked not private.
          progress: Shows the steps as they go.
        """
        refuse_fitted_steps()
        with step(progress, "read and plan"):
            run = self.prepare(X, y, X_public=X_public, noise=SystemNoise() if noise is None else noise)

        def voters(question: Question) -> Release:
            if run.account.ledger is None and run.noise.private and question.round == 1:
                count_fit(run.records.samples, self.guarantee_)
            cast = vote(run.records, question, progress)
            votes = run.account.admit(cast, question.protocol, whose=run.records.fingerprint)
            return release(votes, question.protocol, run.noise, parties=run.parties, senders=run.senders)

        self.in_one_process_ = True
        return self.fit_with(voters, run.pool, run.design, run.account, run.classes, progress)

    def prepare(self, X: Samples, y: ArrayLike | None, *, X_public: Samples, noise: Noise) -> Prepared:
        """All that a run needs before it begins; a mistake in what is public is refused here."""
        settings = self.settings
        y, X_public = labels_in(X) if y is None else y, taken(X_public, "X_public")
        run = settings.prepare(self._samples(X, reset=True), y, X_public=X_public, noise=noise)
        for name in ("n_features_in_", "feature_names_in_"):  # what `fit` leaves about columns is the pool's
            self.__dict__.pop(name, None)
        if np.ndim(X_public) == 2:
            validate_data(self, X_public, reset=True, skip_check_array=True)
        return run

    def fit_with(
        self,
        voters: Voters,
        pool: Samples,
        design: Design,
        account: OpenAccount,
        classes: NDArray[Any],
        progress: Progress | None = None,
    ) -> Self:
        """Run the pipeline with records that lie wherever `voters` finds them."""
        self.classes_, self.schema_ = classes, design.schema
        self.mechanism_ = design.protocols[0].title
        self.guarantee_ = account.guarantee(self.settings.terms.guarantee(design.protocols))
        self.rounds_: list[Round] = []
        return self.take(distil(pool, design, voters, account, progress=progress, on_round=self.rounds_.append), pool)

    def take(self, found: Distilled, pool: Samples) -> Self:
        """Become what a run of the pipeline has left."""
        self.encoder_, self.manner_, self.rounds_ = found.encoder, found.manner, list(found.rounds)
        self.student_, self.pool_places_ = found.taught.student, found.taught.labels
        self.pool_probabilities_, self.pool_confidence_ = found.taught.probabilities, found.taught.confidence
        self.learnt_ = found.taught.learnt
        self.verdict_ = verdict_on(found.rounds, found.taught, self.classes_.tolist(), found.num_records)
        self.pool_labels_ = self._named_labels()
        self.hashes_ = {
            "pool": fingerprint(pool),
            "schema": self.schema_.digest,
            "encoder": fingerprint(self.encoder_),
        }
        for number, one in enumerate(self.rounds_, start=1):
            self.hashes_[f"queries, round {number}"] = digest(one.queries.vectors)
        return self

    def _named_labels(self) -> NDArray[Any]:
        if self.settings.records.labels_per_record > 1:
            return (self.pool_probabilities_ > 0.5).astype(np.int64)
        named, silent = self.classes_[self.pool_places_], self.pool_places_ == ABSTAIN
        if silent.any():
            named = named.astype(object)
            named[silent] = None
        return named

    def predict(self, X: Samples) -> NDArray[Any]:
        """The student's class for each sample; a 0/1 matrix of classes where a record may have several."""
        return self.published().predict(self._samples(X, reset=False))

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) the student's probabilities, in the order of `classes_`."""
        return self.published().predict_proba(self._samples(X, reset=False))

    def plan(
        self,
        X_public: Samples,
        *,
        num_records: int | None = None,
        y_public: ArrayLike | None = None,
        class_shares: ArrayLike | None = None,
        attainable: float | None = None,
        progress: Progress | None = None,
    ) -> BudgetPlan:
        """What this budget buys on this pool, and how many queries to ask; nothing private is looked at.

        Args:
          num_records: How many records will be fitted; `records.expected` when None.
          y_public: (m,) classes of pool samples, where some are known; anything that is no declared class elsewhere.
          class_shares: (C,) how common the classes are, in the order of `classes`, where that is public.
          attainable: How often a student is right that is taught true labels, where somebody knows.
          progress: Shows the steps as they go.
        """
        settings = self.settings
        outlook = settings.outlook(
            X_public, num_records=num_records, y_public=y_public, class_shares=class_shares, attainable=attainable
        )
        sizes = None if settings.num_queries == AUTO else (int(settings.num_queries),)
        return make_plan(outlook, settings.terms, num_queries=sizes, progress=progress)

    def published(self) -> Published:
        """The student and what it needs to read a sample, without what only its owner needs; `recordwise.save` it."""
        check_is_fitted(self, "student_")
        return Published(
            schema=self.schema_,
            encoder=self.encoder_,
            manner=self.manner_,
            student=self.student_,
            student_input=self.settings.student.input,
            classes_=self.classes_,
            guarantee_=self.guarantee_,
        )

    def _samples(self, X: Samples, *, reset: bool) -> Samples:
        """Samples as they came; rows of numbers are held to scikit-learn's rules."""
        X = taken(X, "X")
        if isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype.kind in "fiubc":
            raise InvalidInput(f"samples must have shape (n, dim), got {X.shape}. Reshape your data")
        numbers = getattr(X, "dtype", None) is not None and np.asarray(X).dtype.kind in "fiubc" and np.ndim(X) <= 2
        try:
            if not numbers:
                return X
            # What a record holds is not looked at here; an empty collection is refused where its size is public.
            return validate_data(self, X, reset=reset, ensure_all_finite=False, ensure_min_samples=0)
        except ValueError as fault:
            raise InvalidInput(first_line(fault)) from fault
