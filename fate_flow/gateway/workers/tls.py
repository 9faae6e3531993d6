"""TLS 1.3 between this server and its workers on other hosts: one key of the server, which workers know by its digest.

A worker shows no certificate, its token says who it is. The server shows a certificate that its key has signed for
itself. Names and dates in it decide nothing: a worker is given the digest of the key, and compares that before it sends
anything (`engines/staged/pinned.py`). So nothing has to be renewed, and a new key is a new file.
"""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from fate_flow.core.model.errors import BadSettings, Conflict
from fate_flow.peers.tls import load_tls_key, make_tls_key

KEY_FILE = "workers.pem"         # in the folder of the keys of this party
PIN = "sha256:"

_ALWAYS = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))


class WorkerTls:
    """The key of the listener for workers on other hosts."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def of(cls, keys_dir: Path) -> WorkerTls:
        """Read the key of this server; make it if there is none. Raise BadSettings, naming the file."""
        path = keys_dir / KEY_FILE
        if not path.exists():
            keys_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(Conflict):             # another process was faster
                make_tls_key(path)
        key = load_tls_key(path)
        if not isinstance(key, Ed25519PrivateKey):
            raise BadSettings(f"{path}: is a key of another kind than Ed25519; remove it, and the next start makes one")
        return cls(key)

    @property
    def pin(self) -> str:
        """The digest of the public key (SubjectPublicKeyInfo), `sha256:` and hex digits."""
        public = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return f"{PIN}{sha256(public).hexdigest()}"

    def context(self) -> ssl.SSLContext:
        """Return what the listener uses."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
        context.num_tickets = 0
        context.set_alpn_protocols(["http/1.1"])
        file = os.memfd_create("workers", os.MFD_CLOEXEC)       # Python reads keys from files only
        try:
            os.write(file, self._certificate() + self._private())
            context.load_cert_chain(f"/proc/self/fd/{file}")
        finally:
            os.close(file)
        return context

    def _private(self) -> bytes:
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def _certificate(self) -> bytes:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fate_flow workers")])
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(_ALWAYS[0])
            .not_valid_after(_ALWAYS[1])
        )
        return builder.sign(self._key, None).public_bytes(Encoding.PEM)
