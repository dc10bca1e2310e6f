"""Certificates and keys for a federation's own network: a small authority for the coordinator, a key for each node.

An organisation with an authority of its own uses that; these are for who has none. P-384 keys throughout.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import recordwise.extras.federation  # noqa: F401

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from recordwise.errors import InvalidInput

VALID = timedelta(days=365)


def make_certificates(folder: Path, hosts: Sequence[str]) -> None:
    """ca.crt, server.pem and server.key, for a SuperLink reached under these names or addresses.

    The authority's private key is not kept: a new server certificate means a new authority.
    """
    if (folder / "server.key").exists():
        raise InvalidInput(f"{folder} must hold no certificates yet, it holds server.key")
    folder.mkdir(parents=True, exist_ok=True)
    authority, server = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    ca_name, server_name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("Recordwise federation", hosts[0])
    )
    ca = (
        _valid(ca_name, ca_name, authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(True, False, False, False, False, True, True, False, False),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority.public_key()), critical=False)
        .sign(authority, SHA384())
    )
    certificate = (
        _valid(server_name, ca_name, server.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
        .sign(authority, SHA384())
    )
    (folder / "ca.crt").write_bytes(ca.public_bytes(Encoding.PEM))
    (folder / "server.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    _write_secret(
        folder / "server.key",
        server.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    )


def make_node_key(folder: Path) -> Path:
    """node.key and node.pub, by which a SuperLink knows a SuperNode; gives the public one."""
    public = folder / "node.pub"
    if not public.exists():
        key = ec.generate_private_key(ec.SECP384R1())
        _write_secret(folder / "node.key", key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n")
    return public


def _valid(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + VALID)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_secret(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
