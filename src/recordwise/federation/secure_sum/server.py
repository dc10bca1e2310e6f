"""The server's side of a secure sum: it hands messages on, and in the end learns the sum of the survivors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import ProtocolFault
from recordwise.federation.forms import hexadecimal, one_line
from recordwise.federation.secure_sum import masks, shamir
from recordwise.federation.secure_sum.client import add_pairwise, checked_keys, commitment
from recordwise.federation.secure_sum.session import Session

SEALED_BYTES = 2 * shamir.SHARE_BYTES + 16  # two shares and the tag


class SumServer:
    """Collects five messages from each party; a party whose message is missing or refused has vanished.

    Guarantees:
      - the sum is exactly that of the vectors of `survivors`, modulo 2^b, or there is none;
      - with fewer than `threshold` parties left at any stage there is none;
      - a message that is altered, of another sum, of another stage or of another party counts as missing.

    Args:
      seeded: Let in noise that was drawn from a seed, for experiments; the sum then says that it is not private.

    Attributes:
      faults: Why parties were left out, in words.
      culprits: Who made the sum fail, where that can be told: another sum should do without them.
    """

    def __init__(self, session: Session, *, seeded: bool = False) -> None:
        self.session, self._seeded = session, seeded
        self.faults: dict[str, str] = {}
        self.culprits: set[str] = set()
        self._keys: dict[str, dict[str, Any]] = {}
        self._shared: dict[str, dict[str, Any]] = {}
        self._vectors: dict[str, NDArray[np.uint64]] = {}
        self._accused: Counter[str] = Counter()
        self._private = True

    @property
    def survivors(self) -> list[str]:
        """The parties whose vectors are in the sum."""
        return sorted(self._vectors)

    def advertised(self, messages: Mapping[str, bytes]) -> bytes:
        """Everybody's keys, for everybody who sent theirs."""
        taken: set[str] = set()

        def checked(content: dict[str, Any]) -> dict[str, str]:
            keys = checked_keys(content)
            if taken & set(keys.values()):
                raise ProtocolFault("every advertised key must differ from the others, two are equal")
            taken.update(keys.values())
            return keys

        self._keys = self._accept("advertise", messages, self.session.roster, checked)
        return json.dumps({name: messages[name].decode() for name in self._keys}).encode()

    def shared(self, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        """For each party the shares sealed for it."""

        def checked(content: dict[str, Any]) -> dict[str, Any]:
            if set(content["sealed"]) != set(self._keys):
                raise ProtocolFault("shares must be sealed for every party that advertised keys, they are not")
            for sealed in content["sealed"].values():
                hexadecimal(sealed, SEALED_BYTES, "two sealed shares")
            hexadecimal(content["commitment"], masks.MASK_BYTES, "a commitment")
            return content

        self._shared = self._accept("share", messages, self._keys, checked)
        return {
            reader: json.dumps({writer: content["sealed"][reader] for writer, content in self._shared.items()}).encode()
            for reader in self._shared
        }

    def masked(self, messages: Mapping[str, bytes]) -> bytes:
        """The list of parties whose vectors arrived."""

        def checked(content: dict[str, Any]) -> NDArray[np.uint64]:
            for name in {name for name in content.get("unreadable", ()) if name in self._shared}:
                self._accused[name] += 1
                if self._accused[name] > 1:  # one party alone may lie about another
                    self.culprits.add(name)
            vector = self.session.unpacked(content["vector"])
            if not (content["private"] is True or self._seeded):
                raise ProtocolFault("noise must not be drawn from a seed, this is")
            self._private = self._private and content["private"] is True
            return vector

        self._vectors = self._accept("mask", messages, self._shared, checked)
        return json.dumps({"survivors": self.survivors}).encode()

    def confirmed(self, messages: Mapping[str, bytes]) -> bytes:
        """The survivors' signatures on that list."""

        def checked(content: dict[str, Any]) -> dict[str, Any]:
            if content["survivors"] != self.survivors:
                raise ProtocolFault("all parties must confirm the same survivors, one confirmed others")
            return content

        confirmed = self._accept("confirm", messages, self._vectors, checked)
        return json.dumps({name: messages[name].decode() for name in confirmed}).encode()

    def revealed(self, messages: Mapping[str, bytes]) -> tuple[NDArray[np.uint64], int, bool]:
        """The sum; how many parties it covers; and whether all their noise was private."""

        def checked(content: dict[str, Any]) -> dict[str, bytes]:
            shares = {
                name: hexadecimal(share, shamir.SHARE_BYTES, "a share") for name, share in content["shares"].items()
            }
            if set(shares) != set(self._shared):
                raise ProtocolFault("shares must be revealed of every party that shared its secrets, they are not")
            return shares

        revealed = self._accept("reveal", messages, self._vectors, checked)
        total = np.zeros(self.session.length, dtype=np.uint64)
        for vector in self._vectors.values():
            total = total + vector
        for name, content in self._shared.items():
            secret = self._recovered(
                name, content, {self.session.point(helper): shares[name] for helper, shares in revealed.items()}
            )
            total = (
                self._without_own_mask(total, secret)
                if name in self._vectors
                else self._without_pairs(total, secret, name)
            )
        return total & np.uint64((1 << self.session.modulus_bits) - 1), len(self._vectors), self._private

    def _recovered(self, name: str, content: dict[str, Any], shares: dict[int, bytes]) -> bytes:
        """A party's secret that is the one it committed to, even if another party revealed a wrong share of it."""
        without = [{point: share for point, share in shares.items() if point != liar} for liar in shares]
        for some in (shares, *without):
            try:
                secret = shamir.combine(some, self.session.threshold)
            except ProtocolFault:
                continue
            if name in self._vectors:
                fits = commitment(self.session, secret) == content["commitment"]
            else:
                fits = masks.public_key(secret).hex() == self._keys[name]["mask"]
            if fits:
                return secret
        self.culprits.add(name)
        self.faults[name] = "'share' refused: its shares do not give the secret it committed to"
        raise ProtocolFault(
            f"revealed shares must give the secret that {name!r} committed to, they do not; nothing is revealed"
        )

    def _without_own_mask(self, total: NDArray[np.uint64], own_mask: bytes) -> NDArray[np.uint64]:
        key = masks.derived_key(own_mask, b"own mask", self.session.digest)
        return total - masks.mask(key, self.session.length, self.session.modulus_bits)

    def _without_pairs(self, total: NDArray[np.uint64], mask_key: bytes, name: str) -> NDArray[np.uint64]:
        """Add the vanished party's side of its pairwise masks, so that the survivors' sides cancel."""
        for other in self._vectors:
            total = add_pairwise(self.session, total, mask_key, self._keys[other]["mask"], name, other)
        return total

    def _accept(
        self,
        stage: str,
        messages: Mapping[str, bytes],
        before: Mapping[str, Any],
        checked: Callable[[dict[str, Any]], Any],
    ) -> dict[str, Any]:
        accepted = {}
        for name in before:
            if name not in messages:
                self.faults.setdefault(name, f"vanished before {stage!r}")
                continue
            try:
                accepted[name] = checked(self.session.opened(stage, name, messages[name]))
            except Exception as fault:  # whatever a party sends costs it its place, and nobody else anything
                self.faults[name] = one_line(f"{stage!r} refused: {fault}")
        if len(accepted) < self.session.threshold:
            raise ProtocolFault(
                f"a sum needs >= {self.session.threshold} parties, {len(accepted)} were left at {stage!r}; nothing is "
                "revealed"
            )
        return accepted
