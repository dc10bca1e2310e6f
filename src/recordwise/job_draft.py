"""A job file written from the user's own files: `recordwise init`. Every guess stands beside its key, in a comment."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordwise.data.files import is_table, read
from recordwise.data.samples import Kind, Loaded
from recordwise.data.schema import Schema
from recordwise.encoders.spec import chosen
from recordwise.errors import InvalidInput
from recordwise.planner.checking import check
from recordwise.privacy.guarantee import surest

MOST_CLASSES = 1000  # more is no list of classes but a column of something else
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]+")  # in a comment, one of them would end it, or the file could not be read


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What `recordwise init` is told; the rest is guessed.

    Attributes:
      labels: The column, or array, of the records' labels; None where a folder's subfolders are the labels.
      test: Public samples with labels to score the student on.
      classes: The public list of classes; empty reads it off the test labels, or else off the records' labels.
      folder: Where the job file will lie; paths are written relative to it.
    """

    private: Path
    public: Path
    test: Path | None = None
    labels: str | None = None
    epsilon: float = 1.0
    classes: tuple[str, ...] = ()
    name: str
    folder: Path

    def text(self) -> str:
        """The job file."""
        samples, why = self._samples()
        pool = read(self.public, samples=samples)
        schema = Schema.of_loaded(pool)
        sure = 100 * surest(self.epsilon)
        lines = [
            f"# Drafted by `recordwise init` from {self.private.name} and {self.public.name}. Read what is marked",
            "# 'guess', change what is wrong, then: recordwise check, plan and run, each with this file.",
            f"name = {toml_value(self.name)}",
            "",
            "[private]  # the records to protect",
            *self._source(self.private, self.labels),
            "",
            "[public]  # the pool to label",
            *self._source(self.public, None, samples),
            *why,
            f"# {len(pool)} samples, read as {schema.kind}.",
            *_columns(schema),
        ]
        if self.test is not None:
            lines += ["", "[test]  # public, or at least not protected by this run"]
            lines += self._source(self.test, self.labels)
        lines += [
            "",
            "[privacy]",
            f"epsilon = {self.epsilon:g}  # who was 50 % sure of a record can be {sure:.0f} % sure afterwards, at most",
            "",
            "[method]",
            *self._classes(),
            f'encoder = "auto"  # here: {chosen(schema.pool(pool.samples))}',
            'num_queries = "auto"  # planned on the pool; `recordwise plan` shows how',
            "",
            "[account]",
            'ledger = "ledger.sqlite"  # remembers what was spent on these records, over all runs',
            f"budget = {toml_value(self.name)}",
            f"budget_epsilon = {self.epsilon:g}  # guess: all that may ever be spent on these records",
        ]
        # A pool comes from elsewhere: what its columns are called must stay in comments, and add no line to the job.
        return "\n".join(_CONTROLS.sub(" ", line) for line in lines) + "\n"

    def _source(self, path: Path, labels: str | None, samples: list[str] | None = None) -> list[str]:
        try:
            written = path.resolve().relative_to(self.folder.resolve())
        except ValueError:  # it lies elsewhere
            written = path.resolve()
        lines = [f"path = {toml_value(written.as_posix())}"]
        if samples is not None:
            lines.append(f"samples = {toml_value(samples)}")
        if labels is not None:
            lines.append(f"labels = {toml_value(labels)}")
        return lines

    def _samples(self) -> tuple[list[str] | None, list[str]]:
        """The pool's columns to use, where some are not for use, and the reasons as comments."""
        if not is_table(self.public):
            return None, []
        pool = read(self.public)
        held = set(read(self.private, labels=self.labels).columns)
        why = {name: "not in the private file" for name in pool.columns if name not in held and name != self.labels}
        if self.labels in pool.columns:
            why[str(self.labels)] = "the label"
        left = [name for name in pool.columns if name not in why]
        if not left:
            raise InvalidInput(f"{self.public.name} and {self.private.name} must have columns in common")
        some = read(self.public, samples=left)
        for finding in check(Schema.of_loaded(some), some.samples, None, None).findings:
            if "leave it out" in finding.text:
                why[finding.about] = finding.text
        left = [name for name in pool.columns if name not in why]
        if not left:
            raise InvalidInput(f"{self.public.name} must have a column to learn from: {'; '.join(why.values())}")
        return (left, [f"# guess: without {name!r}: {text}" for name, text in why.items()]) if why else (None, [])

    def _classes(self) -> list[str]:
        """The list of classes, and where it comes from."""
        if self.classes:
            return [f"classes = {toml_value([_number(one) for one in self.classes])}"]
        public = self.test is not None
        source = read(self.test if self.test is not None else self.private, labels=self.labels)
        names = _names(source)
        return [
            f"classes = {toml_value(names)}",
            "# guess: read off the test labels. A record of a class that is not listed abstains."
            if public
            else "# guess: read off the PRIVATE labels. The list becomes public: delete what must stay secret.",
        ]


def _names(source: Loaded) -> list[Any]:
    if source.labels is None:
        raise InvalidInput("name the labels with --labels, or the classes with --classes")
    if source.labels.ndim != 1:
        raise InvalidInput("several labels per record need --classes, in the order of their columns")
    labels = [label for label in source.labels.tolist() if label is not None and label == label]
    names = sorted(set(labels), key=lambda name: (isinstance(name, str), name))
    if not 2 <= len(names) <= MOST_CLASSES:
        raise InvalidInput(f"labels must hold 2 to {MOST_CLASSES} classes, got {len(names)}: name a column of classes")
    return names


def _columns(schema: Schema) -> list[str]:
    if schema.kind != Kind.TABLE and not schema.names:
        return []
    kinds: dict[str, list[str]] = {}
    for column in schema.columns:
        kinds.setdefault(str(column.kind), []).append(column.name)
    return [f"# guess: {kind}: {', '.join(names)}" for kind, names in kinds.items()]


def _number(name: str) -> Any:
    """A class on the command line: a whole number where it spells one."""
    return int(name) if name.lstrip("-").isdigit() else name


def toml_value(value: Any) -> str:
    """Text, numbers and lists of them; JSON spells them as TOML does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
