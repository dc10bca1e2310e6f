"""`recordwise compare`: our method and the alternatives on one job's data: one table, one figure, all of it paid for.

Every method makes a release of its own about the same records, so their costs add up: a comparison of ten methods at
epsilon 1 costs 10. That is said before anything is spent, and a ledger that cannot pay for all of it refuses all of it.
With `public_only` public samples with labels play all parts, and nothing private is opened.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.account import Account
from recordwise.baselines import rival, rivals
from recordwise.checkpoint import OWN_LEDGER
from recordwise.data import Samples, rows
from recordwise.data.schema import Schema
from recordwise.distiller import PrivateDistiller
from recordwise.durable import write_whole
from recordwise.errors import InvalidInput, RecordwiseError
from recordwise.fits import uncounted
from recordwise.job import Compare, JobFile
from recordwise.privacy.events import Approximate, Event, Pure
from recordwise.privacy.guarantee import Neighbours, Trust, exact, members, rounded_up
from recordwise.privacy.ledger import Ledger
from recordwise.progress import Progress, part, step
from recordwise.randomness import seeded
from recordwise.records import Why, declared_classes, read_labels
from recordwise.report.comparison import Comparison, Measured, comparison_page
from recordwise.run import read_test

OURS = "recordwise"
FOLDER, PAGE, TABLE = "compare", "compare.html", "compare.json"
# One for all methods: what a comparison costs, who pays for it, and what it is about.
SHARED = ("epsilon", "neighbours", "classes", "encoder", "records", "account", "random_state")
SPLIT = (0.4, 0.4)  # of a labelled public set: pool, and what plays the records; the rest is the test set


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """What the methods are compared on."""

    schema: Schema
    pool: Samples
    samples: Samples
    labels: Any
    test: tuple[Samples, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a comparison costs, before it is made."""

    releases: int
    epsilon: Fraction
    delta: Fraction
    neighbours: Neighbours
    free: bool

    def __post_init__(self) -> None:
        members(self, neighbours=Neighbours)

    def __str__(self) -> str:
        if self.free:
            return f"{self.releases} releases about public data: this comparison costs nothing."
        delta = f" and delta {rounded_up(self.delta)}" if self.delta else ""
        return (
            f"This comparison makes {self.releases} releases about the same records: epsilon "
            f"{rounded_up(self.epsilon)}{delta} in all, under {self.neighbours} neighbours."
        )


def entries(job: JobFile) -> Iterator[tuple[dict[str, Any], float]]:
    """Each method with its settings, at each epsilon."""
    asked = job.compare or Compare()
    specs: Sequence[Any] = asked.methods or [OURS, *rivals()]
    for epsilon in asked.epsilons or [job.privacy.epsilon]:
        for spec in specs:
            yield ({"name": spec} if isinstance(spec, str) else dict(spec)), epsilon


def price(job: JobFile, *, public_only: bool = False) -> Price:
    """What comparing costs; nothing is read."""
    methods = list(entries(job))
    return Price(
        releases=len(methods),
        epsilon=sum((exact(epsilon) for _, epsilon in methods), Fraction(0)),
        delta=sum((_delta(job, spec) for spec, _ in methods), Fraction(0)),
        neighbours=Neighbours(job.privacy.neighbours),
        free=public_only,
    )


def _delta(job: JobFile, spec: dict[str, Any]) -> Fraction:
    if spec["name"] == OURS:
        return exact(job.privacy.delta)
    return exact(spec.get("delta", (job.compare or Compare()).delta))


def compare_job(
    job: JobFile,
    *,
    public_only: bool = False,
    progress: Progress | None = None,
    tell: Callable[[str], object] = lambda line: None,
) -> Comparison:
    """Fit every method, score it on the test set, and write `compare.html` and `compare.json` into the job's folder.

    A method that cannot be made private on these terms is a row that says why; it costs nothing. One that fails after
    its release is such a row, too, and says that it was paid for.

    Args:
      tell: Called with the price, before anything is spent.
    """
    if job.out is None:
        raise InvalidInput("a job needs a folder for its results: out")
    if job.privacy.trust.name != Trust.CENTRAL or job.records.labels_per_record != 1:
        raise InvalidInput("a comparison needs central trust and one label per record: the alternatives have no other")
    methods = list(entries(job))
    for spec, epsilon in methods:  # a mistake in any is refused before the first is paid for
        if spec.get("name") != OURS:
            rival(spec, epsilon=epsilon)
            for setting in spec.keys() & set(SHARED):
                raise InvalidInput(f"{setting} is one for all methods of a comparison, {spec['name']!r} has its own")
        elif len(spec) > 1:
            raise InvalidInput("recordwise takes its settings from [method] and [privacy], not from [compare]")
    cost = price(job, public_only=public_only)
    with step(progress, "read"):
        parts = _public_parts(job) if public_only else _parts(job)
    tell(str(cost))
    account = None if public_only else _account(job, cost, job.out)
    if account is not None:
        _refuse_unpayable(job, account)
    found = []
    with step(progress, "compare"):
        for number, (spec, epsilon) in enumerate(methods):
            payer = account and replace(account, run_dir=_run_dir(account, number, spec, epsilon))
            with part(number, number + 1, len(methods)):
                found.append(_measure(job, spec, epsilon, parts, payer))
    made = Comparison(name=job.name, price=str(cost), public_only=public_only, rows=found)
    job.out.mkdir(parents=True, exist_ok=True)
    write_whole(job.out / TABLE, json.dumps(asdict(made), indent=1).encode())
    write_whole(job.out / PAGE, comparison_page(made).encode())
    return made


def _measure(job: JobFile, spec: dict[str, Any], epsilon: float, parts: Parts, payer: Account | None) -> Measured:
    """One method's row."""
    name, started = spec["name"], time.perf_counter()
    try:
        model = _ours(job, epsilon, parts, payer) if name == OURS else _theirs(job, spec, epsilon, parts, payer)
    except RecordwiseError as fault:
        paid = payer is not None and _begun(Path(payer.run_dir or "."))
        return Measured.refused(name, epsilon, f"{fault}; its release is paid for" if paid else str(fault))
    accuracy = float(model.score(*parts.test))
    return Measured.of(
        name,
        model.guarantee_,
        accuracy=accuracy,
        error=math.sqrt(accuracy * (1 - accuracy) / len(parts.test[1])),
        seconds=time.perf_counter() - started,
        data_dependent_epsilon=getattr(getattr(model, "data_dependent_", None), "epsilon", None),
    )


def _ours(job: JobFile, epsilon: float, parts: Parts, payer: Account | None) -> PrivateDistiller:
    settings = job.settings() | {
        "epsilon": epsilon,
        "records": replace(job.records, schema=parts.schema),
        "account": replace(payer or Account(), go_on=True),  # these epsilons were asked for, and are paid for
    }
    with uncounted():  # a ledger counts, or the records are public
        return PrivateDistiller(**settings).fit(parts.samples, parts.labels, X_public=parts.pool)


def _theirs(job: JobFile, spec: dict[str, Any], epsilon: float, parts: Parts, payer: Account | None) -> Any:
    shared = {
        "epsilon": epsilon,
        "delta": (job.compare or Compare()).delta,
        "neighbours": str(job.privacy.neighbours),
        "classes": job.method.classes,
        "encoder": job.settings()["encoder"],
        "records": replace(job.records, schema=parts.schema),
        "account": payer,
        "random_state": job.method.random_state,
    }
    with uncounted():
        return rival(spec, **shared).fit(parts.samples, parts.labels, X_public=parts.pool)


def _parts(job: JobFile) -> Parts:
    if job.test is None:
        raise InvalidInput("a comparison needs a labelled test set: [test]")
    schema, pool = job.read_pool()
    test = read_test(job.test, schema, job.method.classes, several=False)
    samples, labels = job.read_records(schema)
    return Parts(schema=schema, pool=pool, samples=samples, labels=labels, test=test)


def _public_parts(job: JobFile) -> Parts:
    """Labelled public samples, dealt out: their labels say what each method is worth on data like these, for free.

    Those of the pool, or those of the test set where the pool has no labels. A sample of the pool without a label stays
    in the pool.
    """
    schema, pool = job.read_pool()
    if job.public.labels is not None:
        samples, labels = pool, np.asarray(job.public.read("public").labels)
        shares = SPLIT
    elif job.test is not None:
        samples, labels = read_test(job.test, schema, job.method.classes, several=False)
        shares = (0.0, SPLIT[1] / (1 - SPLIT[0]))  # the pool is there
    else:
        raise InvalidInput(
            "--public-only compares on public labels: public.labels must name where they are, or [test] hold some"
        )
    names = declared_classes(job.method.classes)
    places, gaps = read_labels(labels, names, 1)
    known = gaps == Why.VOTES
    order = seeded(job.method.random_state, "compare").permutation(np.flatnonzero(known))
    cuts = np.cumsum([int(share * len(order)) for share in shares])
    pooled, voting, scored = np.split(order, cuts)
    if not len(voting) or not len(scored):
        raise InvalidInput(f"--public-only needs more samples with a label to deal out, got {len(order)}")
    if job.public.labels is not None:
        pool = rows(pool, np.concatenate([pooled, np.flatnonzero(~known)]))
    test = rows(samples, scored), names[places[scored, 0]]
    return Parts(schema=schema, pool=pool, samples=rows(samples, voting), labels=labels[voting], test=test)


def _account(job: JobFile, cost: Price, out: Path) -> Account:
    """Who pays. A job that names no ledger gets one beside its comparison, for exactly what that costs."""
    folder = out / FOLDER
    asked = replace(job.account, run_dir=folder)
    if asked.ledger is not None:
        return asked
    folder.mkdir(parents=True, exist_ok=True)
    own = replace(asked, ledger=str(folder / OWN_LEDGER))
    if asked.budget_epsilon is not None:
        return own
    return replace(own, budget_epsilon=float(cost.epsilon), budget_delta=float(cost.delta))


def _refuse_unpayable(job: JobFile, account: Account) -> None:
    """Refuse a comparison that its budget cannot pay for as a whole, before its first release."""
    ledger = Ledger.open(str(account.ledger), create=account.budget_epsilon is not None)
    if account.budget_epsilon is not None:
        ledger.open_budget(
            account.budget,
            epsilon=exact(account.budget_epsilon, "account.budget_epsilon"),
            delta=exact(account.budget_delta, "account.budget_delta"),
            neighbours=Neighbours(job.privacy.neighbours),
        )
    due: dict[str, Event] = {}
    for number, (spec, epsilon) in enumerate(entries(job)):
        if not _begun(_run_dir(account, number, spec, epsilon)):  # else it is paid for already
            delta = _delta(job, spec)
            due[str(number)] = Approximate(exact(epsilon), delta) if delta else Pure(exact(epsilon))
    ledger.refuse_unpayable(account.budget, due, "this comparison")


def _begun(folder: Path) -> bool:
    """Whether a method has released something, or was about to."""
    return (folder / "released-1").exists()


def _run_dir(account: Account, number: int, spec: dict[str, Any], epsilon: float) -> Path:
    return Path(account.run_dir or ".") / f"{number + 1}-{spec['name']}-{epsilon:g}"
