"""A run as a file: what to read, what it may cost, how to do it, where to put the results.

    name = "wards"                    # optional; the file's name otherwise

    [private]                         # the records to protect
    path = "records.parquet"
    labels = "diagnosis"

    [public]                          # the pool to label
    path = "pool.parquet"

    [test]                            # optional; public, or at least not protected by this run
    path = "test.parquet"
    labels = "diagnosis"

    [privacy]
    epsilon = 0.5

    [method]
    classes = ["flu", "cold", "neither"]
    student = "linear"                # or with settings: {name = "mlp", hidden = [64]}

    [records]                         # optional: schema, overlap, categorical, expected, labels_per_record
    overlap = "abstain"

    [account]                         # who pays; without it the run keeps a ledger of its own
    ledger = "ledger.sqlite"
    budget = "patients-2026"

    [plan]                            # optional: what is publicly known of the task
    class_shares = [0.6, 0.3, 0.1]
    attainable = 0.9                  # how often a student is right that is taught true labels

    [compare]                         # optional, for `recordwise compare`: methods, epsilons, delta
    methods = ["recordwise", "dp-linear", {name = "gnmax", teachers = 100}]

Paths are relative to the file. Every other key has a default. Below [privacy] and [method] the keys are the parameters
of `PrivateDistiller`; [records] and [account] are two of them, and wherever a parameter takes settings, a table is
them.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from numpy.typing import NDArray
from pydantic import AfterValidator, PlainValidator, model_validator

from recordwise.account import Account
from recordwise.data.declared import as_categories
from recordwise.data.samples import Loaded, Samples
from recordwise.data.schema import Schema
from recordwise.encoders.spec import located, opened
from recordwise.errors import InvalidInput
from recordwise.labels import DecoderSettings
from recordwise.progress import part
from recordwise.protocols.terms import TrustSettings
from recordwise.queries import QuerySettings, queries_from
from recordwise.records import RecordSettings
from recordwise.sections import Section, Source, read_settings
from recordwise.students import StudentSettings

MOST_NAME = 200


class Privacy(Section):
    """What the run may cost; the names are `PrivateDistiller`'s."""

    epsilon: float
    delta: float = 0.0
    neighbours: Literal["replace", "add-remove"] = "replace"
    trust: Annotated[TrustSettings, PlainValidator(TrustSettings.given)] = TrustSettings()
    mechanism: str = "auto"


class Method(Section):
    """How the pool is labelled and the student taught; the names are `PrivateDistiller`'s."""

    encoder: str | dict[str, Any] | list[str | dict[str, Any]] = "auto"
    num_queries: int | Literal["auto"] = "auto"
    queries: Annotated[Any, PlainValidator(queries_from)] = QuerySettings()
    votes_per_record: int = 1
    classes: list[int] | list[str]
    rounds: int | Literal["auto"] = 1
    decoder: Annotated[DecoderSettings, PlainValidator(DecoderSettings.given)] = DecoderSettings()
    student: Annotated[StudentSettings, PlainValidator(StudentSettings.given)] = StudentSettings()
    random_state: int = 0


class Planning(Section):
    """What is publicly known of the task, for a plan. Nothing else depends on it, but for num_queries = "auto"."""

    class_shares: list[float] | None = None
    attainable: float | None = None


def _nameable(name: str) -> str:
    """A run's name, which is also its folder's: one that stays where it is put."""
    if not name.isprintable() or len(name) > MOST_NAME or set("/\\") & set(name) or name in (".", ".."):
        raise ValueError(f"must be up to {MOST_NAME} printable characters without slashes")
    return name


class RunFile(Section):
    """What a run in one place and a run over silos have in common."""

    name: Annotated[str, AfterValidator(_nameable)] = ""
    out: Path | None = None
    public: Source
    test: Source | None = None
    privacy: Privacy
    method: Method
    plan: Planning = Planning()
    records: Annotated[RecordSettings, PlainValidator(RecordSettings.given)] = RecordSettings()
    account: Annotated[Account, PlainValidator(Account.given)] = Account()

    @model_validator(mode="after")
    def _one_folder(self) -> Self:
        if self.account.run_dir is not None:
            raise ValueError("the folder of a run is `out`, not account.run_dir")
        return self

    def read_pool(self, public: Loaded | None = None) -> tuple[Schema, Samples]:
        """How samples are read, as the file says or as its pool fixes, and the pool, read so."""
        public = self.public.read("public") if public is None else public
        declared = self.records.schema
        with part(0.0, 0.5):
            schema = Schema.of_loaded(public) if declared is None else Schema.given(declared)
            schema = as_categories(schema, public.samples, self.records.categorical)
        with part(0.5, 1.0):
            return schema, schema.pool(public.samples, "[public] samples")

    def settings(self) -> dict[str, Any]:
        """The parameters of the `PrivateDistiller` that the file asks for."""
        asked = {**dict(self.privacy), **dict(self.method), "encoder": opened(self.method.encoder)}
        return asked | {"records": self.records, "account": self.account}


class Compare(Section):
    """What `recordwise compare` sets beside our method; what is not said is as the rest of the file says.

    Attributes:
      methods: Names, or tables with a name and settings of that method; all there are, if none is named.
      epsilons: At which all are compared, each at its own cost; [privacy]'s, if none is named.
      delta: Of the alternatives, which have no pure guarantee.
    """

    methods: tuple[str | dict[str, Any], ...] = ()
    epsilons: tuple[float, ...] = ()
    delta: float = 1e-5


class JobFile(RunFile):
    """One run on records in one place."""

    private: Source
    compare: Compare | None = None

    @model_validator(mode="after")
    def _unnamed(self) -> Self:
        if self.private.ids is not None:
            raise ValueError("private.ids must be left out: nothing that is written names a record")
        return self

    def read_records(self, schema: Schema) -> tuple[Samples, NDArray[Any]]:
        """The private records and their labels, as they stand in the file."""
        private = self.private.read("private", schema)
        if private.labels is None:
            raise InvalidInput("private.labels must name where the records' labels are")
        return private.samples, private.labels


Run = TypeVar("Run", bound=RunFile)


def read_job(path: str | Path) -> JobFile:
    """A job file, validated, with its paths made absolute."""
    return absolute(read_settings(Path(path), JobFile), Path(path).resolve())


def absolute(run: Run, path: Path) -> Run:
    """The same run, with paths that are relative to its file made absolute."""
    folder, ledger, schema = path.parent, run.account.ledger, run.records.schema
    if ledger is not None and "://" not in str(ledger):
        ledger = str(folder / ledger)
    sources = {
        name: source.model_copy(update={"path": folder / source.path})
        for name, source in vars(run).items()
        if isinstance(source, Source)
    }
    return run.model_copy(
        update={
            "name": run.name or path.stem,
            "out": folder / (run.out or Path("runs") / (run.name or path.stem)),
            "records": replace(run.records, schema=folder / schema if isinstance(schema, str | Path) else schema),
            "account": replace(run.account, ledger=ledger),
            "method": run.method.model_copy(update={"encoder": located(run.method.encoder, folder)}),
            **sources,
        }
    )
