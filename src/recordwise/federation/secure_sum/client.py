"""One party's side of a secure sum: five answers, each given once."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import InvalidInput, ProtocolFault
from recordwise.federation.forms import hexadecimal, json_object
from recordwise.federation.secure_sum import masks, shamir
from recordwise.federation.secure_sum.session import Session
from recordwise.formats import json_from

STAGES = ("advertise", "share", "mask", "confirm", "reveal")


class SumClient:
    """A party that trusts the other parties' signatures and nothing the server says.

    Guarantees, whatever the server sends:
      - the vector leaves masked by at least `threshold` - 1 other parties' pairwise masks and by an own mask;
      - of any party either shares of the own mask or shares of the pairwise masks are revealed, never both;
      - shares are revealed only for one list of survivors, which `threshold` parties signed;
      - each stage is answered once.
    """

    def __init__(self, session: Session, name: str, identity: bytes) -> None:
        if name not in session.roster:
            raise InvalidInput(f"a party must be on the roster, {name!r} is not")
        self.session, self.name = session, name
        self._identity = identity
        self._done = 0
        self._seal_key, self._mask_key, self._own_mask = masks.fresh_key(), masks.fresh_key(), secrets.token_bytes(32)
        self._keys: dict[str, dict[str, str]] = {}
        self._inbox: dict[str, str] = {}
        self._survivors: list[str] = []

    def __repr__(self) -> str:
        return f"SumClient({self.name!r}, {self._done} of {len(STAGES)} stages done)"

    def __reduce__(self) -> NoReturn:
        raise InvalidInput("a party's keys must not be pickled; `state` is for its own safe-keeping")

    def advertise(self) -> bytes:
        """Fresh public keys."""
        self._enter("advertise")
        content = {"seal": masks.public_key(self._seal_key).hex(), "mask": masks.public_key(self._mask_key).hex()}
        return self.session.envelope(self._identity, "advertise", self.name, content)

    def share(self, advertised: bytes) -> bytes:
        """Shares of both secrets, one sealed pair for each other party that advertised keys."""
        self._enter("share")
        messages = json_object(advertised)
        keys = {}
        for name in self.session.roster:
            if name in messages:
                keys[name] = checked_keys(self.session.opened("advertise", name, str(messages[name]).encode()))
        self._at_least(keys, "parties must have advertised keys")
        if keys.get(self.name, {}).get("mask") != masks.public_key(self._mask_key).hex():
            raise ProtocolFault(f"the keys of {self.name!r} must be among those advertised, they are not")
        public = [key for pair in keys.values() for key in pair.values()]
        if len(set(public)) < len(public):
            raise ProtocolFault("every advertised key must differ from the others, two are equal")
        points = {name: self.session.point(name) for name in keys}
        mask_key = shamir.split(self._mask_key, self.session.threshold, points.values())
        own_mask = shamir.split(self._own_mask, self.session.threshold, points.values())
        self._keys = keys
        sealed = {
            name: masks.seal(self._seal_for(name), mask_key[point] + own_mask[point]).hex()
            for name, point in points.items()
        }
        content = {"sealed": sealed, "commitment": commitment(self.session, self._own_mask)}
        return self.session.envelope(self._identity, "share", self.name, content)

    def mask(self, shared: bytes, values: NDArray[np.uint64], *, private: bool = True) -> bytes:
        """The vector, masked.

        Args:
          values: Residues modulo 2^b.
          private: False when noise in them was drawn from a seed, which the sum must then say.
        """
        if self.unreadable(shared):  # found out before anything is sent
            raise ProtocolFault("shares must be sealed for this party, some are not: complain")
        self._enter("mask")
        inbox = json_object(shared)
        flat = np.asarray(values, dtype=np.uint64).ravel()
        bits, length = self.session.modulus_bits, self.session.length
        if flat.shape != (length,) or (flat >> np.uint64(bits)).any():
            raise InvalidInput(f"values must be {length} residues below 2^{bits}, got shape {flat.shape}")
        masked = flat + masks.mask(masks.derived_key(self._own_mask, b"own mask", self.session.digest), length, bits)
        for name in inbox:
            if name != self.name:
                masked = add_pairwise(self.session, masked, self._mask_key, self._keys[name]["mask"], self.name, name)
        self._inbox = {name: str(sealed) for name, sealed in inbox.items()}
        content = {"vector": self.session.packed(masked & np.uint64((1 << bits) - 1)), "private": bool(private)}
        return self.session.envelope(self._identity, "mask", self.name, content)

    def unreadable(self, shared: bytes) -> list[str]:
        """Whose shares cannot be read: their secrets could not be had back if they vanished.

        Refuses whatever `mask` would refuse of the server's message, so that nothing private is computed for it.
        """
        self._expect("mask")
        inbox = json_object(shared)
        if not set(inbox) <= set(self._keys):
            raise ProtocolFault("shares must come from parties that advertised keys, one does not")
        self._at_least(inbox, "parties must have shared their secrets")
        if self.name not in inbox:
            raise ProtocolFault(f"the shares of {self.name!r} must be among those handed on, they are not")
        found = []
        for name, sealed in inbox.items():
            try:
                self._opened(name, _digits(sealed))
            except ProtocolFault:
                found.append(name)
        return sorted(found)

    def complain(self, names: list[str]) -> bytes:
        """Instead of a vector: whose shares cannot be read. This party takes no further part in the sum."""
        self._enter("mask")
        return self.session.envelope(self._identity, "mask", self.name, {"unreadable": names})

    def confirm(self, arrived: bytes) -> bytes:
        """A signature on the list of parties whose vectors arrived."""
        self._enter("confirm")
        survivors = json_object(arrived).get("survivors")
        if not (
            isinstance(survivors, list)
            and all(isinstance(name, str) for name in survivors)
            and sorted(set(survivors)) == survivors
        ):
            raise ProtocolFault("survivors must be a sorted list of different names, they are not")
        if not set(survivors) <= set(self._inbox):
            raise ProtocolFault("survivors must be parties that shared their secrets, one is not")
        self._at_least(survivors, "parties must have survived")
        if self.name not in survivors:
            raise ProtocolFault(f"{self.name!r} must be among the survivors whose vectors arrived, it is not")
        self._survivors = survivors
        return self.session.envelope(self._identity, "confirm", self.name, {"survivors": survivors})

    def reveal(self, confirmed: bytes) -> bytes:
        """Shares of what masks the sum of the survivors, once enough of them confirmed the same list."""
        self._enter("reveal")
        messages, agreed = json_object(confirmed), []
        for name in self._survivors:
            if name in messages:
                content = self.session.opened("confirm", name, str(messages[name]).encode())
                if content.get("survivors") != self._survivors:
                    raise ProtocolFault(f"all parties must confirm the same survivors, {name!r} confirmed others")
                agreed.append(name)
        self._at_least(agreed, "parties must have confirmed the survivors")
        shares = {}
        for name, sealed in self._inbox.items():
            mask_key, own_mask = self._opened(name, bytes.fromhex(sealed))
            shares[name] = (own_mask if name in self._survivors else mask_key).hex()
        return self.session.envelope(self._identity, "reveal", self.name, {"shares": shares})

    def state(self) -> bytes:
        """What this party needs to go on after a restart. Secret: for its holder's own disk, until the sum is done."""
        secret = {"seal": self._seal_key.hex(), "mask": self._mask_key.hex(), "own": self._own_mask.hex()}
        rest = {"done": self._done, "keys": self._keys, "inbox": self._inbox, "survivors": self._survivors}
        return json.dumps({**secret, **rest}).encode()

    @classmethod
    def restored(cls, session: Session, name: str, identity: bytes, state: bytes) -> SumClient:
        """The party that `state` was taken from."""
        content = json_from(state, "the state of a secure sum")
        client = cls(session, name, identity)
        client._seal_key, client._mask_key, client._own_mask = (
            bytes.fromhex(content[key]) for key in ("seal", "mask", "own")
        )
        client._done, client._keys = content["done"], content["keys"]
        client._inbox, client._survivors = content["inbox"], content["survivors"]
        return client

    def _expect(self, stage: str) -> None:
        if STAGES.index(stage) != self._done:
            raise ProtocolFault(f"{stage!r} must be asked once and in its turn, after {self._done} stages it is not")

    def _enter(self, stage: str) -> None:
        self._expect(stage)
        self._done += 1  # before any answer: a stage that failed is not tried again with other messages

    def _at_least(self, parties: Mapping[str, Any] | list[str], rule: str) -> None:
        if len(parties) < self.session.threshold:
            raise ProtocolFault(f"at least {self.session.threshold} {rule}, got {len(parties)}")

    def _seal_for(self, reader: str) -> bytes:
        key = bytes.fromhex(self._keys[reader]["seal"])
        return masks.agreed_key(self._seal_key, key, b"share", self.session.digest, self.name.encode(), reader.encode())

    def _opened(self, writer: str, sealed: bytes) -> tuple[bytes, bytes]:
        key = bytes.fromhex(self._keys[writer]["seal"])
        purpose = (b"share", self.session.digest, writer.encode(), self.name.encode())
        both = masks.unseal(masks.agreed_key(self._seal_key, key, *purpose), sealed)
        if len(both) != 2 * shamir.SHARE_BYTES:
            raise ProtocolFault(f"two shares must have {2 * shamir.SHARE_BYTES} bytes, got {len(both)}")
        return both[: shamir.SHARE_BYTES], both[shamir.SHARE_BYTES :]


def commitment(session: Session, own_mask: bytes) -> str:
    """Binds a party to its own mask, so that shares that do not fit together are found out."""
    return masks.derived_key(own_mask, b"commitment", session.digest).hex()


def add_pairwise(
    session: Session, vector: NDArray[np.uint64], private: bytes, public: str, name: str, other: str
) -> NDArray[np.uint64]:
    """The mask that two parties share: added by the one whose name comes first, subtracted by the other."""
    purpose = (b"mask", session.digest, *(party.encode() for party in sorted((name, other))))
    key = masks.agreed_key(private, bytes.fromhex(public), *purpose)
    pairwise = masks.mask(key, session.length, session.modulus_bits)
    return vector + pairwise if name < other else vector - pairwise  # unsigned: wraps at 2^64, a multiple of 2^b


def checked_keys(content: dict[str, Any]) -> dict[str, str]:
    """The two different keys a party advertises, and nothing else; both of full order, or nobody could use them."""
    if set(content) != {"seal", "mask"} or content["seal"] == content["mask"]:
        raise ProtocolFault("a party must advertise two different keys, one did not")
    for key in content.values():
        masks.agreed_key(masks.fresh_key(), hexadecimal(key, masks.MASK_BYTES, "an advertised key"), b"check")
    return content


def _digits(value: object) -> bytes:
    try:
        return bytes.fromhex(str(value))
    except ValueError as error:
        raise ProtocolFault("keys and sealed shares must be hexadecimal digits, one is not") from error
