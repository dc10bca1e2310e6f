"""What a run's owner asks for, and how a run's design follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recordwise.account import Account, OpenAccount
from recordwise.checkpoint import Checkpoint, NoFolder, begun_with, first_asked
from recordwise.data import Samples, Schema, taken
from recordwise.data.declared import as_categories
from recordwise.design import Design
from recordwise.encoders import encoder_from
from recordwise.encoders.spec import opened
from recordwise.errors import MOST_RECORDS, InvalidInput
from recordwise.hashing import fingerprint
from recordwise.labels import DecoderSettings
from recordwise.planner import Outlook, look, recommend_queries, refuse_noise
from recordwise.privacy.guarantee import Neighbours, Trust, exact
from recordwise.privacy.noise import Noise
from recordwise.protocols.protocol import Protocol
from recordwise.protocols.terms import Terms, TrustSettings
from recordwise.queries import Queries, QuerySettings, queries_from
from recordwise.records import (
    Records,
    RecordSettings,
    as_labels,
    check_labels,
    check_names,
    public_classes,
    read_labels,
)
from recordwise.settings import AUTO
from recordwise.students import StudentSettings
from recordwise.votes import Ballot

MOST_AUTO = 3  # rounds, each at an equal share of the budget, where the release decides how many are asked
# Who pays, and where things lie: a run may go on with others, as far as its account allows.
FREE = {
    "account.ledger", "account.budget_epsilon", "account.budget_delta", "account.run_dir", "account.go_on",
    "records.schema",
}  # fmt: skip
# What happens to a release afterwards. No question depends on it unless another round follows, so it may change on
# resume, at no cost.
AFTERWARDS = ("decoder", "student", "queries.focus")
# What was so before it was a setting.
ONCE = {"queries.focus": 0.5}


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
    account: OpenAccount
    noise: Noise
    parties: int
    senders: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class RunSettings:
    """What a run's owner asks for: the parameters of `PrivateDistiller`, read and checked. Public."""

    terms: Terms
    trust: TrustSettings
    encoder: Any
    num_queries: int | str
    queries: Any
    votes_per_record: int
    classes: ArrayLike | None
    decoder: DecoderSettings
    student: StudentSettings
    records: RecordSettings
    account: Account
    random_state: int
    stops: bool = False

    @classmethod
    def given(cls, parameters: Mapping[str, Any]) -> RunSettings:
        """What the parameters say; a mistake in one of them is refused here."""
        asked = dict(parameters)
        trust = TrustSettings.given(asked.pop("trust"))
        rounds = asked.pop("rounds")
        stops = isinstance(rounds, str) and rounds == AUTO
        terms = Terms(
            epsilon=exact(asked.pop("epsilon"), "epsilon"),
            delta=exact(asked.pop("delta"), "delta"),
            neighbours=asked.pop("neighbours"),
            trust=trust.name,
            mechanism=asked.pop("mechanism"),
            rounds=MOST_AUTO if stops else rounds,
            parties=trust.parties,
            colluding=trust.colluding,
        )
        seed = asked["random_state"]
        if not (isinstance(seed, int | np.integer) and seed >= 0):
            raise InvalidInput(f"random_state must be a whole number >= 0, got {seed!r}")
        read = {
            "queries": queries_from(asked["queries"]),
            "decoder": DecoderSettings.given(asked["decoder"]),
            "student": StudentSettings.given(asked["student"]),
            "records": RecordSettings.given(asked["records"]),
            "account": Account.given(asked["account"]),
        }
        made = cls(terms=terms, trust=trust, stops=stops, **(asked | read))
        if made.classes is not None:
            made.placed_student(made.public_classes())
        return made

    def values(self) -> dict[str, Any]:
        """Every setting by its full name, such as "trust.parties", in the order of the parameters."""
        terms = self.terms
        asked: dict[str, Any] = {
            "epsilon": float(terms.epsilon),
            "delta": float(terms.delta),
            "neighbours": terms.neighbours,
        }
        asked |= {**self.trust.values(), "mechanism": terms.mechanism, "encoder": self.encoder}
        asked |= {"num_queries": self.num_queries}
        asked |= self.queries.values() if isinstance(self.queries, QuerySettings) else {"queries": self.queries}
        asked |= {"votes_per_record": self.votes_per_record, "classes": self.classes}
        asked |= {"rounds": AUTO if self.stops else terms.rounds}
        for part in (self.decoder, self.student, self.records, self.account):
            asked |= part.values()
        return asked | {"random_state": self.random_state}

    def read_pool(self, X_public: Samples) -> tuple[Schema, Samples]:
        """The schema, which the pool fixes unless one is given, and the pool as it reads it."""
        given, X_public = self.records.schema, taken(X_public, "X_public")
        schema = Schema.of(X_public) if given is None else Schema.given(given)
        schema = as_categories(schema, X_public, self.records.categorical)
        pool = schema.pool(X_public, "X_public")
        if not len(pool):
            raise InvalidInput("X_public must hold at least one sample, got 0")
        return schema, pool

    def public_classes(self, labels: Any = None) -> NDArray[Any]:
        """The list of classes: as declared, or read off the labels, which makes it public."""
        return public_classes(labels, classes=self.classes, labels_per_record=self.records.labels_per_record)

    def placed_student(self, classes: NDArray[Any]) -> StudentSettings:
        """The student, with what was said of classes by name said by their places."""
        return self.student.placed(classes, several=self.records.labels_per_record > 1)

    def prepare(self, X: Samples, y: ArrayLike | None, *, X_public: Samples, noise: Noise) -> Prepared:
        """All that a run on these records needs before it begins; a mistake in what is public is refused here."""
        schema, pool = self.read_pool(X_public)
        schema.check_form(X)
        hidden = self.terms.neighbours is not Neighbours.REPLACE
        if not len(X) and not hidden:
            raise InvalidInput("X must hold at least one sample, got 0")
        held = as_labels(y, len(X))
        classes, most = self.public_classes(held), self.records.labels_per_record
        check_labels(held, len(classes), most)
        if most == 1:
            check_names(held, classes)
        labels, unlabelled = read_labels(held, classes, most)
        records = Records(X, labels, unlabelled, pool=pool, overlap=self.records.overlap)
        design = self.design(pool, schema, classes, num_records=len(records))
        if noise.private:  # else there is no budget to burn
            self.refuse_noise(design, pool, num_records=self.records.expected if hidden else len(records))
        return Prepared(
            records=records,
            pool=pool,
            classes=classes,
            design=design,
            account=self.open_account(design, pool, classes, num_records=len(records), noise=noise),
            noise=noise,
            parties=self.trust.parties,
            senders=self._public_number(0) if hidden and self.terms.trust is Trust.SHUFFLE else None,
        )

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
        if protocols is None:
            protocols = self._protocols(self.ballot(pool, classes, num_records=num_records), num_records)
        if protocols[0].ballot.num_queries > len(pool):
            raise InvalidInput(
                f"num_queries must be <= the pool's {len(pool)} samples, got {protocols[0].ballot.num_queries}"
            )
        return Design(
            protocols=protocols,
            schema=schema,
            encoder=encoder_from(self.encoder, pool, seed=self.random_state),
            queries=self.queries,
            decoder=self.decoder,
            student=self.placed_student(classes),
            num_records=num_records if self.terms.neighbours is Neighbours.REPLACE else None,
            seed=self.random_state,
            stops=self.stops,
        )

    def ballot(self, pool: Samples, classes: NDArray[Any], *, num_records: int) -> Ballot:
        """What records may vote for."""
        return Ballot(
            num_queries=self._num_queries(num_records, pool, classes),
            num_classes=len(classes),
            votes_per_record=self.votes_per_record,
            labels_per_record=self.records.labels_per_record,
        )

    def refuse_noise(self, design: Design, pool: Samples, *, num_records: int | None) -> None:
        """Stop a new run whose budget would go on noise, unless it is told to go on. Nothing private is looked at.

        Args:
          num_records: As far as is public; None where nobody says.
        """
        ballot, folder = design.protocols[0].ballot, self.account.run_dir
        plannable = ballot.labels_per_record == 1 < ballot.num_classes < len(pool)
        begun = folder is not None and begun_with(Path(folder)) is not None
        if self.account.go_on or begun or not num_records or not plannable:
            return
        about = {"num_records": num_records, "num_classes": ballot.num_classes, **self._setup(design.student)}
        refuse_noise(design.protocols, num_records, lambda: look(pool, **about))

    def open_account(
        self, design: Design, pool: Samples, classes: NDArray[Any], *, num_records: int, noise: Noise
    ) -> OpenAccount:
        """From here on the run has a folder and a budget; before, nothing is written."""
        facts: dict[str, Any] = {
            "classes": [str(name) for name in classes],
            "private": noise.private,
            "schema": design.schema.as_dict(),
        }
        if design.num_records is not None:
            facts["number of records"] = design.num_records
        folder = self._folder(pool, facts)
        return OpenAccount.open(self.account, self.terms, folder=folder, noise=noise, num_records=num_records)

    def _folder(self, pool: Samples, known: Mapping[str, Any]) -> Checkpoint | NoFolder:
        """The run's folder, which belongs to these settings, this pool and what is publicly known of the records."""
        if self.account.run_dir is None:
            return NoFolder()
        facts = {
            name: value if isinstance(value, str | int | float | None) else repr(value)
            for name, value in {**self.values(), "encoder": opened(self.encoder)}.items()
            if name not in FREE and not (self.terms.rounds == 1 and name.startswith(AFTERWARDS))
        }
        if isinstance(self.queries, Queries):
            facts["queries"] = fingerprint(vars(self.queries))
        return Checkpoint.open(self.account.run_dir, {**facts, **known, "pool": fingerprint(pool)}, once=ONCE)

    def _protocols(self, ballot: Ballot, num_records: int) -> tuple[Protocol[Any], ...]:
        if self.account.round_epsilon is not None:
            return self.terms.protocols_paid_by_vote(ballot, exact(self.account.round_epsilon, "round_epsilon"))
        return self.terms.protocols(ballot, self._room_for(num_records))

    def _public_number(self, num_records: int) -> int:
        """What may be known about the number of records: the number itself where it is public, else a public guess."""
        if self.terms.neighbours is Neighbours.REPLACE:
            return num_records
        if self.records.expected is None and self.terms.trust is Trust.SHUFFLE:
            raise InvalidInput(
                f"{self.terms.trust} trust needs records.expected under add-remove, where their number is private"
            )
        return self.records.expected or 1  # central protocols do not depend on it

    def _room_for(self, num_records: int) -> int:
        """The public number that protocols are made for. A secure sum must have room for any number of records."""
        public = self._public_number(num_records)
        hidden = self.terms.trust is Trust.DISTRIBUTED and self.terms.neighbours is not Neighbours.REPLACE
        return MOST_RECORDS if hidden else public

    def _num_queries(self, num_records: int, pool: Samples, classes: NDArray[Any]) -> int:
        if isinstance(self.queries, Queries):
            return len(self.queries)
        if self.num_queries != AUTO:
            return self.num_queries  # type: ignore[return-value]  # the ballot checks it
        if self.records.expected is None and self.terms.neighbours is Neighbours.ADD_REMOVE:
            raise InvalidInput(
                "num_queries='auto' needs records.expected under add-remove, where the number of records is private"
            )
        # Once something was released the number is settled: another machine or version might recommend another.
        if self.account.run_dir is not None and isinstance(asked := first_asked(Path(self.account.run_dir)), Queries):
            return len(asked)
        return recommend_queries(
            self.terms,
            pool,
            num_records=self._public_number(num_records),
            num_classes=len(classes),
            votes_per_record=self.votes_per_record,
            **(self._setup(self.placed_student(classes)) | {"seed": 0}),  # one answer for all seeds, found once
        )

    def outlook(
        self,
        X_public: Samples,
        *,
        num_records: int | None = None,
        y_public: ArrayLike | None = None,
        class_shares: ArrayLike | None = None,
        attainable: float | None = None,
    ) -> Outlook:
        """All that a plan of this run looks at; see `PrivateDistiller.plan`."""
        if self.classes is None:
            raise InvalidInput("a plan needs the public list of classes: declare it as classes")
        expected = self.records.expected if num_records is None else num_records
        if expected is None:
            raise InvalidInput("a plan needs a public number of records: num_records, or records.expected")
        _, pool = self.read_pool(X_public)
        classes, labels = self.public_classes(), None
        if y_public is not None:
            place = {str(name): number for number, name in enumerate(classes.tolist())}
            labels = np.array([place.get(str(one), -1) for one in np.asarray(y_public).tolist()], dtype=np.int64)
        return look(
            pool,
            num_classes=len(classes),
            num_records=expected,
            labels=labels,
            class_shares=class_shares,
            attainable=attainable,
            **self._setup(self.placed_student(classes)),
        )

    def _setup(self, student: StudentSettings) -> dict[str, Any]:
        """What a plan must know of this run's own settings."""
        return {
            "encoder": self.encoder,
            "labels_per_record": self.records.labels_per_record,
            "queries": self.queries,
            "decoder": self.decoder,
            "student": student,
            "seed": self.random_state,
        }
