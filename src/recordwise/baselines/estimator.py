"""What all alternatives share: read records one by one, pay, release once, and go on from the release alone.

A method of this folder differs from another in three functions: `prepare`, which sees the pool, `release`, the only one
that sees records, and `learn`, which sees what was released and what is public. Whatever `fit` leaves behind comes from
`learn`.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from recordwise.account import Account
from recordwise.checkpoint import Checkpoint, NoFolder
from recordwise.data import Samples, Schema, taken
from recordwise.encoders import encode, encode_public, encoder_from, how_encoded
from recordwise.errors import InvalidInput, positive, probability
from recordwise.fits import count_fit
from recordwise.formats import Archive
from recordwise.hashing import fingerprint
from recordwise.privacy.events import Approximate, Event, Pure
from recordwise.privacy.guarantee import Guarantee, Neighbours, Unit, exact, one_of
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.noise import Noise, SystemNoise
from recordwise.progress import Progress, part, step
from recordwise.records import COPIES_VOTE, RecordSettings, as_labels, check_labels, public_classes, read_labels
from recordwise.votes import NOBODY

Released = dict[str, NDArray[Any]]
Vectors = NDArray[np.float32]
Places = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a reader must know to compare a method's epsilon with another's.

    Attributes:
      protects: What one unit of protection is.
      public: What the method needs besides records.
      rounds: Of communication with whoever holds the records.
      data_dependent: Whether an epsilon in use for this method depends on the records.
      elsewhere: What is left of it under distributed, shuffle and local trust.
    """

    protects: str
    public: str
    rounds: str
    data_dependent: str
    elsewhere: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Private:
    """Records as a method sees them: those that could be read, encoded and labelled. Never leaves `release`.

    Attributes:
      count: The public number of records: how many there are under replace-one, what is expected under add-remove.
    """

    vectors: Vectors
    labels: Places
    count: int

    def __repr__(self) -> str:
        return "Private()"


@dataclass(eq=False, repr=False)
class Rival(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is not typed
    """A private classifier that is trained otherwise than `PrivateDistiller`, with the same shape.

    Args:
      epsilon: With `delta`, what the whole fit may cost one record.
      delta: Zero is for methods with pure differential privacy alone.
      neighbours: "replace" (one record by another) or "add-remove".
      classes: The public list of classes; None reads it off `y`.
      encoder: As `PrivateDistiller` takes it; it is fitted on the pool. Without a pool vectors stay as they are.
      records: As `PrivateDistiller` takes them; `expected` is needed under add-remove, where the number of records is
        private.
      account: Who pays, as `PrivateDistiller` takes it. In the same `run_dir` the same release is given again, free.
      random_state: Seeds students and first weights, never noise or sampling.

    Attributes:
      guarantee_: What the fit promises any one record.
      released_: All that came of the records.
    """

    name: ClassVar[str] = ""
    facts: ClassVar[Facts]
    needs_pool: ClassVar[bool] = False
    may_be_pure: ClassVar[bool] = False

    epsilon: float = 1.0
    _: Any = field(init=False, default=None)  # what follows is given by name
    delta: float = field(default=1e-5, kw_only=True)
    neighbours: str = field(default="replace", kw_only=True)
    classes: ArrayLike | None = field(default=None, kw_only=True)
    encoder: Any = field(default="auto", kw_only=True)
    records: Mapping[str, Any] | RecordSettings | None = field(default=None, kw_only=True)
    account: Mapping[str, Any] | Account | None = field(default=None, kw_only=True)
    random_state: int = field(default=0, kw_only=True)

    # What a method says

    @abstractmethod
    def prepare(self, pool: Vectors | None, dim: int) -> None:
        """All that is made of the public pool alone."""

    @abstractmethod
    def release(self, private: Private, noise: Noise) -> Released:
        """Arrays that are (epsilon, delta)-DP as `guarantee_` says, whatever is done with them."""

    @abstractmethod
    def learn(self, released: Released, pool: Vectors | None) -> None:
        """A classifier from what was released; leaves what `probabilities` needs."""

    @abstractmethod
    def probabilities(self, vectors: Vectors) -> NDArray[np.float64]:
        """(n, C) of encoded samples."""

    def check(self, num_records: int, dim: int, num_classes: int) -> None:
        """Refuse public settings that cannot work, before anything is spent."""

    # What all do

    def fit(
        self,
        X: Samples,
        y: ArrayLike,
        *,
        X_public: Samples | None = None,
        noise: Noise | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train on the private records (X, y); the pool is public and needs no labels.

        Args:
          noise: Where noise and sampling come from; None is the operating system. Seeded, nothing is private.
          progress: Shows the steps as they go.
        """
        source, payer = noise or SystemNoise(), Account.given(self.account)
        self._refuse_mistakes()
        X, X_public = taken(X, "X"), None if X_public is None else taken(X_public, "X_public")
        if not len(X) and self._relation is Neighbours.REPLACE:  # elsewhere their number is private, and zero is one
            raise InvalidInput("X must hold at least one sample, got 0")
        with step(progress, "represent"):
            with part(0.0, 0.5):
                samples, pool = self._look(X, X_public)
            y = as_labels(y, len(X))
            self.classes_ = public_classes(y, classes=self.classes, labels_per_record=1)
            check_labels(y, len(self.classes_), 1)
            with part(0.5, 1.0):
                private = self._read(X, y, None if pool is None else pool.shape[1])
            dim = private.vectors.shape[1]
            self.check(private.count, dim, len(self.classes_))
            self.prepare(pool, dim)
        self.guarantee_ = self._guarantee(private=source.private)
        if payer.ledger is None and source.private:
            count_fit(X, self.guarantee_)
        folder = self._folder(payer, samples)
        with step(progress, "release"):
            self.released_ = unpack(self._pay(payer, folder, lambda: pack(self.release(private, source))))
        with step(progress, "teach"):
            self.learn(self.released_, pool)
        return self

    def _look(self, X: Samples, X_public: Samples | None) -> tuple[Samples | None, Vectors | None]:
        """The pool as the schema reads it and as vectors, where there is one; fixes schema and encoder."""
        known = RecordSettings.given(self.records)
        self.encoder_ = self.manner_ = None
        self.pool_size_ = 0
        if X_public is None:
            # Without a pool only the records could say what a column of words or a missing cell means.
            if self.needs_pool or not (np.ndim(X) == 2 and np.asarray(X).dtype.kind in "fiub"):
                raise InvalidInput(f"{self.name} needs a public pool unless it is given rows of numbers: pass X_public")
            shown = np.asarray(X)
            self.schema_ = Schema.of(np.zeros((1, shown.shape[1]), dtype=shown.dtype))
            return None, None
        self.schema_ = Schema.of(X_public) if known.schema is None else Schema.given(known.schema)
        self.schema_.check_form(X)
        with part(0, 1, 3):
            samples = self.schema_.pool(X_public, "X_public")
            self.encoder_ = encoder_from(self.encoder, samples, seed=self.random_state).fit(samples)
        with part(1, 2, 3):
            self.manner_ = how_encoded(self.encoder_, samples)
        self.pool_size_ = len(samples)
        with part(2, 3, 3):
            return samples, encode_public(self.encoder_, samples, manner=self.manner_)

    def predict_proba(self, X: Samples) -> NDArray[np.float64]:
        """(n, C) in the order of `classes_`."""
        check_is_fitted(self, "released_")
        return self.probabilities(self._public_vectors(X))

    def predict(self, X: Samples) -> NDArray[Any]:
        chosen: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return chosen

    @property
    def event(self) -> Event:
        """What a ledger is charged."""
        epsilon, delta = exact(self.epsilon, "epsilon"), self._delta()
        return Pure(epsilon) if delta == 0 else Approximate(epsilon, delta)

    @property
    def _relation(self) -> Neighbours:
        return one_of(Neighbours, neighbours=self.neighbours)

    def _delta(self) -> Fraction:
        return exact(self.delta, "delta")

    def _guarantee(self, *, private: bool) -> Guarantee:
        return Guarantee(
            epsilon=exact(self.epsilon, "epsilon"),
            delta=self._delta(),
            neighbours=self._relation,
            unit=Unit.RECORD,
            private=private,
        )

    def _refuse_mistakes(self) -> None:
        positive(epsilon=self.epsilon)
        if self.delta or not self.may_be_pure:
            probability(delta=self.delta)
        known = RecordSettings.given(self.records)
        if known.expected is None and self._relation is Neighbours.ADD_REMOVE:
            raise InvalidInput(f"{self.name} needs records.expected under add-remove, where their number is private")
        if known.labels_per_record != 1 or known.overlap != COPIES_VOTE:
            raise InvalidInput(f"{self.name} takes one label per record and lets copies of pool samples take part")
        if Account.given(self.account).round_epsilon is not None:
            raise InvalidInput(f"{self.name} has no rounds: account.round_epsilon must be left out")

    def _read(self, X: Samples, y: Any, dim: int | None) -> Private:
        """Each record by itself, as the public schema and encoder read it; one that cannot be read takes no part."""
        read = self.schema_.read(X)
        if self.encoder_ is None:
            vectors = np.asarray(read.samples, dtype=np.float32)
        else:
            vectors = encode(self.encoder_, read.samples, manner=self.manner_, dim=dim)
        numbers, _ = read_labels(y, self.classes_, 1)
        usable = read.readable & np.isfinite(vectors).all(axis=1) & (numbers[:, 0] != NOBODY)
        expected = RecordSettings.given(self.records).expected or 1
        count = len(X) if self._relation is Neighbours.REPLACE else int(expected)
        return Private(vectors=vectors[usable], labels=numbers[usable, 0].astype(np.int64), count=count)

    def _public_vectors(self, X: Samples) -> Vectors:
        samples = self.schema_.pool(X, "X")
        if self.encoder_ is None:
            return np.asarray(samples, dtype=np.float32)
        return encode_public(self.encoder_, samples, manner=self.manner_)

    def _folder(self, payer: Account, pool: Samples | None) -> Checkpoint | NoFolder:
        """The run's folder, which belongs to these settings and this pool."""
        if payer.run_dir is None:
            return NoFolder()
        facts = {
            name: value if isinstance(value, str | int | float | bool | None) else repr(value)
            for name, value in self.get_params(deep=False).items()
            if name not in ("account", "records")
        }
        held = {"pool": None if pool is None else fingerprint(pool), "method": self.name}
        return Checkpoint.open(payer.run_dir, {**facts, **held, "private": self.guarantee_.private})

    def _pay(self, payer: Account, folder: Checkpoint | NoFolder, produce: Callable[[], bytes]) -> bytes:
        """What `produce` makes, paid for; or what it made the first time in this folder."""
        ledger = self._ledger(payer)
        who = "no ledger" if ledger is None else ledger.identity(payer.budget)
        folder.refuse_other_payer(who)

        def bound() -> bytes:
            released = produce()
            folder.bind(1, who)
            return released

        if ledger is None:
            return folder.keep("release-1", bound)
        key, note = f"{folder.run_id}/{self.name}", folder.name or self.name
        return ledger.release(payer.budget, key, self.event, self.guarantee_, bound, note)

    def _ledger(self, payer: Account) -> Ledger | None:
        if payer.ledger is None:
            return None
        ledger = Ledger.open(payer.ledger, create=payer.budget_epsilon is not None)
        if payer.budget_epsilon is not None:
            ledger.open_budget(
                payer.budget,
                epsilon=exact(payer.budget_epsilon, "account.budget_epsilon"),
                delta=exact(payer.budget_delta, "account.budget_delta"),
                neighbours=self.guarantee_.neighbours,
            )
        return ledger


def pack(released: Released) -> bytes:
    """Arrays as bytes for a ledger."""
    held = io.BytesIO()
    np.savez_compressed(held, **released)  # type: ignore[arg-type]  # numpy's stub knows no such mapping
    return held.getvalue()


def unpack(content: bytes) -> Released:
    """What `pack` packed."""
    with Archive(content, what="a release") as held:
        return dict(held)
