"""A mechanism's public parameters: a small JSON record, and the digest by which a message names them."""

from __future__ import annotations

import hashlib
import json

from recordwise.errors import InvalidInput
from recordwise.formats import json_from
from recordwise.protocols.local.mechanism import LocalMechanism, mechanisms
from recordwise.votes.ballot import Ballot

FORMAT = "recordwise-local-1"  # changes whenever the same parameters would mean another message
DIGEST_BYTES = 8


def to_json(mechanism: LocalMechanism) -> str:
    """The parameters in a canonical spelling."""
    record = {"format": FORMAT, "mechanism": mechanism.name, "epsilon": str(mechanism.epsilon)}
    return json.dumps({**record, **vars(mechanism.ballot)}, sort_keys=True)


def from_json(text: str | bytes) -> LocalMechanism:
    """The mechanism that `to_json` described; refuses whatever it would not have written."""
    try:
        record = json_from(text.encode() if isinstance(text, str) else text)
        if record.pop("format") != FORMAT:
            raise InvalidInput(f"parameters must have the format {FORMAT}, got {text!r}")
        kind = mechanisms()[record.pop("mechanism")]
        epsilon = str(record.pop("epsilon"))
        return kind(epsilon=epsilon, ballot=Ballot(**record))  # type: ignore[arg-type]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"parameters must be a record of format {FORMAT}, got {text!r}") from error


def digest(mechanism: LocalMechanism) -> bytes:
    """What a message carries so that a server with other parameters refuses it."""
    return hashlib.sha256(to_json(mechanism).encode()).digest()[:DIGEST_BYTES]
