"""Silos and shufflers made from their folders. Nothing here loads what only a coordinator needs."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from recordwise.durable import make_folder, write_whole
from recordwise.errors import InvalidInput
from recordwise.federation.certificates import MOST_BYTES, certificate_of, identity_in, tls_context
from recordwise.federation.exchange import Node
from recordwise.federation.identity import identity_key, kept_key, public_identity
from recordwise.federation.line import host_and_port, stay_on_line
from recordwise.federation.records import SiloRecords, Voters
from recordwise.federation.scale_out import OnRay, ParquetFolder
from recordwise.federation.secure_sum import masks
from recordwise.federation.settings import ShufflerFile, SiloFile, public_key, read_silo
from recordwise.federation.shuffling import ShufflerNode
from recordwise.federation.silo import Silo
from recordwise.formats import content_of
from recordwise.sections import read_settings

SILO, SHUFFLER, IDENTITY, NODE_CERTIFICATE = "silo.toml", "shuffler.toml", "identity.key", "node.crt"


def node_in(folder: Path) -> Node:
    """The silo or the shuffler whose folder this is."""
    if (folder / SILO).exists():
        written = read_silo(folder / SILO)
        identity = kept_key(folder / IDENTITY, identity_key())
        return Silo(
            written.name,
            identity,
            folder / "state",
            written.rules(folder),
            lambda: voters(written),
        )
    if (folder / SHUFFLER).exists():
        mixer = read_settings(folder / SHUFFLER, ShufflerFile)
        peers = {name: public_key(f"peers.{name}", key) for name, key in mixer.peers.items()}
        identity, key = kept_key(folder / IDENTITY, identity_key()), shuffler_key(folder)
        return ShufflerNode(mixer.name, identity, key, folder / "state", peers)
    raise InvalidInput(f"{folder} must hold {SILO} or {SHUFFLER}, it holds neither")


def voters(written: SiloFile) -> Voters:
    """A silo's records, in this process or on Ray."""
    source = written.records
    if not written.workers:
        return SiloRecords(lambda schema: source.read("records", schema))
    if source.labels is None:
        raise InvalidInput("records.labels must name where the records' labels are")
    engine = OnRay(workers=written.workers, address=written.ray_address)
    return ParquetFolder(folder=source.path, samples=source.samples, labels=source.labels, engine=engine)


def shuffler_key(folder: Path) -> bytes:
    return kept_key(folder / "sealing.key", masks.fresh_key())


def run_node(folder: Path, address: str, certificate: Path) -> NoReturn:
    """Answer the coordinator at this address, whose certificate this is, for as long as this process lives."""
    node = node_in(folder)  # a mistake in the settings shows now, and so does one in where the records are
    if (folder / SILO).exists() and not (written := read_silo(folder / SILO)).workers:
        if written.records.labels is None and not written.records.path.is_dir():
            raise InvalidInput("records.labels must name where the records' labels are")
        written.records.read("records")
    known = content_of(certificate, most=MOST_BYTES)
    identity_in(known, str(certificate))
    context = tls_context(kept_key(folder / IDENTITY, identity_key()), [known], folder, server_side=False)
    stay_on_line(node, host_and_port(address), context)


def new_party(folder: Path, certificate: str) -> bytes:
    """A folder with a private identity and its certificate in a file of this name; gives the public identity."""
    make_folder(folder)
    identity = kept_key(folder / IDENTITY, identity_key())
    write_whole(folder / certificate, certificate_of(identity))
    return public_identity(identity)
