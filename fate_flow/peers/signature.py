"""Signing and reading signatures of requests between parties: HTTP Message Signatures (RFC 9421), in one fixed form.

docs/reference/signatures.md says what a signature covers, and why. It is a classic weakness of such schemes that the
sender may choose what the signature covers, or the algorithm. Therefore a header must match a form here exactly. There
are two: a request of the second asks for an answer that is signed, too (signed_answers.py).
"""

from __future__ import annotations

import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from fate_flow.core.wire.v1.envelope import DEST_PARTY_ID, SRC_PARTY_ID
from fate_flow.peers.site_key import ALGORITHMS, PrivateKey, PublicKey

DIGEST, INPUT, SIGNATURE = "Content-Digest", "Signature-Input", "Signature"
NAMES = ("@method", "@path", "@query", "content-digest", "src-party-id", "dest-party-id")
LABEL = "site"
VALID_SECONDS = 60           # after `created`

_LIST = f"({' '.join(f'{chr(34)}{name}{chr(34)}' for name in NAMES)})"
_TAG, _TAG_TO_ANSWER = "fate_flow", "fate_flow-request"
_CREATED, _EXPIRES = "created=(?P<created>[0-9]{1,12})", "expires=(?P<expires>[0-9]{1,12})"
_NONCE = 'nonce="(?P<nonce>[A-Za-z0-9_-]{22,64})"'
KEY_ID = 'keyid="(?P<keyid>[0-9a-f]{64})"'
ALGORITHM = f'alg="(?P<alg>{"|".join(ALGORITHMS.values())})"'
_INPUTS = tuple(
    re.compile(f"{LABEL}=(?P<parameters>{';'.join((re.escape(_LIST), *parameters))})")
    for parameters in (
        (_CREATED, KEY_ID, _NONCE, f'tag="{_TAG}"'),
        (_CREATED, KEY_ID, ALGORITHM, _EXPIRES, _NONCE, f'tag="{_TAG_TO_ANSWER}"'),
    )
)
_SIGNATURE = re.compile(rf"{LABEL}=:([A-Za-z0-9+/]{{16,2000}}={{0,2}}):")
_NONCE_BYTES = 18

Clock = Callable[[], int]
"""Returns the milliseconds since 1970 by the wall clock, the only clock that the other party can compare with."""

Newer = Callable[[int], PrivateKey | None]
"""Returns the key that is used at this moment (milliseconds since 1970); None for the one that was used last."""


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
        return signature_base(zip((f'"{name}"' for name in NAMES), values, strict=True), parameters)


def signature_base(lines: Iterable[tuple[str, str]], parameters: str) -> bytes:
    """Return the text that is signed, of component identifiers with their values. Raises UnicodeEncodeError."""
    texts = [f"{identifier}: {value}" for identifier, value in lines]
    return "\n".join((*texts, f'"@signature-params": {parameters}')).encode("ascii")


@dataclass(frozen=True)
class SignatureInput:
    """The content of the signature headers of a request, before it is verified."""

    parameters: str
    created: int                     # seconds since 1970, by the sender's clock
    expires: int
    key_id: str
    algorithm: str                   # empty: that of the key
    nonce: str
    signature: bytes
    asks: bool                       # for a signed answer

    def holds(self, key: PublicKey, covered: Covered) -> bool:
        """Return whether the owner of this key has signed `covered`."""
        if self.algorithm not in ("", key.algorithm):
            return False
        try:
            return key.has_signed(covered.base(self.parameters), self.signature)
        except UnicodeEncodeError:
            return False


def digest_of(body: bytes) -> str:
    """Return the Content-Digest of a body (RFC 9530)."""
    return f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"


def read_signature_input(signature_input: str, signature: str) -> SignatureInput | None:
    """Read the signature headers of a request; None if they have another form."""
    found = next(filter(None, (form.fullmatch(signature_input) for form in _INPUTS)), None)
    signed = read_signature(signature)
    if found is None or signed is None:
        return None
    parts, created = found.groupdict(), int(found["created"])
    return SignatureInput(
        parts["parameters"], created, int(parts.get("expires", created + VALID_SECONDS)), parts["keyid"],
        parts.get("alg", ""), parts["nonce"], signed, asks="alg" in parts,
    )  # fmt: skip


def read_signature(field: str) -> bytes | None:
    """Return the signature in a field `Signature`; None if it has another form."""
    found = _SIGNATURE.fullmatch(field)
    try:
        signature = b64decode(found[1], validate=True) if found else None
    except ValueError:
        return None
    # base64 has several texts for the same bytes
    return signature if signature and found and b64encode(signature).decode() == found[1] else None


def sign(key: PrivateKey, covered: Covered, created: int, nonce: str, *, asks: bool = False) -> dict[str, str]:
    """Return the signature headers; `created` is in seconds. `asks`: for a signed answer."""
    more = f';alg="{key.public.algorithm}";expires={created + VALID_SECONDS}' if asks else ""
    tag = _TAG_TO_ANSWER if asks else _TAG
    parameters = f'{_LIST};created={created};keyid="{key.public.key_id}"{more};nonce="{nonce}";tag="{tag}"'
    return {DIGEST: covered.digest, **signature_fields(key, parameters, covered.base(parameters))}


def signature_fields(key: PrivateKey, parameters: str, base: bytes) -> dict[str, str]:
    """Return both signature headers of a message with these parameters and this base."""
    signature = b64encode(key.sign(base)).decode()
    return {INPUT: f"{LABEL}={parameters}", SIGNATURE: f"{LABEL}=:{signature}:"}


class AnswerCheck(Protocol):
    """Which parties have to sign their answers, and whether they did (signed_answers.py)."""

    def is_asked(self, party_id: str) -> bool: ...

    def check(
        self, party_id: str, asked: Mapping[str, str], status: int, answered: Mapping[str, str], body: bytes
    ) -> None:  # fmt: skip
        """Raise ValueError if this complete answer to a request of ours does not count; `asked`, `answered`: fields of
        the heads, the latter by names in any case."""

    def check_upgrade(self, party_id: str, asked: Mapping[str, str], answered: Mapping[str, str]) -> None:
        """Raise ValueError if the answer does not count by which a connection begins to carry a stream; both: fields of
        the head."""


class SiteSignature:
    """Signs each request, and each retry again. The headers must name both parties."""

    def __init__(
        self, key: PrivateKey, clock: Clock, answers: AnswerCheck | None = None, newer: Newer = lambda _: None
    ) -> None:
        """`newer` returns the key to use at a moment; None for the one that was used last."""
        self._key = key
        self._clock = clock
        self._answers = answers
        self._newer = newer

    @property
    def key(self) -> PrivateKey:
        """Return the key of this moment."""
        self._key = self._newer(self._clock()) or self._key
        return self._key

    def fields(self, method: str, target: str, head: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the fields that sign a request with this head; `target`: path and query as they are sent."""
        to = str(head[DEST_PARTY_ID])
        asks = self._answers is not None and self._answers.is_asked(to)
        covered = Covered(method, target, digest_of(body), str(head[SRC_PARTY_ID]), to)
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        return sign(self.key, covered, self._clock() // 1000, nonce, asks=asks)

    def expecting(self, answers: AnswerCheck) -> SiteSignature:
        """Return one that asks parties for signed answers, and checks these."""
        return SiteSignature(self.key, self._clock, answers, self._newer)

    def check_answer(
        self, party_id: str, asked: Mapping[str, str], status: int, answered: Mapping[str, str], body: bytes
    ) -> None:  # fmt: skip
        """Raise ValueError if the party had to sign this answer, and did not; the values are as for `AnswerCheck`."""
        if self._answers is not None and self._answers.is_asked(party_id):
            self._answers.check(party_id, asked, status, answered, body)

    def check_upgrade(self, party_id: str, asked: Mapping[str, str], answered: Mapping[str, str]) -> None:
        """Raise ValueError if the party had to sign that it carries a stream, and did not; both: fields of the head."""
        if self._answers is not None and self._answers.is_asked(party_id):
            self._answers.check_upgrade(party_id, asked, answered)
