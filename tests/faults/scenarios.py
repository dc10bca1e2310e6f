"""What processes do that may be killed, starved or cut off: each is started again with the same call, and goes on.

A scenario works below one folder. It calls `mark` with whatever has just left it, so that a test can ask later whether
that was lost, or left a second time as something else. It gives what it released and what was charged for it.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from federation.world import LOUD, World
from recordwise import distiller, pipeline
from recordwise.data import Loaded
from recordwise.distiller import PrivateDistiller
from recordwise.federation.exchange import InProcess
from recordwise.federation.identity import identity_key, kept_key, public_identity
from recordwise.federation.replies import Reply
from recordwise.federation.secure_sum import masks
from recordwise.hashing import digest, digest_of
from recordwise.pipeline import Round
from recordwise.privacy.device_account import DeviceAccount
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.ledger import Ledger
from recordwise.privacy.payments import Payments
from recordwise.protocols.release import pack
from recordwise.queries import KMeansQueries, Queries
from recordwise.randomness import seeded
from recordwise.report import summarize
from recordwise.run import write_outcome

Mark = Callable[[str], None]
Outcome = dict[str, Any]

ROUNDS = 2
TRUTH = np.arange(70) % 2
POINTS = 9.0 * TRUTH[:, None] + seeded(0, "faults").normal(size=(70, 2))
POOL, X, Y = POINTS[:30], POINTS[30:], TRUTH[30:]


class Anyhow:
    """Queries that come out otherwise every time: only the run's folder knows which ones were asked."""

    def ask(self, pool: np.ndarray) -> Queries:
        return KMeansQueries(num_queries=4, seed=int.from_bytes(os.urandom(4), "big")).ask(pool)

    def __repr__(self) -> str:
        return "Anyhow()"


def job(root: Path, mark: Mark, **settings: Any) -> Outcome:
    """A run of two rounds, paid from a ledger elsewhere, with all its results."""
    account = {"ledger": root / "ledger.sqlite", "budget_epsilon": 9.0, "run_dir": root / "runs" / "job", **settings}
    votes: dict[str, str] = {}
    method = {"queries": Anyhow(), "decoder": "argmax", "student": "linear"}  # the quickest
    one = PrivateDistiller(2.0, num_queries=4, rounds=ROUNDS, classes=[0, 1], account=account, **method)
    _marked(mark)
    vote = distiller.vote

    def voting(records: Any, question: Any, *rest: Any) -> Any:
        votes[str(question.round)] = digest(question.queries.vectors)
        mark(f"asked {question.round} {votes[str(question.round)]}")
        return vote(records, question, *rest)

    distiller.vote = voting
    one.fit(X, Y, X_public=POOL)
    summary = summarize(one, POOL, name="job")
    write_outcome(root / "runs" / "job", one, summary, Loaded(samples=POOL, labels=None))
    run = json.loads((root / "runs" / "job" / "run.json").read_text())["run"]
    released = {str(number): about(each) for number, each in enumerate(one.rounds_, start=1)}
    return {
        "released": released,
        "charged": [key for _, key in charges(root)],
        "expected": [f"{run}/round-{n + 1}" for n in range(ROUNDS)],
        "asked": votes,
        "queries": {str(n): digest(each.queries.vectors) for n, each in enumerate(one.rounds_, start=1)},
    }


def individual(root: Path, mark: Mark) -> Outcome:
    """The same, with records that pay for themselves."""
    found = job(root, mark, round_epsilon=1.0)
    folder = root / "runs" / "job"
    paid = Payments(folder / "private" / "payments", json.loads((folder / "run.json").read_text())["run"]).load()
    assert paid is not None
    # Each of the two rounds costs a record half of what it has: it ends with nothing left, and never with more paid.
    found["paid"] = [float(paid._payments[number]) for number in paid._paid]
    return found


def unledgered(root: Path, mark: Mark) -> Outcome:
    """The same, with nobody to pay: the folder alone remembers what was released."""
    return {**job(root, mark, ledger=None, budget_epsilon=None), "expected": []}


def restarted(root: Path, mark: Mark) -> Outcome:
    """A run that its budget refuses, and that is mended in the same folder."""
    ledger = Ledger.open(root / "ledger.sqlite")
    ledger.open_budget("default", epsilon=3)
    folder = root / "runs" / "job"
    mistaken = not (folder / "released-1").exists()
    if mistaken:  # its encoder and queries are there when the mistake is mended
        from recordwise.checkpoint import Checkpoint

        begun = Checkpoint.open(folder, {"epsilon": 5.0})
        for name in ("encoder", "queries-1"):
            begun.keep(name, lambda: [1.0, 2.0])
        path = begun.private_path("payments")
        assert path is not None
        path.write_bytes(b"of another run")
        del begun
    return job(root, mark, budget_epsilon=None)


def device(root: Path, mark: Mark) -> Outcome:
    """A device that answers three tasks from its account."""
    account = DeviceAccount(root / "account.json", 1)
    told = {}
    for key in ("a", "b", "c"):
        message = account.release(key, Fraction(1, 4), lambda: os.urandom(16))
        told[key] = digest_of(message)
        mark(f"released {key} {told[key]}")
    return {"released": told, "charged": [str(account.spent)], "expected": ["3/4"]}


class Marking(InProcess):
    """An exchange that marks every answer that left a node."""

    def __init__(self, nodes: Mapping[str, Any], mark: Mark) -> None:
        super().__init__(nodes)
        self.mark, self.left = mark, {}

    def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterable[tuple[str, bytes]]:
        for node, reply in super().ask(stage, requests, timeout):
            key = f"{node}-{stage}-{digest_of(requests[node])[:16]}"
            if stage != "plan" and not Reply.claimed(reply).refused:  # what it refused it may do later
                self.left[key] = digest_of(reply)
                self.mark(f"released {key} {self.left[key]}")
            yield node, reply


def federation(root: Path, mark: Mark, trust: Trust = Trust.DISTRIBUTED) -> Outcome:
    """A coordinator and three silos, with a ledger and a journal each, in one process."""
    world = World(root / "world", trust=trust, rounds=1, epsilon=LOUD if trust is not Trust.SHUFFLE else 2.0)
    world.identities = {name: kept_key(root / "keys" / name, identity_key()) for name in world.identities}
    world.roster = {name: public_identity(world.identities[name]) for name in world.names}
    world.mixer_key = kept_key(root / "keys" / "mixing", masks.fresh_key())
    world.mixer = ("mixer", public_identity(world.identities["mixer"]), masks.public_key(world.mixer_key))
    exchange = Marking(world.nodes(), mark)
    _marked(mark)
    fitted = world.fit_with(exchange, world.federation())
    run = json.loads((root / "world" / "run" / "run.json").read_text())["run"]
    released = {"1": about(fitted.rounds_[0]), **exchange.left}
    # A silo whose disk fails is left out of the sum: it pays if its answer left, and at most once.
    due = {f"{name}-{stage}": f"{name} {run}/round-1" for name in world.names for stage in ("mask", "vote")}
    charged = [f"{payer} {key}" for payer, key in charges(root)]
    return {"released": released, "charged": charged, "expected": [f"world {run}/round-1"], "due": due}


def central(root: Path, mark: Mark) -> Outcome:
    return federation(root, mark, Trust.CENTRAL)


def shuffled(root: Path, mark: Mark) -> Outcome:
    return federation(root, mark, Trust.SHUFFLE)


def charges(root: Path) -> list[tuple[str, str]]:
    """Every charge in every ledger below a folder: the name of the folder that the ledger lies in, and the key."""
    found = []
    for place in sorted(root.rglob("ledger.sqlite")):
        ledger = Ledger.open(place, read_only=True)
        found += [
            (place.parent.name, entry.key) for budget in ledger.budgets() for entry in ledger.history(budget.name)
        ]
    return found


def about(one: Round) -> str:
    """A release, and what it was asked."""
    return digest_of(pack(one.release) + one.queries.vectors.tobytes())


def _marked(mark: Mark) -> None:
    """Mark each release as it leaves the account."""
    numbers = itertools.count(1)

    def marking(*parts: Any) -> Round:
        one = Round(*parts)
        mark(f"released {next(numbers)} {about(one)}")
        return one

    pipeline.Round = marking  # type: ignore[assignment, misc]


SCENARIOS: dict[str, Callable[[Path, Mark], Outcome]] = {
    one.__name__: one for one in (job, individual, unledgered, restarted, device, federation, central, shuffled)
}
