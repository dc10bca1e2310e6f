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
    ledger = "ledger.sqlite"
    budget = "patients-2026"

    [method]
    classes = ["flu", "cold", "neither"]
    student = "linear"

Paths are relative to the file. Every other key has a default; `JobFile` lists them all. A section [schema], or the path
of one, says how samples are read where the pool is not to fix it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recordwise.data.files import read
from recordwise.data.samples import Kind, Loaded, Samples
from recordwise.data.schema import Schema
from recordwise.errors import InvalidInput, shown
from recordwise.formats import toml_file

TABLES = (".csv", ".parquet")


class Section(BaseModel):
    """A part of a settings file: whatever it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Section):
    """Where samples, and perhaps labels, are read from."""

    path: Path
    samples: str | list[str] | None = None
    labels: str | list[str] | None = None
    image_size: tuple[int, int] | None = None

    def read(self, section: str, schema: Schema | None = None) -> Loaded:
        """The samples as they stand in the file; a mistake in its form is one line that names the section.

        Args:
          schema: What is known of the samples. Its columns are found by their names, in whatever order they stand, and
            images come in its size.
        """
        samples, size = self.samples, self.image_size
        try:
            if schema is not None and schema.names and self.path.suffix.lower() in TABLES:
                samples = self._columns(schema.names)
            if schema is not None and schema.kind == Kind.IMAGES and size is None:
                size = schema.shape[0], schema.shape[1]
            loaded = read(self.path, samples=samples, labels=self.labels, image_size=size)
            if schema is not None and loaded.parse and schema.width not in (0, len(loaded.columns)):
                raise InvalidInput(f"samples must have the pool's {schema.width} columns, got {len(loaded.columns)}")
        except InvalidInput as fault:
            raise InvalidInput(f"[{section}] {fault}") from fault
        return loaded

    def _columns(self, names: tuple[str, ...]) -> list[str]:
        chosen = names if self.samples is None else [self.samples] if isinstance(self.samples, str) else self.samples
        if set(chosen) != set(names):
            raise InvalidInput(f"samples must be the pool's columns ({', '.join(names)}), got {', '.join(chosen)}")
        return list(names)


class Privacy(Section):
    """What the run may cost, and who pays."""

    epsilon: float
    delta: float = 0.0
    neighbours: Literal["replace", "add-remove"] = "replace"
    trust: Literal["central", "distributed", "local", "shuffle"] = "central"
    mechanism: str = "auto"
    parties: int = 1
    colluding: int = 1
    ledger: str | None = None
    budget: str = "default"
    budget_epsilon: float | None = None
    budget_delta: float = 0.0


class Method(Section):
    """How the pool is labelled and the student taught; the names are `PrivateDistiller`'s."""

    num_queries: int | Literal["auto"] = "auto"
    queries: str | dict[str, Any] = "kmeans"
    votes_per_record: int = 1
    labels_per_record: int = 1
    classes: list[int] | list[str]
    rounds: int = 1
    metric: Literal["euclidean", "cosine"] = "euclidean"
    encoder: str | dict[str, Any] | list[str | dict[str, Any]] = "auto"
    decoder: str = "auto"
    min_confidence: float = 0.0
    max_distance: float | None = None
    round_epsilon: float | None = None
    student: str | dict[str, Any] = "counts"
    expected_records: int | None = None
    overlap: Literal["vote", "abstain"] = "vote"
    random_state: int = 0


class RunFile(Section):
    """What a run in one place and a run over silos have in common."""

    name: str = ""
    out: Path | None = None
    public: Source
    test: Source | None = None
    declared_schema: dict[str, Any] | Path | None = Field(default=None, alias="schema")
    privacy: Privacy
    method: Method

    def read_pool(self) -> tuple[Schema, Samples]:
        """How samples are read, as the file says or as its pool fixes, and the pool, read so."""
        public = self.public.read("public")
        schema = Schema.of_loaded(public) if self.declared_schema is None else Schema.given(self.declared_schema)
        return schema, schema.pool(public.samples, "[public] samples")

    def settings(self) -> dict[str, Any]:
        """What the job asks of a `PrivateDistiller`, but for who pays and where things are kept."""
        from recordwise.encoders.spec import opened

        terms = self.privacy.model_dump(exclude={"ledger", "budget", "budget_epsilon", "budget_delta"})
        return {**terms, **self.method.model_dump(), "encoder": opened(self.method.encoder)}


class JobFile(RunFile):
    """One run on records in one place."""

    private: Source

    def read_records(self, schema: Schema) -> tuple[Samples, NDArray[Any]]:
        """The private records and their labels, as they stand in the file."""
        private = self.private.read("private", schema)
        if private.labels is None:
            raise InvalidInput("private.labels must name where the records' labels are")
        return private.samples, private.labels


Settings = TypeVar("Settings", bound=Section)
Run = TypeVar("Run", bound=RunFile)


def read_job(path: str | Path) -> JobFile:
    """A job file, validated, with its paths made absolute."""
    return absolute(read_settings(Path(path), JobFile), Path(path).resolve())


def read_settings(path: Path, kind: type[Settings]) -> Settings:
    """A settings file, validated; a mistake is one line that names the key, the rule and the value."""
    try:
        content = toml_file(path)
    except InvalidInput as fault:
        raise InvalidInput(f"the job file {fault}") from fault
    try:
        return kind.model_validate(content)
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{path.name}: {where}: {first['msg']}, got {shown(first.get('input'))}") from fault


def absolute(run: Run, path: Path) -> Run:
    """The same run, with paths that are relative to its file made absolute."""
    from recordwise.encoders.spec import located

    folder, ledger, schema = path.parent, run.privacy.ledger, run.declared_schema
    if ledger is not None and "://" not in ledger:
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
            "declared_schema": folder / schema if isinstance(schema, Path) else schema,
            "privacy": run.privacy.model_copy(update={"ledger": ledger}),
            "method": run.method.model_copy(update={"encoder": located(run.method.encoder, folder)}),
            **sources,
        }
    )
