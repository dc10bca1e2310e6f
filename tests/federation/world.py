"""Three silos, a pool and a coordinator in one process, small enough to know every number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.distiller import PrivateDistiller
from recordwise.federation.coordinator import fit_silos
from recordwise.federation.exchange import Exchange, InProcess, Node
from recordwise.federation.federation import Federation
from recordwise.federation.identity import identity_key, public_identity
from recordwise.federation.policy import Policy
from recordwise.federation.records import SiloRecords, Voters
from recordwise.federation.secure_sum import masks
from recordwise.federation.shuffling import ShufflerNode
from recordwise.federation.silo import Silo
from recordwise.privacy.guarantee import Trust
from recordwise.privacy.ledger import Ledger
from recordwise.randomness import seeded

CLASSES = ("oak", "ash", "elm")
PER_SILO = 40
# Noise this small is zero but for a chance of e^-100: the released tally is the exact one, through the real protocol.
LOUD = 400.0


def blobs(count: int, *path: str) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Points around three far centres, and which one each is at."""
    rng = seeded(7, *path)
    numbers = np.arange(count) % len(CLASSES)
    centres = np.array([[0.0, 0, 0, 0], [9, 0, 9, 0], [0, 9, 0, 9]])
    return centres[numbers] + rng.normal(size=(count, 4)), np.array(CLASSES)[numbers]


Tamper = Callable[[str, str, bytes], Iterable[bytes]]  # (stage, node, reply) -> what arrives


class Tampered(InProcess):
    """An exchange in which replies are lost, doubled or altered; it keeps what went each way."""

    def __init__(self, nodes: Mapping[str, Node], tamper: Tamper | None = None) -> None:
        super().__init__(nodes)
        self.tamper = tamper or (lambda stage, node, reply: [reply])
        self.requests: list[tuple[str, str, bytes]] = []
        self.replies: list[tuple[str, str, bytes]] = []

    def ask(self, stage: str, requests: Mapping[str, bytes], timeout: float) -> Iterable[tuple[str, bytes]]:
        self.requests += [(stage, node, request) for node, request in requests.items()]
        for node, reply in super().ask(stage, requests, timeout):
            for arrived in self.tamper(stage, node, reply):
                self.replies.append((stage, node, arrived))
                yield node, arrived


@dataclass
class World:
    """Everything on one machine; `silos` and `coordinator` make fresh objects, as after a restart."""

    folder: Path
    trust: Trust = Trust.CENTRAL
    epsilon: float = LOUD
    rounds: int = 2
    threshold: int = 2
    by_class: bool = False  # one class per silo instead of a mixture
    cap: float = 10 * LOUD
    colluding: int = 0
    attempts: int = 1
    policy: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ("north", "south", "west")

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.identities = {name: identity_key() for name in (*self.names, "mixer")}
        self.roster = {name: public_identity(self.identities[name]) for name in self.names}
        self.mixer_key = masks.fresh_key()
        self.mixer = ("mixer", public_identity(self.identities["mixer"]), masks.public_key(self.mixer_key))
        self.pool, self.pool_labels = blobs(90, "pool")
        samples, labels = blobs(len(self.names) * PER_SILO, "records")
        order = np.argsort(labels, kind="stable") if self.by_class else np.arange(len(labels))
        parts = np.split(order, len(self.names))
        self.held = {name: (samples[part], labels[part]) for name, part in zip(self.names, parts, strict=True)}
        self.records: dict[str, Voters] = {name: SiloRecords.of(*held) for name, held in self.held.items()}

    def rules(self, **policy: Any) -> Policy:
        rules = {
            "epsilon": Fraction(self.cap),
            "delta": Fraction(1, 10) if self.trust is Trust.SHUFFLE else Fraction(0),
            "trust": self.trust,
            "peers": self.roster,
            "shuffler": self.mixer,
            "colluding": self.colluding,
            "always": True,
            **self.policy,
            **policy,
        }
        return Policy(**rules)

    def silo(self, name: str, **policy: Any) -> Silo:
        rules = self.rules(**policy)
        return Silo(name, self.identities[name], self.folder / name, rules, lambda: self.records[name])

    def nodes(self, **policies: Mapping[str, Any]) -> dict[str, Node]:
        nodes: dict[str, Node] = {name: self.silo(name, **policies.get(name, {})) for name in self.names}
        nodes["mixer"] = ShufflerNode(
            "mixer", self.identities["mixer"], self.mixer_key, self.folder / "mixer", self.roster
        )
        return nodes

    def federation(self, **changes: Any) -> Federation:
        total = len(self.names) * PER_SILO
        least = (self.threshold - self.colluding) * PER_SILO
        return Federation(
            **{
                "roster": self.roster,
                "threshold": self.threshold,
                "records": (least, total),
                "colluding": self.colluding,
                "attempts": self.attempts,
                "shuffler": self.mixer,
                "timeout": 5.0,
                "patience": 0.0,
                **changes,
            }
        )

    def coordinator(self, **settings: Any) -> PrivateDistiller:
        place = self.folder / "ledger.sqlite"
        delta = 1e-3 if self.trust is Trust.SHUFFLE else 0.0
        Ledger.open(place).open_budget("all", epsilon=10 * LOUD, delta=delta)
        return PrivateDistiller(
            **{
                "epsilon": self.epsilon,
                "delta": delta,
                "trust": str(self.trust),
                "rounds": self.rounds,
                "num_queries": 6,
                "classes": list(CLASSES),
                "encoder": "scaler",
                "decoder": "argmax",  # the quickest: what is made of a tally is the same in one place
                "student": "linear",
                "account": {"ledger": place, "budget": "all", "run_dir": self.folder / "run"},
                **self.settings,
                **settings,
            }
        )

    def fit(self, exchange: InProcess | None = None, **settings: Any) -> PrivateDistiller:
        return self.fit_with(exchange or Tampered(self.nodes()), self.federation(), **settings)

    def fit_with(self, exchange: Exchange, federation: Federation, **settings: Any) -> PrivateDistiller:
        """A run over this exchange; `faults_` of what it gives are the answers that did not count."""
        faults: list[str] = []
        fitted = fit_silos(self.coordinator(**settings), self.pool, federation, exchange, on_fault=faults.append)
        fitted.faults_ = faults  # type: ignore[attr-defined]
        return fitted

    def fit_records(self, records: tuple[int, int]) -> PrivateDistiller:
        """A run whose plan speaks of other numbers of records than there are."""
        return self.fit_with(Tampered(self.nodes()), self.federation(records=records))

    def pooled(self, fitted: PrivateDistiller, number: int, names: Iterable[str] | None = None) -> NDArray[np.int64]:
        """The exact tally of a round, computed in one place from the pooled records."""
        from recordwise.encoders import encode
        from recordwise.records import read_labels
        from recordwise.votes import cast_votes

        one = fitted.rounds_[number - 1]
        held = [self.held[name] for name in (names or self.names)]
        samples = np.concatenate([part[0] for part in held])
        numbers, _ = read_labels(np.concatenate([part[1] for part in held]), fitted.classes_, 1)
        return cast_votes(
            encode(fitted.encoder_, samples),
            numbers[:, 0],
            one.queries.vectors,
            one.release.ballot,
            metric=one.queries.metric,
            prices=one.queries.prices,
        ).counts()

    def spent(self, name: str) -> Fraction:
        return Ledger.open(self.folder / name / "ledger.sqlite", read_only=True).spent("default")
