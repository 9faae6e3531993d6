"""Signing and reading signatures of requests between parties: HTTP Message Signatures (RFC 9421), in one fixed form.

docs/reference/signatures.md says what a signature covers, and why. It is a classic weakness of such schemes that the
sender may choose what the signature covers, or the algorithm. Therefore a header must match the form here exactly.
"""

from __future__ import annotations

import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from requests import PreparedRequest
from requests.auth import AuthBase

from fate_flow.core.wire.v1.envelope import DEST_PARTY_ID, SRC_PARTY_ID
from fate_flow.peers.site_key import PrivateKey, PublicKey

DIGEST, INPUT, SIGNATURE = "Content-Digest", "Signature-Input", "Signature"
NAMES = ("@method", "@path", "@query", "content-digest", "src-party-id", "dest-party-id")

_LIST = f"({' '.join(f'{chr(34)}{name}{chr(34)}' for name in NAMES)})"
_TAG = "fate_flow"
_INPUT = re.compile(
    rf'site=({re.escape(_LIST)};created=([0-9]{{1,12}});keyid="([0-9a-f]{{64}})";nonce="([A-Za-z0-9_-]{{22,64}})"'
    rf';tag="{_TAG}")'
)
_SIGNATURE = re.compile(r"site=:([A-Za-z0-9+/]{16,2000}={0,2}):")
_NONCE_BYTES = 18

Clock = Callable[[], int]
"""Returns the milliseconds since 1970 by the wall clock, the only clock that the other party can compare with."""


@dataclass(frozen=True)
class Covered:
    """What a signature covers. `target` is path and query as they are sent."""

    method: str
    target: str
    digest: str
    source: str
    destination: str

    def base(self, parameters: str) -> bytes:
        """Return the text that is signed. Raises UnicodeEncodeError if it is not ASCII."""
        path, _, query = self.target.partition("?")
        values = (self.method, path, f"?{query}", self.digest, self.source, self.destination)
        lines = [f'"{name}": {value}' for name, value in zip(NAMES, values, strict=True)]
        return "\n".join((*lines, f'"@signature-params": {parameters}')).encode("ascii")


@dataclass(frozen=True)
class SignatureInput:
    """The content of the signature headers of a request, before it is verified."""

    parameters: str
    created: int                     # seconds since 1970, by the sender's clock
    key_id: str
    nonce: str
    signature: bytes

    def holds(self, key: PublicKey, covered: Covered) -> bool:
        """Return whether the owner of this key has signed `covered`."""
        try:
            return key.has_signed(covered.base(self.parameters), self.signature)
        except UnicodeEncodeError:
            return False


def digest_of(body: bytes) -> str:
    """Return the Content-Digest of a body (RFC 9530)."""
    return f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"


def read_signature_input(signature_input: str, signature: str) -> SignatureInput | None:
    """Read the signature headers; None if they have another form."""
    input_match, signed = _INPUT.fullmatch(signature_input), _SIGNATURE.fullmatch(signature)
    if input_match is None or signed is None:
        return None
    try:
        return SignatureInput(
            input_match[1], int(input_match[2]), input_match[3], input_match[4], b64decode(signed[1], validate=True)
        )
    except ValueError:
        return None


def sign(key: PrivateKey, covered: Covered, created: int, nonce: str) -> dict[str, str]:
    """Return the signature headers; `created` is in seconds."""
    parameters = f'{_LIST};created={created};keyid="{key.public.key_id}";nonce="{nonce}";tag="{_TAG}"'
    signature = b64encode(key.sign(covered.base(parameters))).decode()
    return {DIGEST: covered.digest, INPUT: f"site={parameters}", SIGNATURE: f"site=:{signature}:"}


class SiteSignature(AuthBase):
    """Signs each request of a session, and each retry again. The headers must name both parties."""

    def __init__(self, key: PrivateKey, clock: Clock) -> None:
        self._key = key
        self._clock = clock

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        head = request.headers
        covered = Covered(
            str(request.method), request.path_url, digest_of(_body_of(request)), str(head[SRC_PARTY_ID]),
            str(head[DEST_PARTY_ID]),
        )
        head.update(sign(self._key, covered, self._clock() // 1000, secrets.token_urlsafe(_NONCE_BYTES)))
        return request


def _body_of(request: PreparedRequest) -> bytes:
    body = request.body
    if body is None:
        return b""
    if not isinstance(body, (bytes, str)):
        raise TypeError(f"a body of {type(body).__name__} cannot be signed before it is sent")
    return body if isinstance(body, bytes) else body.encode()
