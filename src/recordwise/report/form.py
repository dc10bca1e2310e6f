"""The form of a summary's file: what a page relies on is looked at when the file is read, not when the page fails."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from recordwise.errors import InvalidInput, shown
from recordwise.privacy.guarantee import Neighbours, Unit
from recordwise.report.settled import SCOPES
from recordwise.verdict import Level

Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1e300, le=1e300)]
Positive = Annotated[float, Field(gt=0, le=1e300)]
Count = Annotated[int, Field(ge=0, lt=1 << 53)]
Share = Annotated[float, Field(ge=0, le=1)]
Picture = Annotated[str, Field(pattern=r"^data:image/png;base64,[A-Za-z0-9+/=]*$")]  # nothing is loaded from anywhere
Words = dict[str, Any]


class _Part(BaseModel):
    """What a page reads of one part; the part may say more."""

    model_config = ConfigDict(extra="allow", strict=True)


class _Guarantee(_Part):
    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)]
    unit: Literal[tuple(map(str, Unit))]  # type: ignore[valid-type]
    neighbours: Literal[tuple(map(str, Neighbours))]  # type: ignore[valid-type]


class _Round(_Part):
    queries: Count
    decoder: str
    labels: Annotated[list[Annotated[int, Field(ge=-1)]], Field(min_length=1)]
    confidence: list[Share]
    sizes: list[Count]
    shows_purity: bool | None = None  # summaries of earlier versions do not say
    sets: bool = False
    noise_std: Annotated[float, Field(ge=0, le=1e300)] | None = None
    law: str | None = None
    gaps: list[Finite] | None = None
    tally: list[list[Finite]] | None = None
    words: str | None = None

    @model_validator(mode="after")
    def _agree(self) -> _Round:
        held = [self.noise_std is None, self.law is None, self.gaps is None, self.tally is None]
        lengths = {
            len(one) for one in (self.labels, self.confidence, self.sizes, self.gaps, self.tally) if one is not None
        }
        if len(set(held)) > 1 or lengths != {self.queries}:
            raise ValueError("a round must say the same of each of its queries")
        return self


class _Card(_Part):
    query: Count
    label: Annotated[int, Field(ge=-1)]
    confidence: Share
    size: Count


class _PictureCard(_Card):
    samples: list[Picture]


class _TextCard(_Card):
    samples: Annotated[list[str], Field(min_length=1)]


class _TableCard(_Card):
    samples: list[Annotated[list[str], Field(min_length=3, max_length=3)]]


class _Pictures(_Part):
    kind: Literal["images"]
    cards: list[_PictureCard]
    left_out: Count


class _Texts(_Part):
    kind: Literal["text", "none"]
    cards: list[_TextCard]
    left_out: Count


class _Tables(_Part):
    kind: Literal["table"]
    cards: list[_TableCard]
    left_out: Count


class _Verdict(_Part):
    level: Literal[tuple(map(str, Level))]  # type: ignore[valid-type]
    headline: str
    advice: str
    text: str
    expected: Annotated[list[Share], Field(min_length=2, max_length=2)] | None
    commonest: Share | None


class _ClassScore(_Part):
    name: str
    samples: Count
    found: Share | None
    right: Share | None


class _Scores(_Part):
    samples: Count
    interval: Annotated[list[Share], Field(min_length=2, max_length=2)]
    majority: Share
    balanced: Share | None
    auc: Share | None
    classes: list[_ClassScore]


class _Entry(_Part):
    key: str
    time: str
    event: str
    trust: str
    note: str
    cost: Finite
    spent: Finite
    sha256: str


class _Book(_Part):
    epsilon: Positive
    spent: Finite
    left: Finite
    releases: list[_Entry]


class _Head(_Part):
    sha256: str
    entries: Count


class _Ledger(_Part):
    budgets: dict[str, _Book]
    head: _Head | None = None


class _Compared(_Part):
    method: str
    privacy: str
    epsilon: Finite | None
    accuracy: Finite
    spread: Finite


class _Column(_Part):
    kind: str
    name: str = ""
    range: tuple[Finite, Finite] | list[Finite] = []
    categories: list[str] = []
    formats: list[str] = []


class _Reading(_Part):
    kind: str
    shape: list[Count] = []
    numbers: str = ""
    columns: list[_Column] = []

    @model_validator(mode="after")
    def _agree(self) -> _Reading:
        if {"shape", "numbers"} & self.model_fields_set not in (set(), {"shape", "numbers"}):
            raise ValueError("an array's shape must come with the type of its numbers")
        return self


class _Summary(_Part):
    name: str
    statement: str
    odds: str
    private: bool
    guarantee: _Guarantee
    settings: Words
    settled: dict[str, str]
    classes: Annotated[list[str], Field(min_length=1)]
    classes_declared: bool
    simulated: bool
    pool_size: Count
    abstained: Count
    test_accuracy: Share | None
    scores: _Scores | None
    rounds: Annotated[list[_Round], Field(min_length=1)]
    gallery: Annotated[_Pictures | _Texts | _Tables, Field(discriminator="kind")]
    account: Literal[tuple(SCOPES)]  # type: ignore[valid-type]
    ledger: _Ledger | None
    hashes: dict[str, str]
    reading: _Reading
    verdict: _Verdict
    encoding: str
    versions: dict[str, str]
    created: str
    comparison: list[_Compared]

    @model_validator(mode="after")
    def _agree(self) -> _Summary:
        labels = [label for one in self.rounds for label in one.labels] + [card.label for card in self.gallery.cards]
        widths = {len(row) for one in self.rounds for row in one.tally or []}
        if max(labels) >= len(self.classes) or not widths <= {len(self.classes)}:
            raise ValueError("labels and tallies must be about the classes")
        if (self.test_accuracy is None) != (self.scores is None):
            raise ValueError("scores must come with test_accuracy")
        if "recordwise" not in self.versions:
            raise ValueError("versions must name recordwise")
        return self


def check_form(content: dict[str, Any], what: str) -> None:
    """Refuse what no page could be made of."""
    try:
        TypeAdapter(_Summary).validate_python(content)
    except ValidationError as fault:
        first = fault.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        rule = first["msg"].removeprefix("Value error, ")
        whole = first["type"] in ("missing", "value_error")  # what is wrong is a part of it, or no part
        got = "" if whole else f", got {shown(first.get('input'))}"
        raise InvalidInput(f"{what} is not the summary of a run: {where}: {rule}{got}") from fault
