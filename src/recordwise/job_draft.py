"""A job file written from the user's own files: `recordwise init`. Every guess stands beside its key, in a comment."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recordwise.data.files import is_table, names_in, read
from recordwise.data.images import image_sizes
from recordwise.data.pictures import is_picture
from recordwise.data.samples import Kind, Loaded
from recordwise.data.schema import Schema
from recordwise.encoders.spec import chosen
from recordwise.errors import InvalidInput
from recordwise.formats import Layout, ending, guessed
from recordwise.planner.checking import check
from recordwise.planner.columns import Likely
from recordwise.privacy.guarantee import certainty, percent_up
from recordwise.progress import part

TEXTS = (".csv", ".tsv", ".txt")
LARGE, SMALLER = 256, 128  # pixels of an image's longer side: beyond the one it is brought to the other
MOST_CLASSES = 1000  # more is no list of classes but a column of something else
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]+")  # in a comment, one of them would end it, or the file could not be read


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What `recordwise init` is told; the rest is guessed.

    Attributes:
      labels: The column, or array, of the records' labels; None where a folder's subfolders are the labels.
      test: Public samples with labels to score the student on.
      classes: The public list of classes; empty reads it off the test labels, or else off the records' labels.
      delimiter, encoding, decimal, sheet: How all files spell their cells. What is None is guessed from the pool and
        the test file, which are public, each for itself; the private file is taken to be spelled as the pool is.
      folder: Where the job file will lie; paths are written relative to it.
    """

    private: Path
    public: Path
    test: Path | None = None
    labels: str | None = None
    epsilon: float = 1.0
    classes: tuple[str, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    sheet: str | None = None
    name: str
    folder: Path

    def text(self) -> str:
        """The job file."""
        with part(0.0, 0.4):
            samples, ids, why, codes = self._samples()
        with part(0.4, 0.6):
            size = self._image_size(samples)
        with part(0.6, 0.8):
            pool = read(self.public, samples=samples, ids=ids, layout=self._layout(self.public), image_size=size)
        with part(0.8, 1.0):
            schema = Schema.of_loaded(pool)
        sure = percent_up(certainty(self.epsilon))
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
            *([] if ids is None else [f"ids = {toml_value(ids)}  # guess: names the samples in labels.csv"]),
            *(
                []
                if size is None
                else [f"image_size = {toml_value(size)}  # guess: all images are brought to this size"]
            ),
            *why,
            f"# {len(pool)} samples, read as {schema.kind}.",
            *_columns(schema),
        ]
        if self.test is not None:
            lines += ["", "[test]  # public, or at least not protected by this run"]
            lines += self._source(self.test, self.labels)
        lines += [
            "",
            "[records]",
            "# expected = 1000  # how many there are, where that is public: check and plan then need no --num-records",
            *codes,
            "",
            "[privacy]",
            f"epsilon = {self.epsilon:g}  # who was 50 % sure of a record can be {sure} % sure afterwards, at most",
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
        why = "as in the pool" if path == self.private else "by its content"
        for key, value in vars(self._layout(path)).items():
            if value != getattr(Layout, key):
                said = getattr(self, key) is not None
                lines.append(f"{key} = {toml_value(value)}" + ("" if said else f"  # guess: {why}"))
        return lines

    def _layout(self, path: Path) -> Layout:
        """How a file spells its cells: as it was said, or guessed, from public files alone."""
        said = {"delimiter": self.delimiter, "encoding": self.encoding, "decimal": self.decimal, "sheet": self.sheet}
        if path.is_dir() or not path.exists():
            return Layout()
        if path != self.private:
            return guessed(path, **said)
        known = {key: value for key, value in said.items() if value is not None}
        if ending(path) not in TEXTS or self.public.is_dir() or ending(self.public) not in TEXTS:
            return Layout(**known)
        pool = dict(vars(self._layout(self.public)))
        if ending(path) != ending(self.public):
            del pool["delimiter"]
        return Layout(**pool | known)

    def _samples(self) -> tuple[list[str] | None, str | None, list[str], list[str]]:
        """The pool's columns to use, where some are not for use; the one that names samples; the reasons, as comments;
        and a comment on columns of numbers that may be codes.

        A column that the private file does not have cannot be used.
        """
        if not is_table(self.public):
            return None, None, [], []
        layout = self._layout(self.public)
        pool = read(self.public, layout=layout)
        beside = [name for name in names_in(self.public) if name not in (*pool.columns, self.labels)]
        if beside:  # a column of vectors or images stands alone
            whole = [f"# guess: without {name!r}: {pool.columns[0]!r} holds whole samples" for name in beside]
            return list(pool.columns), next(filter(self._names_each, beside), None), whole, []
        held = set(read(self.private, labels=self.labels, layout=self._layout(self.private)).columns)
        why = {name: "not in the private file" for name in pool.columns if name not in held and name != self.labels}
        if self.labels in pool.columns:
            why[str(self.labels)] = "the label"
        left = [name for name in pool.columns if name not in why]
        if not left:
            raise InvalidInput(f"{self.public.name} and {self.private.name} must have columns in common")
        some = read(self.public, samples=left, layout=layout)
        ids, texts, codes, doubts = [], [], [], []
        for finding in check(Schema.of_loaded(some), some.samples, None, None).findings:
            match finding.likely:
                case Likely.IDENTIFIERS:
                    ids.append(finding.about)
                case Likely.FREE_TEXT:
                    texts.append(finding.about)
                case Likely.CODES:
                    codes.append(finding.about)
                case _:
                    doubts.append(f"# note: {finding.text}")
            if finding.about in (*ids, *texts):
                why[finding.about] = finding.text
        if texts and len(why) == len(pool.columns):
            del why[texts[0]]  # nothing else is there to learn from: the text is the sample
        left = [name for name in pool.columns if name not in why]
        if not left:
            raise InvalidInput(f"{self.public.name} must have a column to learn from: {'; '.join(why.values())}")
        reasons = [*(f"# guess: without {name!r}: {text}" for name, text in why.items()), *doubts]
        coded = [f"# categorical = {toml_value(codes)}  # guess: numbers; codes are not, if that is what they are"]
        return left if why else None, next(filter(self._names_each, ids), None), reasons, coded if codes else []

    def _image_size(self, samples: list[str] | None) -> tuple[int, int] | None:
        """Height and width to bring images to, where the pool's differ or are large; None where that is not needed."""
        if not self.public.is_dir():
            return None
        if is_table(self.public):
            held = read(self.public, samples=samples).samples
            sizes = [one.shape[:2] for one in held if is_picture(one)] if isinstance(held, list) else []
        else:
            sizes = image_sizes(self.public)
        if not sizes or (len(set(sizes)) == 1 and max(sizes[0]) <= LARGE):
            return None
        height, width = np.median(np.array(sizes), axis=0)
        scale = min(1.0, SMALLER / max(height, width))
        return max(1, round(height * scale)), max(1, round(width * scale))

    def _names_each(self, column: str) -> bool:
        """Whether a column of the pool has another value for every sample."""
        named = read(self.public, ids=column, layout=self._layout(self.public)).ids
        return named is not None and None not in (listed := named.tolist()) and len(set(listed)) == len(listed)

    def _classes(self) -> list[str]:
        """The list of classes, and where it comes from."""
        if self.classes:
            return [f"classes = {toml_value([_number(one) for one in self.classes])}"]
        public = self.test is not None
        path = self.test if self.test is not None else self.private
        source = read(path, labels=self.labels, layout=self._layout(path))
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
