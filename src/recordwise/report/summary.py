"""A run in plain numbers and words, all of it public: what the report page shows and `--json` prints."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from recordwise.data import Samples
from recordwise.distiller import PrivateDistiller
from recordwise.encoders import Manner
from recordwise.errors import InvalidInput, shown
from recordwise.formats import json_file
from recordwise.labels import ABSTAIN
from recordwise.pipeline import Round
from recordwise.privacy.guarantee import Trust, exact, rounded_down, rounded_up
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.ledger.statement import head_as_text, ledger_as_dict
from recordwise.report.form import check_form
from recordwise.report.gallery import Gallery, gallery_of
from recordwise.report.scores import as_text as scores_as_text
from recordwise.report.scores import scores_of
from recordwise.report.settled import SCOPES, scope_of, settled

SCHEMA = 2
# Where things lie on this machine is nobody else's business; classes and schema have places of their own.
OWN = {"account.ledger", "account.run_dir", "classes", "records.schema"}
CHECKED = (
    "The guarantee takes a record's vector to depend on that record alone. For this encoder that was checked on the "
    "pool, not proved."
)
WORDS = {
    "encoder": "encoder",
    "num_queries": "queries asked",
    "mechanism": "mechanism",
    "decoder": "decoder",
    "student": "student",
}
SIMULATED = "All parties were played by one process here: whoever ran it could see every vote."


@dataclass(frozen=True, kw_only=True)
class Summary:
    """One run.

    Attributes:
      statement: The guarantee as one sentence.
      odds: What its epsilon lets an attacker gain, in words.
      guarantee: The same, as plain values.
      settings: What was asked for.
      settled: What it came to where that left a choice: the encoder, the number of queries, the mechanism, the decoder
        and the student.
      abstained: Pool samples without a label. How many records abstained is private, and nowhere here.
      scores: What else the test set shows: its size, the commonest class's share, figures of each class.
      account: Whose account paid: "shared", "own" or "none".
      rounds: Per round: queries, noise, and per query its label, confidence, pool samples and noisy gap.
      verdict: How far the labels can be relied on, as far as the release itself shows.
      encoding: Why a record's vector depends on that record alone: by construction, as checked on the pool, or because
        records are encoded one at a time.
      simulated: Whether one process played all parties although the trust asks for several.
      gallery: A few pool samples of each query of the first round.
      hashes: SHA-256 of the public inputs.
      reading: The public schema with which every record was read.
    """

    name: str
    statement: str
    odds: str
    private: bool
    guarantee: Mapping[str, Any]
    settings: Mapping[str, Any]
    settled: Mapping[str, str]
    classes: list[str]
    classes_declared: bool
    simulated: bool
    pool_size: int
    abstained: int
    test_accuracy: float | None
    scores: Mapping[str, Any] | None
    rounds: list[Mapping[str, Any]]
    gallery: Gallery
    account: str
    ledger: Mapping[str, Any] | None
    hashes: Mapping[str, str]
    reading: Mapping[str, Any]
    verdict: Mapping[str, Any]
    encoding: str
    versions: Mapping[str, str]
    created: str
    comparison: list[Mapping[str, Any]] = field(default_factory=list)
    schema: int = SCHEMA

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=1)

    @classmethod
    def read(cls, path: Path) -> Summary:
        if not path.exists():
            raise InvalidInput(f"{path.parent} holds no finished run: {path.name} does not exist")
        try:
            content = json_file(path)
        except InvalidInput as fault:
            raise InvalidInput(f"{path} is not the summary of a run: {fault}") from fault
        schema = content.get("schema") if isinstance(content, dict) else None
        if schema != SCHEMA:
            raise InvalidInput(f"{path} has schema {shown(schema)}, this version reads {SCHEMA}")
        known = {part.name for part in dataclasses.fields(cls)}
        if other := sorted(known ^ content.keys()):
            raise InvalidInput(f"{path} is not the summary of a run: {shown(other[0])} is missing or too much")
        check_form(content, str(path))
        gallery = {part.name: content["gallery"][part.name] for part in dataclasses.fields(Gallery)}
        return cls(**{**content, "gallery": Gallery(**gallery)})

    def as_text(self) -> str:
        labelled = self.pool_size - self.abstained
        lines = [self.statement, self.odds, f"verdict: {self.verdict['text']}"]
        lines.append(f"labelled {labelled:,} of {self.pool_size:,} pool samples")
        lines += [f"{WORDS[name]}: {came_to}" for name, came_to in self.settled.items() if name in WORDS]
        if self.encoding == Manner.CHECKED:
            lines.append(CHECKED)
        if self.simulated:
            lines.append(SIMULATED)
        if not self.classes_declared:
            lines.append("the list of classes was read off the labels and is not protected; declare it with classes")
        if self.test_accuracy is not None and self.scores is not None:
            lines += scores_as_text(self.test_accuracy, self.scores)
        lines.append(SCOPES[self.account])
        if self.ledger is not None:
            lines += [
                f"budget {name!r}: epsilon {rounded_up(exact(budget['spent']))} of "
                f"{rounded_down(exact(budget['epsilon']))} spent"
                for name, budget in self.ledger["budgets"].items()
            ]
            lines.append(f"ledger's {head_as_text(self.ledger.get('head'))}; note it elsewhere")
        return "\n".join(lines)


def summarize(
    distiller: PrivateDistiller,
    pool: Samples,
    *,
    name: str,
    test: tuple[Samples, Any] | None = None,
    asked: Mapping[str, Any] = MappingProxyType({}),
    comparison: Sequence[Mapping[str, Any]] = (),
) -> Summary:
    """A fitted distiller's public outcome.

    Args:
      test: Samples and their labels, to measure the student on. They are outside the guarantee.
      asked: Settings as their owner wrote them, where somebody chose for the distiller already.
      comparison: Rows of a table of methods, to show beside it.
    """
    guarantee = {key: _plain(value) for key, value in vars(distiller.guarantee_).items()}
    settings = distiller.settings
    wanted = {key: _plain(value) for key, value in {**settings.values(), **asked}.items() if key not in OWN}
    account, book = settings.account, None
    scores = None if test is None else scores_of(distiller, *test).as_dict()
    if account.ledger is not None:
        book = ledger_as_dict(Ledger.open(account.ledger, read_only=True), account.budget)
    return Summary(
        name=name,
        statement=str(distiller.guarantee_),
        odds=distiller.guarantee_.as_odds(),
        private=distiller.guarantee_.private,
        guarantee=guarantee,
        settings=wanted,
        settled=settled(distiller),
        classes=[str(label) for label in distiller.classes_],
        classes_declared=distiller.classes is not None,
        simulated=getattr(distiller, "in_one_process_", False) and distiller.guarantee_.trust is not Trust.CENTRAL,
        pool_size=len(distiller.pool_labels_),
        abstained=int((distiller.pool_places_ == ABSTAIN).sum()),
        test_accuracy=None if scores is None else scores.pop("accuracy"),
        scores=scores,
        rounds=[_round(one) for one in distiller.rounds_],
        gallery=gallery_of(pool, distiller.schema_, distiller.rounds_[0].queries, distiller.rounds_[0].labels),
        account=scope_of(account),
        ledger=book,
        hashes=dict(distiller.hashes_),
        verdict=distiller.verdict_.as_dict(),
        encoding=str(distiller.manner_),
        reading=distiller.schema_.as_dict(),
        versions={package: metadata.version(package) for package in ("recordwise", "numpy", "scipy", "scikit-learn")},
        comparison=list(comparison),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _round(one: Round) -> dict[str, Any]:
    return {
        "queries": len(one.queries.vectors),
        "decoder": one.labels.decoder,
        "labels": one.labels.hard.tolist(),
        "confidence": np.round(one.labels.confidence, 4).tolist(),
        "sizes": one.queries.sizes.tolist(),
        "shows_purity": bool(one.release.shows_purity),
        "sets": one.release.ballot.labels_per_record > 1,
        **one.release.figures(),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    if isinstance(value, str | int | float | bool | None):
        return value
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or None
    if isinstance(value, Path):
        return value.name  # where it lies is nobody else's business
    return float(value) if hasattr(value, "numerator") else str(value)
