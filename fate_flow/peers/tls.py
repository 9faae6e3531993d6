"""Mutual TLS 1.3 between parties: the certificates are made here, of keys, and each connection belongs to a known key.

The tls key of a party is a small authority that signs nothing but short-lived *leaf* certificates for the party's own
connections. A peer is trusted through its key: this process makes a certificate around it, the *anchor*, and trusts
that. So no certificate of another party is stored, none of them has to be renewed by hand, and a revocation needs only
the removal of a key. Names and dates within certificates decide nothing by themselves: after each handshake `peer_of`
finds the key that signed the leaf, and compares the leaf's dates with the clock of this party.

Python's `ssl` cannot ask the caller during a handshake, so each context has the keys of one moment. Contexts are made
again when keys change, or when `OwnTls.leaf` has returned another leaf.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey as EcPublicKey
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as generate_ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fate_flow.core.access.certified import CertifiedParty
from fate_flow.core.model.errors import BadSettings
from fate_flow.peers.key_files import read_private, write_private

Clock = Callable[[], int]
"""Returns the milliseconds since 1970 by the wall clock."""

TlsPrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey
TlsPublicKey = Ed25519PublicKey | EcPublicKey
Newer = Callable[[int], TlsPrivateKey | None]
KINDS = "Ed25519, or ECDSA on P-256"

ALPN = "http/1.1"
DIAL = "fate-flow-dial/1"
"""What a party offers that keeps a connection open for requests of the other side."""
LEAF_LIFE = timedelta(days=30)
_LEAF_BEFORE = timedelta(days=1)          # a peer's clock may be this much behind
_ALWAYS = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)        # X509_V_FLAG_NO_CHECK_TIME, which Python does not name
# STRICT: as Python's own contexts do from 3.13 on. PARTIAL_CHAIN: an anchor need not have signed itself.
_VERIFY_FLAGS = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME


class NotAPeer(ValueError):
    """Whoever is at the other end of a connection has shown no valid certificate of a known key."""


class ClocksDiffer(NotAPeer):
    """The certificate is of a known key, but not of this time."""


@dataclass(frozen=True)
class PeerKey:
    """A tls key of another party that is valid now."""

    party_id: str
    key_id: str                      # SHA-256 of its DER form (SubjectPublicKeyInfo), in hex digits
    pem: str
    certified: CertifiedParty | None = None      # an authority may have signed a certificate of the key itself

    @classmethod
    def of(cls, party_id: str, pem: str, certified: CertifiedParty | None = None) -> PeerKey:
        """Return this key of a party. Raises ValueError if it is not a public key for TLS."""
        return cls(party_id, _known_key_id(pem), pem, certified)


@dataclass(frozen=True)
class Leaf:
    """A certificate that this party shows to others, with its private key: in memory alone, unless an authority of its
    company has made it."""

    certificate: bytes               # DER
    pem: bytes = field(repr=False)   # the certificate, those of authorities between, and its private key


Certified = Callable[[TlsPrivateKey, datetime], Leaf | None]
"""Returns the certificate of a key that a company's authority has signed and that is valid now: the same value until it
is replaced; None if there is none."""


class OwnTls:
    """The tls key of this party, which makes leaves; may be shared by threads."""

    def __init__(
        self, party_id: str, key: TlsPrivateKey, clock: Clock, newer: Newer = lambda _: None,
        certified: Certified = lambda *_: None,
    ) -> None:  # fmt: skip
        """`newer` returns the key to use at a moment; None for the one that is in use."""
        self.party_id = party_id
        self._newer = newer
        self._certified = certified
        self.key_id = _key_id(key.public_key())
        self._key = key
        self._clock = clock
        self._lock = threading.Lock()
        self._made: tuple[datetime, Leaf] | None = None

    def __repr__(self) -> str:
        return f"OwnTls({self.party_id}, {self.key_id})"

    def leaf(self) -> Leaf:
        """Return the leaf to show: the same one until half of its life is over, the clock was set back, the time of the
        next key has come, or a company's authority has made another one."""
        with self._lock:
            at = self._clock()
            self._follow(self._newer(at))
            now = time_of(at)
            if (certified := self._certified(self._key, now)) is not None:
                return certified
            if self._made is None or not self._made[0] <= now < self._made[0] + LEAF_LIFE / 2:
                self._made = (now, self._issue(now))
            return self._made[1]

    def _follow(self, key: TlsPrivateKey | None) -> None:
        if key is not None and (key_id := _key_id(key.public_key())) != self.key_id:
            self._key, self.key_id, self._made = key, key_id, None

    def _issue(self, now: datetime) -> Leaf:
        key = generate_ec_key(SECP256R1())
        public = key.public_key()
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(f"fate_flow party {self.party_id}"))
            .issuer_name(_name_of(self.party_id, self.key_id))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _LEAF_BEFORE)
            .not_valid_after(now + LEAF_LIFE)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage("digital_signature"), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier(_short_id(public)), critical=False)
            .add_extension(_issued_by(self._key.public_key()), critical=False)
        )
        made = builder.sign(self._key, None if isinstance(self._key, Ed25519PrivateKey) else SHA256())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Leaf(made.public_bytes(Encoding.DER), made.public_bytes(Encoding.PEM) + private)


def make_tls_key(path: Path) -> TlsPublicKey:
    """Make a tls key in a new file; return its public part. Raises Conflict if the file exists; BadSettings."""
    key = Ed25519PrivateKey.generate()
    write_private(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key.public_key()


def load_tls_key(path: Path) -> TlsPrivateKey:
    """Read the private tls key of this party. Raises BadSettings, naming the file."""
    try:
        found = load_pem_private_key(read_private(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:       # TypeError: it wants a password
        raise BadSettings(f"{path}: is not a private key in PEM, without a password") from error
    if isinstance(found, Ed25519PrivateKey):
        return found
    if isinstance(found, EllipticCurvePrivateKey) and isinstance(found.curve, SECP256R1):
        return found
    raise BadSettings(f"{path}: is a private key of another kind than those for TLS: {KINDS}")


def public_pem(key: TlsPublicKey) -> str:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def read_tls_key(pem: str) -> TlsPublicKey:
    """Read a public key for TLS. Raises ValueError, without any part of the text."""
    try:
        found = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"is not a public key in PEM: {KINDS}") from error
    if isinstance(found, Ed25519PublicKey) or (isinstance(found, EcPublicKey) and isinstance(found.curve, SECP256R1)):
        return found
    raise ValueError(f"is a public key of another kind than those for TLS: {KINDS}")


# ---------------------------------------------------------------------- contexts


def server_context(own: OwnTls, peers: Collection[PeerKey], *, lets_strangers: bool = False) -> ssl.SSLContext:
    """Return what a listener for other parties uses: each client has to show a leaf of one of these keys, and may
    offer to DIAL.

    `lets_strangers`: a client may also show nothing at all. Call `peer_of` after each handshake, before anything is
    read, unless nothing was shown and that is expected. Raises ValueError for a key that is none."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, own, peers, (ALPN, DIAL))
    if lets_strangers:
        context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0          # a resumed session would not show its certificate again, also after a revocation
    return context


def client_context(own: OwnTls, peer: Collection[PeerKey], protocol: str = ALPN) -> ssl.SSLContext:
    """Return what a connection to one party uses, with all of its keys that are valid now; it offers this protocol.

    Call `peer_of` after the handshake, before anything is sent. Raises ValueError for a key that is none."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, own, peer, (protocol,))


def stranger_context() -> ssl.SSLContext:
    """Return what a connection uses whose server is not known yet: nothing is shown, and any certificate is taken.

    What comes over it proves nothing by itself (`joining.py`)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.set_alpn_protocols([ALPN])
    return context


def peer_of(leaf: bytes | None, peers: Collection[PeerKey], now: int) -> PeerKey:
    """Return the key that itself signed this leaf (DER), for its own party; `now`: milliseconds since 1970. If the
    party may show certificates of an authority, return the key that is in such a leaf.

    The issuer's name has to be that of the key, or the name of the party in the leaf; so a leaf counts for the party
    that its maker named, and not for another that has put the same key on its list. Raises NotAPeer."""
    if not leaf:
        raise NotAPeer("it has shown no certificate")
    try:
        certificate = x509.load_der_x509_certificate(leaf)
        issuer = certificate.issuer
        dates = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
        found = next((peer for peer in peers if issuer == _name_of(peer.party_id, peer.key_id)), None)
        if found is None and (certified := _certified(certificate, peers)) is not None:
            found = certified
        elif found is None or not _has_signed(read_tls_key(found.pem), certificate):
            raise NotAPeer("its certificate was signed by no key that is known and valid")
    except NotAPeer:
        raise
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise NotAPeer("its certificate cannot be read") from error
    if not dates[0] <= time_of(now) <= dates[1]:
        raise ClocksDiffer(
            f"the certificate of party {found.party_id} is valid from {_shown(dates[0])} to {_shown(dates[1])}, but "
            f"the clock here says {shown_time(now)}: compare the clocks of both servers"
        )
    return found


def _context(side: int, own: OwnTls, peers: Collection[PeerKey], protocols: Sequence[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False           # the key decides, wherever the server is
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags = _VERIFY_FLAGS
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.set_alpn_protocols(protocols)
    _show(context, own.leaf())
    for peer in peers:
        context.load_verify_locations(cadata=_anchor(peer))
    for authorities in {peer.certified.authorities for peer in peers if peer.certified is not None}:
        context.load_verify_locations(cadata=authorities)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT        # many authorities lack what it asks for; keys decide
    return context


def _show(context: ssl.SSLContext, leaf: Leaf) -> None:
    """Let the context show this leaf. Python reads keys from files only; this one exists in memory alone."""
    file = os.memfd_create("leaf", os.MFD_CLOEXEC)
    try:
        os.write(file, leaf.pem)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)


# ---------------------------------------------------------------------- certificates


@lru_cache(maxsize=1024)
def _anchor(peer: PeerKey) -> bytes:
    """Return the certificate around a peer's key (DER). It may sign leaves and no further authority."""
    key = read_tls_key(peer.pem)
    if _key_id(key) != peer.key_id:
        raise ValueError(f"the key of party {peer.party_id} has another key id than {peer.key_id}")
    maker = Ed25519PrivateKey.generate()         # thrown away: that this process trusts the anchor needs no signature
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name_of(peer.party_id, peer.key_id))
        .issuer_name(_named("fate_flow anchor"))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_ALWAYS[0])
        .not_valid_after(_ALWAYS[1])
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign"), critical=True)
        .add_extension(x509.SubjectKeyIdentifier(_short_id(key)), critical=False)
        .add_extension(_issued_by(maker.public_key()), critical=False)
    )
    return builder.sign(maker, None).public_bytes(Encoding.DER)


def read_certificates(path: Path) -> tuple[x509.Certificate, ...]:
    """Read the certificate of a tls key, and those of authorities between. Raises BadSettings, naming the file."""
    try:
        found = tuple(x509.load_pem_x509_certificates(path.read_bytes()))
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadSettings(f"{path}: has no certificate in PEM") from error
    return found


def why_not_shown(certificate: x509.Certificate, key: TlsPrivateKey, now: datetime) -> str:
    """Return why a certificate of an authority cannot be shown with this key at this moment; "" if it can."""
    dates = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    try:
        is_of_key = key_id_of_certificate(certificate) == _key_id(key.public_key())
    except (ValueError, UnsupportedAlgorithm):
        is_of_key = False
    if not is_of_key:
        return "its first certificate is of another key than the tls key in use"
    if not dates[0] <= now <= dates[1]:
        return f"its first certificate is valid from {_shown(dates[0])} to {_shown(dates[1])}"
    return ""


def leaf_of_chain(chain: Sequence[x509.Certificate], key: TlsPrivateKey) -> Leaf:
    """Return what shows these certificates, the first one of this key."""
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = b"".join(one.public_bytes(Encoding.PEM) for one in chain)
    return Leaf(chain[0].public_bytes(Encoding.DER), shown + private)


def _certified(certificate: x509.Certificate, peers: Collection[PeerKey]) -> PeerKey | None:
    """Return the key of a party in this certificate of an authority; the handshake has proved that whoever shows it has
    the private key. Raises ValueError, UnsupportedAlgorithm."""
    key_id = key_id_of_certificate(certificate)
    found = [peer for peer in peers if peer.certified is not None and peer.key_id == key_id]
    names = names_in(certificate) if found else frozenset()
    return next((peer for peer in found if peer.certified is not None and peer.certified.name in names), None)


def key_id_in(leaf: bytes | None) -> str:
    """Return the id of the key in a certificate (DER) whose handshake is over; "" if it cannot be read."""
    try:
        return key_id_of_certificate(x509.load_der_x509_certificate(leaf or b""))
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion):
        return ""


def key_id_of_certificate(certificate: x509.Certificate) -> str:
    """Raises ValueError, UnsupportedAlgorithm."""
    return sha256(certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def names_in(certificate: x509.Certificate) -> frozenset[str]:
    """Return the DNS names of a certificate, in lower case. Raises ValueError."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(name.lower() for name in found.get_values_for_type(x509.DNSName))


def _has_signed(key: TlsPublicKey, certificate: x509.Certificate) -> bool:
    try:
        if isinstance(key, Ed25519PublicKey):
            key.verify(certificate.signature, certificate.tbs_certificate_bytes)
        elif isinstance(certificate.signature_hash_algorithm, SHA256):
            key.verify(certificate.signature, certificate.tbs_certificate_bytes, ECDSA(SHA256()))
        else:
            return False
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=1024)
def _name_of(party_id: str, key_id: str) -> x509.Name:
    """Return the name of a tls key in certificates."""
    return _named(f"fate_flow party {party_id} key {key_id[:16]}")


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(only: str) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: name == only for name in names})


def _issued_by(key: TlsPublicKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier(_short_id(key), None, None)


def _short_id(key: TlsPublicKey) -> bytes:
    return bytes.fromhex(_key_id(key))[:20]


def _key_id(key: TlsPublicKey) -> str:
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


@lru_cache(maxsize=1024)
def _known_key_id(pem: str) -> str:
    """Return the id of a stored key; it is asked for several times a second. Raises ValueError."""
    return _key_id(read_tls_key(pem))


def time_of(milliseconds: int) -> datetime:
    """Return the moment so many milliseconds after 1970 began."""
    return datetime.fromtimestamp(milliseconds // 1000, UTC)


def shown_time(milliseconds: int) -> str:
    """Return a time, in milliseconds since 1970, for people; it may come from anybody."""
    try:
        return _shown(time_of(milliseconds))
    except (ValueError, OverflowError):
        return "a time that no calendar has"


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ")
