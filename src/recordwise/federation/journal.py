"""A secure sum that a silo can go on with after being killed: its secrets until the end, and what it answered.

One file per sum, which only its owner may read. The secrets go as soon as the last answer is given; answers stay, so
that the same request gets the same answer and another one is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recordwise.durable import make_folder, write_whole
from recordwise.errors import ChangedInput, ProtocolFault
from recordwise.federation.secure_sum import Session, SumClient
from recordwise.formats import json_file
from recordwise.hashing import digest_of

DIGEST = re.compile("[0-9a-f]{64}")


class Journal:
    """What one silo remembers about one sum.

    Guarantees:
      - a stage is answered once; the same request again gives the same bytes, another request is refused;
      - an answer is on disk before it leaves, and the secrets are gone from it once the last one was given.
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self._path, self._content = path, content

    @classmethod
    def open(cls, folder: Path, digest: bytes, *, about: bytes) -> Journal:
        """The journal of a sum that begins, or began, with the request `about`."""
        path = folder / digest.hex()
        if path.exists():
            return cls.find(folder, digest.hex())
        return cls(path, {"about": about.hex(), "state": None, "answers": {}})

    @classmethod
    def find(cls, folder: Path, digest: str) -> Journal:
        path = folder / digest
        if not (DIGEST.fullmatch(digest) and path.exists()):
            raise ProtocolFault("a secure sum must begin with 'advertise', this one did not")
        return cls(path, json_file(path))

    @property
    def about(self) -> bytes:
        return bytes.fromhex(self._content["about"])

    def once(
        self,
        stage: str,
        request: bytes,
        session: Session,
        name: str,
        identity: bytes,
        compute: Callable[[SumClient], bytes],
    ) -> bytes:
        """The answer to a stage: computed the first time, repeated afterwards."""
        answers = self._content["answers"]
        if stage in answers:
            asked, answer = answers[stage]
            if asked != digest_of(request):
                raise ChangedInput(f"{stage!r} of this sum was asked with other content before: it cannot change")
            return bytes.fromhex(answer)
        state = self._content["state"]
        if state is None and answers:
            raise ProtocolFault("a secure sum must not go on after its end, this one is over")
        client = (
            SumClient(session, name, identity)
            if state is None
            else SumClient.restored(session, name, identity, state.encode())
        )
        answer = compute(client)
        answers[stage] = [digest_of(request), answer.hex()]
        self._content["state"] = None if stage == "reveal" else client.state().decode()
        self._write()
        return answer

    def _write(self) -> None:
        make_folder(self._path.parent)
        write_whole(self._path, json.dumps(self._content).encode(), mode=0o600)
