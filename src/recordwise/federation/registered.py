"""The nodes that a coordinator lets in: their certificates, kept in its folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from recordwise.durable import make_folder, write_whole
from recordwise.federation.certificates import MOST_BYTES, identity_in
from recordwise.formats import content_of

NODES = "nodes"


def register(folder: Path, certificates: Iterable[Path]) -> list[bytes]:
    """Let the holders of these certificates in from now on; gives their identities.

    This is the only way in, and it needs write access to the coordinator's folder.
    """
    make_folder(folder / NODES)
    identities = []
    for place in certificates:
        identity, content = _certificate(place)
        write_whole(folder / NODES / f"{identity.hex()}.crt", content)
        identities.append(identity)
    return identities


def registered(folder: Path) -> dict[bytes, bytes]:
    """The certificate of each registered identity."""
    return dict(_certificate(place) for place in sorted((folder / NODES).glob("*.crt")))


def _certificate(place: Path) -> tuple[bytes, bytes]:
    """The identity that a certificate holds, and its content."""
    content = content_of(place, most=MOST_BYTES)
    return identity_in(content, str(place)), content
