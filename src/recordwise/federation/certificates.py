"""A party's certificate is its identity: made from its Ed25519 key alone, and always the same bytes.

There is no authority. A party trusts exactly the certificates it was handed: a name, a date or a signature by somebody
else adds nothing, so certificates hold none of them that matter and never expire. Whoever lacks the private key of a
registered certificate does not get through the handshake.
"""

from __future__ import annotations

import hashlib
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import recordwise.extras.federation  # noqa: F401

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from recordwise.errors import InvalidInput

FROM, UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # RFC 5280: no end
MOST_BYTES = 4096


def certificate_of(identity: bytes) -> bytes:
    """The certificate (PEM) of a private identity key."""
    key = Ed25519PrivateKey.from_private_bytes(identity)
    public = key.public_key().public_bytes_raw()
    itself = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"recordwise {public.hex()[:16]}")])
    made = (
        x509.CertificateBuilder()
        .subject_name(itself)
        .issuer_name(itself)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(hashlib.sha256(public).digest()[:16], "big") | 1)
        .not_valid_before(FROM)
        .not_valid_after(UNTIL)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)  # it vouches for nobody else
        .sign(key, None)
    )
    return made.public_bytes(Encoding.PEM)


def identity_in(certificate: bytes, name: str) -> bytes:
    """The public identity that a certificate holds; refuses one that its own key did not sign."""
    try:
        found = x509.load_pem_x509_certificate(certificate[: MOST_BYTES + 1])
        key = found.public_key()
        if not isinstance(key, Ed25519PublicKey) or len(certificate) > MOST_BYTES:
            raise ValueError
        key.verify(found.signature, found.tbs_certificate_bytes)
    except (ValueError, InvalidSignature, x509.UnsupportedGeneralNameType) as error:
        raise InvalidInput(f"{name} must be a certificate that `recordwise … init` made, it is not") from error
    return key.public_bytes_raw()


def fingerprint_of(certificate: bytes) -> bytes:
    """What tells a certificate (PEM) apart from every other."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.decode())).digest()


def peer_of(transport: ssl.SSLObject | ssl.SSLSocket) -> bytes:
    """The fingerprint of the certificate at the other end."""
    return hashlib.sha256(transport.getpeercert(binary_form=True) or b"").digest()


def tls_context(identity: bytes, trusted: Iterable[bytes], folder: Path, *, server_side: bool) -> ssl.SSLContext:
    """Mutual TLS 1.3 between holders of exactly these certificates (PEM).

    Args:
      folder: The party's own: OpenSSL takes a key from a file only, so it lies there for a moment.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server_side else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is known, wherever its holder is reached
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # the certificate is the anchor, without an authority above it
    if server_side:
        context.num_tickets = 0  # every connection shows its key
    key = Ed25519PrivateKey.from_private_bytes(identity)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".tls-") as place:  # for its owner only
        pair = Path(place) / "pair.pem"
        pair.write_bytes(
            certificate_of(identity) + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        context.load_cert_chain(pair)
    for certificate in trusted:
        context.load_verify_locations(cadata=certificate.decode())
    return context
