"""Sections of a settings file, and the reader of such files; light, since silos and shufflers read theirs with it."""

from __future__ import annotations

from pathlib import Path
from typing import Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from recordwise.data.files import is_table, read
from recordwise.data.samples import Kind, Loaded
from recordwise.data.schema import Schema
from recordwise.errors import InvalidInput, shown
from recordwise.formats import Layout, toml_file


class Section(BaseModel):
    """A part of a settings file: whatever it does not know is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Section):
    """Where samples, and perhaps labels, are read from."""

    path: Path
    samples: str | list[str] | None = None
    labels: str | list[str] | None = None
    ids: str | None = None
    image_size: tuple[int, int] | None = None
    delimiter: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    sheet: str | None = None

    @model_validator(mode="after")
    def _spelled(self) -> Self:
        _ = self.layout  # refused here, if there is none such
        return self

    @property
    def layout(self) -> Layout:
        """How the file spells its cells."""
        return Layout(delimiter=self.delimiter, encoding=self.encoding, decimal=self.decimal, sheet=self.sheet)

    def read(self, section: str, schema: Schema | None = None) -> Loaded:
        """The samples as they stand in the file; a mistake in its form is one line that names the section.

        Args:
          schema: What is known of the samples. Its columns are found by their names, in whatever order they stand, and
            images come in its size.
        """
        samples, size = self.samples, self.image_size
        try:
            if schema is not None and schema.names and is_table(self.path):
                samples = self._columns(schema.names)
            if schema is not None and schema.kind == Kind.IMAGES and size is None:
                size = schema.shape[0], schema.shape[1]
            loaded = read(
                self.path, samples=samples, labels=self.labels, ids=self.ids, image_size=size, layout=self.layout
            )
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


File = TypeVar("File", bound=Section)


def read_settings(path: Path, kind: type[File]) -> File:
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
        ours = first.get("ctx", {}).get("error")  # our own sentence names the value already
        said = ours if isinstance(ours, ValueError) else f"{first['msg']}, got {shown(first.get('input'))}"
        raise InvalidInput(": ".join(str(part) for part in (path.name, where, said) if str(part))) from fault
