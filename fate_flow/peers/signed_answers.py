"""Signatures of answers between parties: HTTP Message Signatures (RFC 9421) that name the request they belong to.

Whoever ends the TLS between two servers, such as a proxy, could answer in the name of a server. The signature of an
answer covers its status, its body, who answers, and the signature of the request, which has a nonce. So it belongs to
one request. A server signs the answers to requests that it has accepted, and no others: a signed answer proves that
this request was accepted, once, as it was sent. docs/reference/signatures.md describes the form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass

from requests.structures import CaseInsensitiveDict

from fate_flow.core.access.site import SiteKey, short_key_id
from fate_flow.core.model.errors import FlowError
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.peers.signature import (
    ALGORITHM,
    DIGEST,
    INPUT,
    KEY_ID,
    LABEL,
    SIGNATURE,
    digest_of,
    read_signature,
    signature_base,
    signature_fields,
)
from fate_flow.peers.site_key import PrivateKey, PublicKey, read_public_key

_IDENTIFIERS = (
    '"@status"', '"content-digest"', '"src-party-id"', f'"signature-input";req;key="{LABEL}"',
    f'"signature";req;key="{LABEL}"',
)  # fmt: skip
_LIST = f"({' '.join(_IDENTIFIERS)})"
_TAG = 'tag="fate_flow-answer"'
_INPUT = re.compile(f"{LABEL}=(?P<parameters>{';'.join((re.escape(_LIST), KEY_ID, ALGORITHM, _TAG))})")
_LONGEST_REFUSAL = 4_000     # bytes of an answer that is not signed, in which its message is looked for
_LONGEST_TEXT = 150          # characters of it in a message

KeysOf = Callable[[str], tuple[SiteKey, ...]]
"""Returns the keys with which a party signs now. Raises StorageFailed."""


@dataclass(frozen=True)
class CoveredAnswer:
    """What the signature of an answer covers."""

    status: int
    digest: str
    source: str
    request_input: str       # the two signature headers of the request
    request_signature: str

    def base(self, parameters: str) -> bytes:
        """Return the text that is signed. Raises UnicodeEncodeError if it is not ASCII."""
        of_request = (one.removeprefix(f"{LABEL}=") for one in (self.request_input, self.request_signature))
        values = (str(self.status), self.digest, self.source, *of_request)
        return signature_base(zip(_IDENTIFIERS, values, strict=True), parameters)


@dataclass(frozen=True)
class AnswerSignature:
    """The content of the signature headers of an answer, before it is verified."""

    parameters: str
    key_id: str
    algorithm: str
    signature: bytes

    def holds(self, key: PublicKey, covered: CoveredAnswer) -> bool:
        """Return whether the owner of this key has signed `covered`."""
        try:
            return self.algorithm == key.algorithm and key.has_signed(covered.base(self.parameters), self.signature)
        except UnicodeEncodeError:
            return False


def read_answer_signature(signature_input: str, signature: str) -> AnswerSignature | None:
    """Read the signature headers of an answer; None if they have another form."""
    found, signed = _INPUT.fullmatch(signature_input), read_signature(signature)
    if found is None or signed is None:
        return None
    return AnswerSignature(found["parameters"], found["keyid"], found["alg"], signed)


def sign_answer(key: PrivateKey, covered: CoveredAnswer) -> dict[str, str]:
    """Return the headers that make an answer a signed one."""
    parameters = f'{_LIST};keyid="{key.public.key_id}";alg="{key.public.algorithm}";{_TAG}'
    fields = signature_fields(key, parameters, covered.base(parameters))
    return {SRC_PARTY_ID: covered.source, DIGEST: covered.digest, **fields}


class NotProved(ValueError):
    """An answer that its party had to sign, and that proves nothing. Whether the request was carried out is unknown."""


class SignedAnswers:
    """The parties that have to sign their answers to us, and their keys."""

    def __init__(self, parties: Container[str], keys_of: KeysOf) -> None:
        """`parties` is asked each time."""
        self._parties = parties
        self._keys_of = keys_of

    def is_asked(self, party_id: str) -> bool:
        """Return whether this party has to sign its answers."""
        return party_id in self._parties

    def check(
        self, party_id: str, asked: Mapping[str, str], status: int, answered: Mapping[str, str], body: bytes
    ) -> None:  # fmt: skip
        """Raise NotProved unless the party has signed this answer to this request; `asked`, `answered`: fields of the
        heads, the latter by names in any case."""
        if not answered.get(INPUT, "") and not answered.get(SIGNATURE, ""):
            raise NotProved(
                f"its answer is not signed, as routes.{party_id}.signed_answers requires (HTTP status "
                f"{status}{_said(body)})"
            )
        self._check(party_id, status, asked, answered, digest_of(body))

    def check_upgrade(self, party_id: str, asked: Mapping[str, str], answered: Mapping[str, str]) -> None:
        """Raise NotProved unless the party has signed that it carries a stream; both: fields of the head.

        The signature is that of its application's answer 200, whose body stays there."""
        answered = CaseInsensitiveDict(answered)
        if not answered.get(INPUT, "") and not answered.get(SIGNATURE, ""):
            raise NotProved(f"its answer is not signed, as routes.{party_id}.signed_answers requires (HTTP status 101)")
        self._check(party_id, 200, CaseInsensitiveDict(asked), answered, answered.get(DIGEST, ""))

    def _check(
        self, party_id: str, status: int, asked: Mapping[str, str], answered: Mapping[str, str], digest: str
    ) -> None:  # fmt: skip
        """Raise NotProved unless the party has signed an answer to this request with this digest."""
        fields = {name: answered.get(name, "") for name in (INPUT, SIGNATURE, DIGEST, SRC_PARTY_ID)}
        found = read_answer_signature(fields[INPUT], fields[SIGNATURE])
        if found is None:
            raise NotProved(f"{INPUT}: the signature of its answer has another form (docs/reference/signatures.md)")
        key = self._key(party_id, found.key_id)
        if digest != fields[DIGEST]:
            raise NotProved(f"{DIGEST}: is not that of its answer; a proxy in between has changed the answer")
        covered = CoveredAnswer(
            status, fields[DIGEST], fields[SRC_PARTY_ID], str(asked.get(INPUT, "")), str(asked.get(SIGNATURE, ""))
        )
        if not found.holds(key, covered):
            raise NotProved(
                "signature: does not match its answer to this request; a proxy in between has changed the status or a "
                "header, or has taken the answer to another request"
            )

    def _key(self, party_id: str, key_id: str) -> PublicKey:
        try:
            known = {key.key_id: key.pem for key in self._keys_of(party_id)}
        except FlowError as error:
            raise NotProved(f"its answer cannot be checked: {error.message}") from error
        if not known:
            raise NotProved(f"its answer cannot be checked: there is no public key of party {party_id} here")
        if key_id not in known:
            has = " and ".join(map(short_key_id, known))
            raise NotProved(
                f"keyid: its answer was signed with key {short_key_id(key_id)}, and the key of party {party_id} "
                f"here is {has}: run flow key save if the new key is right"
            )
        return read_public_key(known[key_id])


def _said(body: bytes) -> str:
    """Return what an answer says that nothing proves: it may help the operators nevertheless."""
    try:
        document = json.loads(body) if len(body) <= _LONGEST_REFUSAL else None
    except (ValueError, RecursionError):
        document = None
    text = document.get("retmsg") if isinstance(document, dict) else body[:_LONGEST_REFUSAL].decode("utf-8", "replace")
    line = " ".join(sanitized(text, _LONGEST_REFUSAL).split())
    printable = "".join(one if one.isprintable() else "?" for one in line[:_LONGEST_TEXT])
    return f", says: {printable}" if printable else ""
