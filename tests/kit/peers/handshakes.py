"""TLS connections in memory, without sockets, and certificates made by hand, as hostile parties make them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from fate_flow.peers.tls import Clock, OwnTls, PeerKey, TlsPrivateKey, TlsPublicKey

DAY = timedelta(days=1)
_MOST_FLIGHTS = 4
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
NOW = datetime.now(UTC).replace(microsecond=0)
"""The time of a test's clocks. It is the time of the machine as the process began, because OpenSSL checks the
certificates of a company's authority by the clock of the machine."""


def ms(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def public_pem(key: TlsPrivateKey) -> str:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@dataclass(frozen=True)
class TlsParty:
    """A party with a tls key of its own."""

    party_id: str
    key: TlsPrivateKey
    own: OwnTls

    @property
    def peer(self) -> PeerKey:
        """What others keep of it."""
        return PeerKey.of(self.party_id, public_pem(self.key))

    @property
    def issuer(self) -> str:
        """The name that its leaves have as their issuer."""
        return f"fate_flow party {self.party_id} key {self.peer.key_id[:16]}"


def tls_party(party_id: str, *, ecdsa: bool = False, clock: Clock = lambda: ms(NOW)) -> TlsParty:
    key = generate_ec_key(SECP256R1()) if ecdsa else Ed25519PrivateKey.generate()
    return TlsParty(party_id, key, OwnTls(party_id, key, clock))


# ---------------------------------------------------------------------- certificates


@dataclass(frozen=True)
class HandMade:
    """A certificate with its private key."""

    certificate: x509.Certificate
    key: TlsPrivateKey

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def chain(self, *others: HandMade) -> bytes:
        """Return the PEM file of a server or client that shows this certificate, and those of the others after it."""
        private = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return b"".join(made.certificate.public_bytes(Encoding.PEM) for made in (self, *others)) + private


def make_certificate(
    issuer: str, signer: TlsPrivateKey | None, subject: str = "leaf", *, key: TlsPrivateKey | None = None,
    since: datetime = NOW - DAY, until: datetime = NOW + DAY, ca: bool = False, path_length: int | None = None,
    with_ids: bool = True,
) -> HandMade:  # fmt: skip
    """Return what `signer` (None: itself) has signed; `with_ids`: with both key identifiers."""
    key = key or generate_ec_key(SECP256R1())
    signer = signer or key
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=path_length), critical=True)
        .add_extension(_usage(key_cert_sign=ca, digital_signature=not ca), critical=True)
    )
    if with_ids:
        issuer_id = x509.AuthorityKeyIdentifier(_short_id(signer.public_key()), None, None)
        builder = builder.add_extension(x509.SubjectKeyIdentifier(_short_id(key.public_key())), critical=False)
        builder = builder.add_extension(issuer_id, critical=False)
    return HandMade(builder.sign(signer, None if isinstance(signer, Ed25519PrivateKey) else SHA256()), key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, key_cert_sign: bool, digital_signature: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature, key_cert_sign=key_cert_sign, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, crl_sign=False, encipher_only=False,
        decipher_only=False,
    )  # fmt: skip


def _short_id(key: TlsPublicKey) -> bytes:
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()[:20]


def with_flipped_signature(made: HandMade) -> HandMade:
    """Return the same certificate with the other ECDSA signature on P-256 that its issuer did not make: of each (r, s),
    (r, -s) is one as well."""
    r, s = decode_dss_signature(made.certificate.signature)
    der = _with_signature(made.der, made.certificate.signature, encode_dss_signature(r, _P256_ORDER - s))
    return HandMade(x509.load_der_x509_certificate(der), made.key)


def _with_signature(der: bytes, old: bytes, new: bytes) -> bytes:
    """Return a certificate with another signature, all lengths corrected."""
    tail = b"\x03" + bytes([len(old) + 1]) + b"\x00" + old
    assert der.endswith(tail)
    assert der[:2] == b"\x30\x82"
    content = der[4 : -len(tail)] + b"\x03" + bytes([len(new) + 1]) + b"\x00" + new
    return b"\x30\x82" + len(content).to_bytes(2, "big") + content


# ---------------------------------------------------------------------- connections


def hostile_context(protocol: int, chain: bytes | None) -> ssl.SSLContext:
    """Return a context that shows this chain, or nothing, and believes everybody."""
    context = ssl.SSLContext(protocol)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if chain is not None:
        file = os.memfd_create("chain")
        os.write(file, chain)
        context.load_cert_chain(f"/proc/self/fd/{file}")
        os.close(file)
    return context


@dataclass(frozen=True)
class Pair:
    """Both ends of a connection after its handshake, and one byte in each direction."""

    client: ssl.SSLObject
    server: ssl.SSLObject


def connect(client: ssl.SSLContext, server: ssl.SSLContext, session: ssl.SSLSession | None = None) -> Pair:
    """Return a connection on which each side has read what the other wrote. Raises ssl.SSLError if one refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = Pair(
        client.wrap_bio(to_client, to_server, server_hostname="peer", session=session),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    steps: list[Callable[[], object]] = [ends.client.do_handshake, ends.server.do_handshake]
    for _ in range(_MOST_FLIGHTS):
        steps = [step for step in steps if not _is_done(step)]
    assert not steps, "the handshake does not end"
    for writer, reader in ((ends.client, ends.server), (ends.server, ends.client)):
        writer.write(b"x")
        assert reader.read(1) == b"x"
    return ends


def _is_done(step: Callable[[], object]) -> bool:
    try:
        step()
    except ssl.SSLWantReadError:
        return False
    return True
