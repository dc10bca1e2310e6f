"""A job before it is run: what its budget buys, and what can be seen to go wrong. Private files are not opened."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.data.samples import Loaded, Samples
from recordwise.data.schema import Schema
from recordwise.errors import InvalidInput
from recordwise.job import JobFile
from recordwise.planner import BudgetPlan, Checked, Finding, Outlook, check, plan, predict
from recordwise.planner.checking import beside_test, has_columns
from recordwise.privacy.guarantee import Neighbours
from recordwise.progress import Progress, part, step
from recordwise.run_settings import RunSettings


def plan_job(
    job: JobFile,
    progress: Progress | None = None,
    *,
    num_records: int | None = None,
    num_queries: Sequence[int] | None = None,
    votes_per_record: Sequence[int] | None = None,
) -> BudgetPlan:
    """What the job's budget buys on its pool.

    Args:
      num_records: How many records will vote; the job's `records.expected` when None.
      num_queries, votes_per_record: To consider; None are the job's own, or what the planner tries.
    """
    if num_queries is None and isinstance(job.method.num_queries, int):
        num_queries = (job.method.num_queries,)
    settings, _, outlook = outlook_of(job, progress, num_records=num_records, num_queries=num_queries or ())
    return plan(outlook, settings.terms, num_queries=num_queries, votes_per_record=votes_per_record, progress=progress)


def outlook_of(
    job: JobFile,
    progress: Progress | None = None,
    *,
    num_records: int | None = None,
    num_queries: Sequence[int] = (),
) -> tuple[RunSettings, Schema, Outlook]:
    """What the job asks for, how its samples are read, and all that a plan of it looks at.

    Args:
      num_records: How many records will vote; the job's `records.expected` when None.
      num_queries: That will be considered: refused before a look at the pool, which takes long, where it has fewer.
    """
    job = _expecting(job, num_records)
    with step(progress, "read"):
        with part(0.0, 0.5):
            public = job.public.read("public")
        with part(0.5, 1.0):
            schema, pool = job.read_pool(public)
    _refuse_more_than(len(pool), num_queries)
    settings = RunSettings.given(job.settings() | {"records": replace(job.records, schema=schema)})
    outlook = _outlook(job, settings, pool, public, None, progress)
    if outlook is None:
        raise InvalidInput("a plan needs a public number of records: --num-records, or records.expected")
    return settings, schema, outlook


def check_job(job: JobFile, progress: Progress | None = None, *, num_records: int | None = None) -> Checked:
    """Everything that public data shows. Of private files it is only seen whether they exist."""
    if not job.private.path.exists():
        raise InvalidInput(f"[private] {job.private.path} does not exist")
    stated = _expecting(job, num_records)
    with step(progress, "read"):
        with part(0.0, 0.5):
            public = job.public.read("public")
        with part(0.5, 1.0):
            beside = list(_beside_test(job, public))
    found = check_run(stated, public, num_records=None, progress=progress, thorough=True)
    return replace(found, findings=(*beside, *found.findings))


def check_run(
    job: JobFile,
    public: Loaded,
    *,
    num_records: int | None,
    progress: Progress | None = None,
    thorough: bool = False,
) -> Checked:
    """The same for a run that begins.

    Args:
      num_records: How many there are; counts only where that is public.
      thorough: Also try numbers of queries that the job does not ask for.
    """
    schema, pool = job.read_pool(public)
    asked = job.method.num_queries if isinstance(job.method.num_queries, int) else None
    _refuse_more_than(len(pool), [] if asked is None else [asked])
    settings = RunSettings.given(job.settings() | {"records": replace(job.records, schema=schema)})
    outlook = _outlook(job, settings, pool, public, num_records, progress)
    if outlook is None:
        found = check(schema, public.samples, None, None)
        text = "the number of records is not stated, so what the budget buys is not checked: say --num-records"
        unknown = Finding(stops=False, about="records", text=text)
        return replace(found, findings=(*found.findings, unknown) if len(job.method.classes) > 1 else found.findings)
    made = plan(
        outlook,
        settings.terms,
        num_queries=None if asked is None or thorough else [asked],
        votes_per_record=(job.method.votes_per_record,),
        compare=False,
        progress=progress,
    )
    if thorough and asked is not None and asked not in [one.num_queries for one in made.considered]:
        votes = job.method.votes_per_record
        with step(progress, "plan: the job's own number of queries"):
            extra = predict(outlook, settings.terms, num_queries=asked, votes_per_record=votes)
        made = replace(made, considered=(*made.considered, extra))
    return check(schema, public.samples, outlook, made, num_queries=asked)


def _beside_test(job: JobFile, public: Loaded) -> Iterator[Finding]:
    """Where the public test file differs from the pool, in columns that both have."""
    if job.test is None:
        return
    schema, _ = job.read_pool(public)
    if has_columns(schema):
        yield from beside_test(schema, public.samples, job.test.read("test", schema).samples)


def _refuse_more_than(samples: int, num_queries: Sequence[int]) -> None:
    for asked in num_queries:
        if asked > samples:
            raise InvalidInput(f"num_queries must be <= the pool's {samples} samples, got {asked}")


def _expecting(job: JobFile, num_records: int | None) -> JobFile:
    """The job with a number of records that its owner states: by that it is public, whoever the neighbours are."""
    if num_records is None:
        return job
    return job.model_copy(update={"records": replace(job.records, expected=num_records)})


def _outlook(
    job: JobFile,
    settings: RunSettings,
    pool: Samples,
    public: Loaded,
    num_records: int | None,
    progress: Progress | None,
) -> Outlook | None:
    """None where no public number of records is stated, or where there is nothing to tell apart."""
    hidden = settings.terms.neighbours is not Neighbours.REPLACE
    records = job.records.expected if hidden or num_records is None else num_records
    if not records or len(job.method.classes) < 2:
        return None
    with step(progress, "plan: look at the pool"):
        return settings.outlook(
            pool,
            num_records=records,
            y_public=_single(public.labels),
            class_shares=job.plan.class_shares,
            attainable=job.plan.attainable,
        )


def _single(labels: NDArray[Any] | None) -> NDArray[Any] | None:
    """Labels of the pool, where samples have one each."""
    return None if labels is None or np.ndim(labels) != 1 else labels
