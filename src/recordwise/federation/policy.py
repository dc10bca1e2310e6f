"""What a silo allows, set by the silo: its cap, the trust it grants, and who must take part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from recordwise.durable import make_folder, write_whole
from recordwise.errors import InvalidInput, ProtocolFault, count, whole
from recordwise.federation.plan import Plan
from recordwise.formats import text_of
from recordwise.privacy.guarantee import Neighbours, Trust, exact, members


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A silo's own rules.

    Attributes:
      epsilon: The cap: what all answers together may cost one of its records.
      trust: The most trust it grants (`Trust.covers`).
      min_parties: With fewer silos than this promised it does not answer.
      colluding: Under distributed and shuffle trust, at least so many silos may be working against it, or read the
        release and know what they added themselves.
      peers: Public identities of silos it knows, learned from them and not from the coordinator. Under distributed
        and shuffle trust, `min_parties` counts these only.
      shuffler: Name, identity and key of the shuffler it knows.
      pool: Fingerprint of the only pool it answers about; None for any.
      always: Answer whatever these rules allow; otherwise a person approves each plan first.
      ledger: Where its ledger lies; None for its own folder.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    neighbours: Neighbours = Neighbours.REPLACE
    trust: Trust = Trust.DISTRIBUTED
    min_parties: int = 2
    colluding: int = 1
    peers: Mapping[str, bytes] = field(default_factory=dict)
    shuffler: tuple[str, bytes, bytes] | None = None
    pool: str | None = None
    always: bool = False
    budget: str = "default"
    ledger: str | None = field(default=None, repr=False)  # a URL may hold a password

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        object.__setattr__(self, "delta", exact(self.delta))
        members(self, neighbours=Neighbours, trust=Trust)
        whole(min_parties=self.min_parties)
        count(colluding=self.colluding)

    def check(self, plan: Plan, name: str) -> None:
        """Refuse a plan that breaks a rule, naming the rule."""
        if name not in plan.roster:
            raise ProtocolFault(f"the roster must hold {name!r}, it holds {', '.join(plan.roster)}")
        if self.pool is not None and plan.pool != self.pool:
            raise ProtocolFault(f"the pool must be {self.pool[:16]}… as agreed, got {plan.pool[:16]}…")
        if plan.threshold < self.min_parties:
            raise ProtocolFault(
                f"at least {self.min_parties} silos must be promised, got a threshold of {plan.threshold}"
            )
        if plan.trust in (Trust.DISTRIBUTED, Trust.SHUFFLE):
            if plan.colluding < self.colluding:
                raise ProtocolFault(f"{self.colluding} colluding silos must be tolerated, got {plan.colluding}")
            self._check_company(plan, name)
        if plan.trust is Trust.SHUFFLE and plan.shuffler != self.shuffler:
            raise ProtocolFault("the shuffler must be the one this silo knows, it is not")

    def approves(self, plan: Plan, folder: Path) -> bool:
        """Whether a person, or the rules alone, said yes to this very plan."""
        return self.always or (folder / "approved" / plan.digest).exists()

    def _check_company(self, plan: Plan, name: str) -> None:
        """Where silos protect each other, strangers do not count."""
        known = [peer for peer, key in plan.roster.items() if peer == name or self.peers.get(peer) == key]
        strangers = len(plan.roster) - len(known)
        posing = [peer for peer in plan.roster if peer in self.peers and plan.roster[peer] != self.peers[peer]]
        if posing:
            raise ProtocolFault(f"{posing[0]!r} must have the identity this silo knows, the roster holds another")
        if plan.threshold - strangers < self.min_parties:
            raise ProtocolFault(
                f"at least {self.min_parties} silos known to this one must take part, the plan promises "
                f"{max(0, plan.threshold - strangers)}"
            )
        if strangers > plan.colluding:
            raise ProtocolFault(
                f"silos not known to this one must count as colluding, the roster holds {strangers} and the plan "
                f"tolerates {plan.colluding}: neither their noise nor their messages can be relied on"
            )


def approve(folder: Path, digest: str) -> str:
    """Say yes to an offered plan; gives its text."""
    fits = digest.isalnum() and len(digest) >= 8
    offers = sorted((folder / "offers").glob(f"{digest}*.txt")) if fits else []
    if len(offers) != 1:
        raise InvalidInput(f"plan must be 8 or more first digits of one offered plan, {digest!r} fits {len(offers)}")
    make_folder(folder / "approved")
    write_whole(folder / "approved" / offers[0].stem, b"")
    return text_of(offers[0])
