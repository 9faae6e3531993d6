"""An authority of a test's own, and servers that it vouches for."""

from __future__ import annotations

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


class Authority:
    """Makes certificates; `file` has its own, which others check them with."""

    def __init__(self, folder: Path, name: str = "authority", *, says_usage: bool = True) -> None:
        """`says_usage`: whether its own certificate says what its key is for."""
        self._says_usage = says_usage
        self._folder = folder
        self._name = _name(name)
        self._key = generate_private_key(SECP256R1())
        self.file = folder / f"{name}.pem"
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.file.write_bytes(self._signed(self._name, self._key.public_key(), constraints).public_bytes(Encoding.PEM))

    def certificate(
        self, name: str, key: CertificatePublicKeyTypes, since: datetime | None = None, until: datetime | None = None
    ) -> bytes:  # fmt: skip
        """A certificate (PEM) of this public key, for a DNS name; valid for a day by default."""
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        return self._signed(_name(name), key, names, since, until).public_bytes(Encoding.PEM)

    def server_context(self, address: str = "127.0.0.1") -> ssl.SSLContext:
        """What a server at this address shows to its clients."""
        key = generate_private_key(SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        file = self._folder / "server.pem"
        file.write_bytes(
            self._signed(_name("server"), key.public_key(), names).public_bytes(Encoding.PEM)
            + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _signed(
        self, subject: x509.Name, key: CertificatePublicKeyTypes, extension: x509.ExtensionType,
        since: datetime | None = None, until: datetime | None = None,
    ) -> x509.Certificate:  # fmt: skip
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(
            issuer_name=self._name, subject_name=subject, public_key=key, serial_number=x509.random_serial_number(),
            not_valid_before=since or now - timedelta(days=1), not_valid_after=until or now + timedelta(days=1),
        )  # fmt: skip
        is_authority = isinstance(extension, x509.BasicConstraints)
        builder = (
            builder.add_extension(extension, critical=is_authority)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if is_authority and self._says_usage:         # Python 3.13 wants all of these
            builder = builder.add_extension(_SIGNS_CERTIFICATES, critical=True)
        return builder.sign(self._key, SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
