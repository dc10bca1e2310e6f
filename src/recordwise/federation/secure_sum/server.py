"""The server's side of a secure sum: it hands messages on, and in the end learns the sum of the survivors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recordwise.errors import ProtocolFault
from recordwise.federation.secure_sum import masks, shamir
from recordwise.federation.secure_sum.client import add_pairwise, checked_keys, commitment
from recordwise.federation.secure_sum.session import Session


class SumServer:
    """Collects five messages from each party; a party whose message is missing or refused has vanished.

    Guarantees:
      - the sum is exactly that of the vectors of `survivors`, modulo 2^b, or there is none;
      - with fewer than `threshold` parties left at any stage there is none;
      - a message that is altered, of another sum, of another stage or of another party counts as missing.

    Attributes:
      faults: Why parties were left out, in words.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.faults: dict[str, str] = {}
        self._keys: dict[str, dict[str, Any]] = {}
        self._shared: dict[str, dict[str, Any]] = {}
        self._vectors: dict[str, NDArray[np.uint64]] = {}
        self._private = True

    @property
    def survivors(self) -> list[str]:
        """The parties whose vectors are in the sum."""
        return sorted(self._vectors)

    def advertised(self, messages: Mapping[str, bytes]) -> bytes:
        """Everybody's keys, for everybody who sent theirs."""
        self._keys = self._accept("advertise", messages, self.session.roster, checked_keys)
        return json.dumps({name: messages[name].decode() for name in self._keys}).encode()

    def shared(self, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        """For each party the shares sealed for it."""

        def checked(told: dict[str, Any]) -> dict[str, Any]:
            if set(told["sealed"]) != set(self._keys):
                raise ProtocolFault("shares must be sealed for every party that advertised keys, they are not")
            return told

        self._shared = self._accept("share", messages, self._keys, checked)
        return {
            reader: json.dumps({writer: told["sealed"][reader] for writer, told in self._shared.items()}).encode()
            for reader in self._shared
        }

    def masked(self, messages: Mapping[str, bytes]) -> bytes:
        """The list of parties whose vectors arrived."""

        def checked(told: dict[str, Any]) -> NDArray[np.uint64]:
            vector = self.session.unpacked(told["vector"])
            self._private = self._private and told["private"] is True
            return vector

        self._vectors = self._accept("mask", messages, self._shared, checked)
        return json.dumps({"survivors": self.survivors}).encode()

    def confirmed(self, messages: Mapping[str, bytes]) -> bytes:
        """The survivors' signatures on that list."""

        def checked(told: dict[str, Any]) -> dict[str, Any]:
            if told["survivors"] != self.survivors:
                raise ProtocolFault("all parties must confirm the same survivors, one confirmed others")
            return told

        confirmed = self._accept("confirm", messages, self._vectors, checked)
        return json.dumps({name: messages[name].decode() for name in confirmed}).encode()

    def revealed(self, messages: Mapping[str, bytes]) -> tuple[NDArray[np.uint64], int, bool]:
        """The sum; how many parties it covers; and whether all their noise was private."""

        def checked(told: dict[str, Any]) -> dict[str, bytes]:
            shares = {name: bytes.fromhex(share) for name, share in told["shares"].items()}
            if set(shares) != set(self._shared):
                raise ProtocolFault("shares must be revealed of every party that shared its secrets, they are not")
            return shares

        revealed = self._accept("reveal", messages, self._vectors, checked)
        total = np.zeros(self.session.length, dtype=np.uint64)
        for vector in self._vectors.values():
            total = total + vector
        for name, told in self._shared.items():
            secret = shamir.combine(
                {self.session.point(helper): shares[name] for helper, shares in revealed.items()},
                self.session.threshold,
            )
            total = (
                self._without_own_mask(total, secret, told)
                if name in self._vectors
                else self._without_pairs(total, secret, name)
            )
        return total & np.uint64((1 << self.session.modulus_bits) - 1), len(self._vectors), self._private

    def _without_own_mask(self, total: NDArray[np.uint64], own_mask: bytes, told: dict[str, Any]) -> NDArray[np.uint64]:
        if commitment(self.session, own_mask) != told["commitment"]:
            raise ProtocolFault("revealed shares must give the mask that was committed to, they do not")
        key = masks.derived_key(own_mask, b"own mask", self.session.digest)
        return total - masks.mask(key, self.session.length, self.session.modulus_bits)

    def _without_pairs(self, total: NDArray[np.uint64], mask_key: bytes, name: str) -> NDArray[np.uint64]:
        """Add the vanished party's side of its pairwise masks, so that the survivors' sides cancel."""
        if masks.public_key(mask_key).hex() != self._keys[name]["mask"]:
            raise ProtocolFault("revealed shares must give the key that was advertised, they do not")
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
            except (ProtocolFault, KeyError, TypeError, ValueError, AttributeError) as fault:
                self.faults[name] = f"{stage!r} refused: {fault}"
        if len(accepted) < self.session.threshold:
            raise ProtocolFault(
                f"a sum needs >= {self.session.threshold} parties, {len(accepted)} were left at {stage!r}; nothing is "
                "revealed"
            )
        return accepted
