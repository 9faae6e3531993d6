"""The text of an invitation: one line, by which another party's operator joins this party.

It says where the inviting party is reached, and has the fingerprint of its root key and a secret that is used once.
The last four bytes are the beginning of a digest of the others, so a changed copy is noticed before anything is sent.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import urlsplit

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_party_id

PREFIX = "fate-flow-invite:"
SECRET_BYTES = 16
LIFE_MS = 3600 * 1000
MOST_TRIES = 5
LONGEST_ADDRESS = 300
_VERSION, _ROOT_BYTES, _TIME_BYTES, _CHECK_BYTES = 1, 32, 8, 4
_FIXED = 1 + SECRET_BYTES + _ROOT_BYTES + _TIME_BYTES
_LONGEST_TEXT = 1000
_MANGLED = "invitation: a part of the text is missing or was changed: copy it again, from fate-flow-invite: to its end"


@dataclass(frozen=True)
class Invitation:
    """What the text says."""

    address: str                     # https URL of the inviting party's gateway
    inviter: str                     # party id
    root_id: str                     # of the inviting party's root key (64 hex digits)
    invited: str                     # party id
    secret: bytes = field(repr=False)
    until: int                       # milliseconds since 1970, by the clock of the inviting party

    @property
    def id(self) -> str:
        """Return the name of the invitation, which reveals nothing of its secret."""
        return invitation_id(self.secret)

    def text(self) -> str:
        data = b"".join((
            bytes([_VERSION]), self.secret, bytes.fromhex(self.root_id), self.until.to_bytes(_TIME_BYTES, "big"),
            f"{self.inviter} {self.invited} {self.address}".encode("ascii"),
        ))  # fmt: skip
        return PREFIX + urlsafe_b64encode(data + _check_bytes(data)).decode().rstrip("=")


def invitation_id(secret: bytes) -> str:
    return sha256(b"fate_flow invitation\n" + secret).hexdigest()


def read_invitation(text: str) -> Invitation:
    """Read the text; spaces and line breaks within it do not matter. Raises BadRequest, without any part of it."""
    joined = "".join(text.split())
    if not joined.startswith(PREFIX):
        raise BadRequest(f"invitation: the text does not begin with {PREFIX}; fate_flow party invite prints it")
    data = _decoded(joined.removeprefix(PREFIX))
    if len(data) < _FIXED + _CHECK_BYTES or _check_bytes(data[:-_CHECK_BYTES]) != data[-_CHECK_BYTES:]:
        raise BadRequest(_MANGLED)
    if data[0] != _VERSION:
        raise BadRequest("invitation: a newer release of the server has made this text; upgrade this one")
    secret, root, time = (
        data[1 : 1 + SECRET_BYTES], data[1 + SECRET_BYTES : _FIXED - _TIME_BYTES], data[_FIXED - _TIME_BYTES : _FIXED],
    )  # fmt: skip
    inviter, _, rest = _ascii(data[_FIXED:-_CHECK_BYTES]).partition(" ")
    invited, _, address = rest.partition(" ")
    return Invitation(
        check_address(address, "invitation: address"), check_party_id(inviter, "invitation: party id"), root.hex(),
        check_party_id(invited, "invitation: invited party"), secret, int.from_bytes(time, "big"),
    )


def check_address(value: object, key: str) -> str:
    """Return the address of a gateway, as other parties use it. Raises BadRequest."""
    if isinstance(value, str) and len(value) <= LONGEST_ADDRESS and value.isascii() and value.isprintable():
        scheme, _, rest = value.partition("://")
        host, _, port = rest.rpartition(":")
        is_plain = bool(host) and not set(host) & set("/?#@ \\")
        if scheme == "https" and is_plain and port.isdigit() and 0 < int(port) <= 65535 and _can_be_dialed(value):
            return value
    raise BadRequest(f"{key}: is not an address such as https://10.0.0.2:9390 or https://[fd00::2]:9390")


def place_of(url: str) -> tuple[str, int]:
    """Return the host and the port of an https address. Raises ValueError if no connection can ever be made to it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host.encode("idna"):           # as the resolver does; UnicodeError is a ValueError
        raise ValueError("it has no host")
    return host, parts.port or 443


def _can_be_dialed(url: str) -> bool:
    try:
        place_of(url)
    except ValueError:
        return False
    return True


def _decoded(text: str) -> bytes:
    if len(text) > _LONGEST_TEXT or not text.isascii():
        raise BadRequest(_MANGLED)
    padded = text + "=" * (-len(text) % 4)
    try:
        data = urlsafe_b64decode(padded)
    except Error as error:
        raise BadRequest(_MANGLED) from error
    if urlsafe_b64encode(data).decode() != padded:       # the decoder leaves out what it does not know
        raise BadRequest(_MANGLED)
    return data


def _ascii(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise BadRequest(_MANGLED) from error


def _check_bytes(data: bytes) -> bytes:
    return sha256(PREFIX.encode() + data).digest()[:_CHECK_BYTES]
