"""What `recordwise audit` does: a protocol from its terms, or a job's whole pipeline, put to the test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recordwise.audit.audit import audit
from recordwise.audit.replay import ReplayResult, replay
from recordwise.audit.result import AuditResult
from recordwise.privacy.noise import SystemNoise
from recordwise.progress import Progress, part, step
from recordwise.protocols.terms import Terms
from recordwise.votes.ballot import Ballot, Votes


@dataclass(frozen=True, kw_only=True, eq=False)
class Audits:
    """Every protocol that was audited, and the replays of a job's pipeline and of its files where there was one."""

    audits: tuple[AuditResult, ...]
    pipeline: ReplayResult | None = None
    files: ReplayResult | None = None

    @property
    def violated(self) -> bool:
        return any(result.violated for result in self._results)

    @property
    def _results(self) -> list[AuditResult | ReplayResult]:
        return [*self.audits, *(one for one in (self.pipeline, self.files) if one is not None)]

    @property
    def exit_code(self) -> int:
        return 1 if self.violated else 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "violated": self.violated,
            "audits": [result.as_dict() for result in self.audits],
            "pipeline": None if self.pipeline is None else self.pipeline.as_dict(),
            "files": None if self.files is None else self.files.as_dict(),
        }

    def as_text(self) -> str:
        return "\n\n".join(result.as_text() for result in self._results)


def audit_terms(
    terms: Terms,
    ballot: Ballot,
    *,
    num_records: int,
    trials: int,
    confidence: float,
    progress: Progress | None = None,
) -> Audits:
    """One round's protocol under these terms; equal rounds have equal protocols."""
    with step(progress, "audit the protocol"):
        protocol = terms.protocols(ballot, num_records)[0]
        return Audits(audits=(audit(protocol, SystemNoise(), trials=trials, confidence=confidence),))


def audit_job(path: str | Path, *, trials: int, confidence: float, progress: Progress | None = None) -> Audits:
    """A job's pipeline on its own files, and the protocols it would use. Nothing is charged and nothing is kept."""
    from recordwise.account import Account
    from recordwise.audit.files import replay_files
    from recordwise.distiller import PrivateDistiller
    from recordwise.fits import uncounted
    from recordwise.job import read_job
    from recordwise.records import COPIES_ABSTAIN, Records, as_labels, cast, read_labels
    from recordwise.sections import Source

    job = read_job(path)
    with step(progress, "read"):
        with part(0.0, 0.5):
            schema, pool = job.read_pool()
        with part(0.5, 1.0):
            samples, labels = job.read_records(schema)
    free = {
        "records": replace(job.records, schema=schema),
        "account": Account(round_epsilon=job.account.round_epsilon, go_on=True),
    }
    distiller = PrivateDistiller(**(job.settings() | free))
    with step(progress, "replay the pipeline"):
        pipeline = replay(distiller, samples, labels, X_public=pool)
    with step(progress, "fit once more"), uncounted():  # nothing of it is released
        fitted = distiller.fit(samples, labels, X_public=pool)

    def votes_of(source: Source) -> list[Votes]:
        """Every record's votes in each round, from the file's bytes on, with what is public as the run fixed it."""
        held = source.read("private", schema)
        most, overlap = job.records.labels_per_record, job.records.overlap
        read, unlabelled = read_labels(as_labels(held.labels, len(held)), fitted.classes_, most)
        copies_in = pool if overlap == COPIES_ABSTAIN else None
        records = Records(held.samples, read, unlabelled, pool=copies_in, overlap=overlap)
        return [
            cast(
                records,
                schema=schema,
                encoder=fitted.encoder_,
                manner=fitted.manner_,
                queries=one.queries,
                ballot=one.release.ballot,
            )[0]
            for one in fitted.rounds_
        ]

    with step(progress, "replay the files"):
        files = replay_files(job.private, votes_of, pipeline.neighbours, pipeline.protocols)
    audits = []
    with step(progress, "audit the protocols"):
        different = list(dict.fromkeys(pipeline.protocols))
        for number, one in enumerate(different):
            with part(number, number + 1, len(different)):
                audits.append(audit(one, SystemNoise(), trials=trials, confidence=confidence))
    return Audits(audits=tuple(audits), pipeline=pipeline, files=files)
