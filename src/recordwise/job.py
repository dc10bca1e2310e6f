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

Paths are relative to the file. Every other key has a default; `JobFile` lists them all.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recordwise.data.files import read
from recordwise.data.samples import Loaded, refuse_gaps
from recordwise.errors import InvalidInput, shown


class Section(BaseModel):
    """A part of a settings file: whatever it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Section):
    """Where samples, and perhaps labels, are read from."""

    path: Path
    samples: str | list[str] | None = None
    labels: str | list[str] | None = None
    image_size: tuple[int, int] | None = None

    def read(self, section: str) -> Loaded:
        """The samples; a mistake is one line that names the section, and is found before anything is spent."""
        try:
            loaded = read(self.path, samples=self.samples, labels=self.labels, image_size=self.image_size)
            refuse_gaps(loaded.samples)
        except InvalidInput as fault:
            raise InvalidInput(f"[{section}] {fault}") from fault
        return loaded


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
    votes_per_record: int = 1
    labels_per_record: int = 1
    classes: list[int] | list[str] | None = None
    rounds: int = 1
    metric: Literal["euclidean", "cosine"] = "euclidean"
    encoder: str | dict[str, Any] | list[str | dict[str, Any]] = "auto"
    decoder: str = "auto"
    min_confidence: float = 0.0
    max_distance: float | None = None
    round_epsilon: float | None = None
    student: str | dict[str, Any] = "linear"
    expected_records: int | None = None
    overlap: Literal["refuse", "abstain"] = "refuse"
    random_state: int = 0


class JobFile(Section):
    """One run."""

    name: str = ""
    out: Path | None = None
    private: Source
    public: Source
    test: Source | None = None
    privacy: Privacy
    method: Method = Field(default_factory=Method)

    def settings(self) -> dict[str, Any]:
        """What the job asks of a `PrivateDistiller`, but for who pays and where things are kept."""
        from recordwise.encoders.spec import opened

        terms = self.privacy.model_dump(exclude={"ledger", "budget", "budget_epsilon", "budget_delta"})
        return {**terms, **self.method.model_dump(), "encoder": opened(self.method.encoder)}


Settings = TypeVar("Settings", bound=Section)


def read_job(path: str | Path) -> JobFile:
    """A job file, validated, with its paths made absolute."""
    return _absolute(read_settings(Path(path), JobFile), Path(path).resolve())


def read_settings(path: Path, kind: type[Settings]) -> Settings:
    """A settings file, validated; a mistake is one line that names the key, the rule and the value."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as fault:
        raise InvalidInput(f"the job file {str(path)!r} could not be read: {fault.strerror}") from fault
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(f"the job file {str(path)!r} is not TOML: {fault}") from fault
    try:
        return kind.model_validate(content)
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"{path.name}: {where}: {first['msg']}, got {shown(first.get('input'))}") from fault


def _absolute(job: JobFile, path: Path) -> JobFile:
    def source(section: Source | None) -> Source | None:
        return section and section.model_copy(update={"path": path.parent / section.path})

    from recordwise.encoders.spec import located

    ledger = job.privacy.ledger
    if ledger is not None and "://" not in ledger:
        ledger = str(path.parent / ledger)
    return job.model_copy(
        update={
            "name": job.name or path.stem,
            "out": path.parent / (job.out or Path("runs") / (job.name or path.stem)),
            "private": source(job.private),
            "public": source(job.public),
            "test": source(job.test),
            "privacy": job.privacy.model_copy(update={"ledger": ledger}),
            "method": job.method.model_copy(update={"encoder": located(job.method.encoder, path.parent)}),
        }
    )
