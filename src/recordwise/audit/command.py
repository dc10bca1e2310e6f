"""What `recordwise audit` does: a protocol from its terms, or a job's whole pipeline, put to the test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recordwise.audit.audit import audit
from recordwise.audit.replay import ReplayResult, replay
from recordwise.audit.result import AuditResult
from recordwise.errors import InvalidInput
from recordwise.privacy.noise import SystemNoise
from recordwise.protocols.terms import Terms
from recordwise.votes.ballot import Ballot


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdict:
    """Every protocol that was audited, and the replay of a job's pipeline where there was one."""

    audits: tuple[AuditResult, ...]
    pipeline: ReplayResult | None = None

    @property
    def violated(self) -> bool:
        return any(result.violated for result in self.audits) or (self.pipeline is not None and self.pipeline.violated)

    @property
    def exit_code(self) -> int:
        return 1 if self.violated else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "violated": self.violated,
            "audits": [result.as_dict() for result in self.audits],
            "pipeline": None if self.pipeline is None else self.pipeline.as_dict(),
        }

    def as_text(self) -> str:
        parts = [result.as_text() for result in self.audits]
        return "\n\n".join(parts if self.pipeline is None else [*parts, self.pipeline.as_text()])


def audit_terms(terms: Terms, ballot: Ballot, *, num_records: int, trials: int, confidence: float) -> Verdict:
    """One round's protocol under these terms; equal rounds have equal protocols."""
    protocol = terms.protocols(ballot, num_records)[0]
    return Verdict(audits=(audit(protocol, SystemNoise(), trials=trials, confidence=confidence),))


def audit_job(path: str | Path, *, trials: int, confidence: float) -> Verdict:
    """A job's pipeline on its own data, and the protocols it would use. Nothing is charged, written or kept."""
    from recordwise.distiller import PrivateDistiller
    from recordwise.job import read_job

    job = read_job(path)
    private, public = job.private.read("private"), job.public.read("public")
    if private.labels is None:
        raise InvalidInput("private.labels must name where the records' labels are")
    distiller = PrivateDistiller(**job.settings())
    pipeline = replay(distiller, private.samples, private.labels, X_public=public.samples)
    different = list(dict.fromkeys(pipeline.protocols))
    audits = tuple(audit(one, SystemNoise(), trials=trials, confidence=confidence) for one in different)
    return Verdict(audits=audits, pipeline=pipeline)
