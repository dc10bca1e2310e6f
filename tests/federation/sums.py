"""A secure sum played through in one process, with parties that vanish and messages that are tampered with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recordwise.federation.identity import identity_key, public_identity
from recordwise.federation.secure_sum import Session, SumClient, SumServer

Tamper = Callable[[str, str, bytes], bytes | None]  # (stage, party, message) -> what arrives; None: nothing does


def untouched(stage: str, name: str, message: bytes) -> bytes | None:
    return message


@dataclass
class Played:
    """A finished sum, and every byte that the server took in."""

    residues: NDArray[np.uint64]
    parties: int
    private: bool
    server: SumServer
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)


def parties(count: int) -> dict[str, bytes]:
    """Names with private identity keys."""
    return {f"silo-{number}": identity_key() for number in range(count)}


def session_of(
    identities: Mapping[str, bytes],
    *,
    threshold: int,
    length: int,
    bits: int = 20,
    name: str = "run/1",
    colluding: int = 0,
) -> Session:
    roster = {party: public_identity(private) for party, private in identities.items()}
    return Session(name=name, roster=roster, threshold=threshold, length=length, modulus_bits=bits, colluding=colluding)


def play(
    session: Session,
    identities: Mapping[str, bytes],
    vectors: Mapping[str, NDArray[np.uint64]],
    arriving: Tamper = untouched,
    *,
    restart: bool = False,
    private: bool = True,
) -> Played:
    """Every stage in order; `restart` makes each client from its saved state before each stage."""
    clients = {name: SumClient(session, name, key) for name, key in identities.items()}
    server = SumServer(session, seeded=not private)
    seen: list[tuple[str, str, bytes]] = []

    def gather(stage: str, ask: Callable[[SumClient], bytes], whom: list[str]) -> dict[str, bytes]:
        answers = {}
        for name in whom:
            if restart:
                clients[name] = SumClient.restored(session, name, identities[name], clients[name].state())
            message = arriving(stage, name, ask(clients[name]))
            if message is not None:
                answers[name] = message
                seen.append((stage, name, message))
        return answers

    answers = gather("advertise", lambda client: client.advertise(), list(clients))
    keys = server.advertised(answers)
    answers = gather("share", lambda client: client.share(keys), list(server._keys))
    shares = server.shared(answers)
    answers = gather(
        "mask", lambda client: client.mask(shares[client.name], vectors[client.name], private=private), list(shares)
    )
    survivors = server.masked(answers)
    answers = gather("confirm", lambda client: client.confirm(survivors), server.survivors)
    confirmed = server.confirmed(answers)
    answers = gather("reveal", lambda client: client.reveal(confirmed), server.survivors)
    residues, parties, was_private = server.revealed(answers)
    return Played(residues, parties, was_private, server, seen)
