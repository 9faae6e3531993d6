"""How two parties join: one message in each direction, each with a code (HMAC) that needs the invitation's secret.

The joining party does not know the keys of the server that it reaches, and shows no certificate. What makes both sure
of each other:

- The first message has the joining party's id, address, key list and a nonce. Its code also covers the inviting party's
  id and the fingerprint of its root key, which are in the invitation.
- The answer has the same of the inviting party, and the id of the tls key whose certificate it has shown on this very
  connection. Its code covers both messages. So somebody in between, whose certificate is another one, is noticed.

Whoever has the text of the invitation could join in the place of the invited party. For that, both sides compute
a digest of both messages, from which six words are made (`peers/spoken/phrase.py`): people compare them by telephone.

Nothing here is stored or sent; `now` and nonces are handed in.
"""

from __future__ import annotations

import hmac
import json
import re
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from fate_flow.core.access.invitation import Invitation, check_address
from fate_flow.core.access.key_list import MOST_NUMBER, KeyList, SignedKeyList, read_signed_key_list
from fate_flow.core.model.errors import BadRequest, Conflict, PermissionDenied
from fate_flow.core.model.grammar import check_party_id, check_whole, shown
from fate_flow.core.text.strict_json import read_strict_json

JOIN = "/party/join"
"""Path of the one route of strangers, without the leading `/v1`."""

MOST_BYTES = 64 * 1024               # of a message; a key list with 50 keys has a quarter of that
VERSION = 1
NONCE_BYTES = 32
_MOST = 2**53 - 1
_NONCE = re.compile(rf"[0-9a-f]{{{2 * NONCE_BYTES}}}")
_ID = re.compile(r"[0-9a-f]{64}")
_ASKED, _ANSWERED, _SEEN = b"fate_flow join 1\n", b"fate_flow join 2\n", b"fate_flow join seen\n"


@dataclass(frozen=True)
class SavedList:
    """Which key list of the inviting party the joining one has saved, from an earlier time."""

    number: int
    digest: str                      # SHA-256 of what is signed, in hex digits

    @classmethod
    def of(cls, number: int, signed: SignedKeyList) -> SavedList:
        return cls(number, sha256(signed.content.encode()).hexdigest())


@dataclass(frozen=True)
class Introduction:
    """What a party says of itself when it joins."""

    party_id: str
    address: str                     # https URL of its gateway; empty if it has no port, and dials the other party
    keys: SignedKeyList
    nonce: str                       # hex digits
    clock: int                       # milliseconds since 1970
    about: str                       # of the first message: the id of the invitation; of the answer: of the tls key
    saved: SavedList | None = None   # in the first message, if there is one

    def content(self) -> str:
        return json.dumps({
            "version": VERSION, "party_id": self.party_id, "address": self.address, "key_list": self.keys.text(),
            "nonce": self.nonce, "clock": self.clock, "about": self.about,
            "saved_list": None if self.saved is None else asdict(self.saved),
        })  # fmt: skip


@dataclass(frozen=True)
class SealedMessage:
    """A message as it is sent."""

    content: str                     # of an Introduction, to the letter
    code: str                        # hex digits

    def text(self) -> str:
        return json.dumps({"message": self.content, "code": self.code})


def seal_first(said: Introduction, secret: bytes, inviter: str, root_id: str) -> SealedMessage:
    """Return the message of the joining party."""
    content = said.content()
    return SealedMessage(content, _code(secret, _ASKED, content, inviter, root_id))


def seal_answer(said: Introduction, secret: bytes, first: SealedMessage) -> SealedMessage:
    """Return the inviting party's answer to this message."""
    content = said.content()
    return SealedMessage(content, _code(secret, _ANSWERED, first.content, first.code, content))


def read_sealed(text: str) -> SealedMessage:
    """Read a message whose sender nobody knows yet. Raises BadRequest."""
    if len(text) > MOST_BYTES:
        raise BadRequest(f"join: the message is longer than {MOST_BYTES} bytes")
    found = _object(text)
    content, code = found.get("message"), found.get("code")
    if set(found) != {"message", "code"} or not isinstance(content, str) or not isinstance(code, str):
        raise BadRequest("join: the message does not consist of message and code")
    if not content.isascii() or not _ID.fullmatch(code):
        raise BadRequest("join: the code is not 64 hex digits, or the message is not ASCII")
    return SealedMessage(content, code)


def read_introduction(message: SealedMessage) -> Introduction:
    """Read what a message says; nothing of it is proved by that. Raises BadRequest."""
    found = _object(message.content)
    if found.get("version") != VERSION:
        raise BadRequest(f"join: version is not {VERSION}; both servers need a release that can join in the same way")
    if set(found) != {"version", "party_id", "address", "key_list", "nonce", "clock", "about", "saved_list"}:
        raise BadRequest("join: the message has other keys than a release of this server writes")
    keys, clock = found["key_list"], found["clock"]
    if not isinstance(keys, str) or not isinstance(clock, int) or isinstance(clock, bool) or not 0 <= clock <= _MOST:
        raise BadRequest("join: key_list is not text, or clock is not a number of milliseconds")
    address = "" if found["address"] == "" else check_address(found["address"], "join: address")
    return Introduction(
        check_party_id(found["party_id"], "join: party_id"), address,
        read_signed_key_list(keys), _matching(_NONCE, found["nonce"], "nonce"), clock,
        _matching(_ID, found["about"], "about"), _saved_list(found["saved_list"]),
    )


def _saved_list(value: object) -> SavedList | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) != {"number", "digest"}:
        raise BadRequest("join: saved_list does not consist of number and digest")
    number = check_whole(value["number"], "join: saved_list: number", 1, MOST_NUMBER)
    return SavedList(number, _matching(_ID, value["digest"], "saved_list: digest"))


def check_not_older(own: KeyList, signed: SignedKeyList, said: Introduction) -> None:
    """Check that the joining party would save the newest list of this one. Raises Conflict, which says what to do.

    A home that was restored from an older copy has a list with a smaller number than others have saved."""
    saved, newest = said.saved, SavedList.of(own.number, signed)
    if saved is None or saved == newest or saved.number < newest.number:
        return
    what = "another list with the same number" if saved.number == newest.number else f"number {newest.number}"
    raise Conflict(
        f"key: party {said.party_id} has saved the key list of party {own.party_id} with number {saved.number}, and "
        f"that party has {what} now: perhaps its home was restored from an older copy. There: fate_flow key certify "
        f"--number {saved.number + 1}; then join again. Nothing was saved, and the invitation is still open"
    )


def has_sealed_first(message: SealedMessage, secret: bytes, inviter: str, root_id: str) -> bool:
    """Return whether whoever wrote this first message knows the secret and means this inviting party."""
    return hmac.compare_digest(message.code, _code(secret, _ASKED, message.content, inviter, root_id))


def read_answer(answer: SealedMessage, first: SealedMessage, invitation: Invitation) -> Introduction:
    """Return what the inviting party says of itself. Raises PermissionDenied if somebody else has answered;
    BadRequest."""
    code = _code(invitation.secret, _ANSWERED, first.content, first.code, answer.content)
    if not hmac.compare_digest(answer.code, code):
        raise PermissionDenied(
            "secret: whoever answers does not know the secret of the invitation; nothing was saved. Does another "
            "server have this address?"
        )
    said = read_introduction(answer)
    if said.party_id != invitation.inviter:
        raise PermissionDenied(f"name: party {said.party_id} answers, and not party {invitation.inviter}")
    return said


def check_keys(said: Introduction, invitation: Invitation, root_id: str, seen_key: str) -> None:
    """Check whose keys are in the answer of the inviting party, and who is at the other end of this connection.

    `root_id`: of the root key that has signed its key list; `seen_key`: the id of the tls key that has signed the
    certificate on this connection. Raises PermissionDenied."""
    if root_id != invitation.root_id:
        raise PermissionDenied("key: the key list in the answer has another root key than the invitation says")
    if said.about != seen_key:
        raise PermissionDenied(
            "key: somebody in between has answered: the certificate of this connection is not the one that party "
            f"{invitation.inviter} has shown. Nothing was saved here; that party may have saved the keys of this one"
        )


def seen_by_both(first: SealedMessage, answer: SealedMessage) -> bytes:
    """Return the digest that is the same at both parties only if nobody has changed anything in between."""
    return sha256(_framed(_SEEN, first.content, first.code, answer.content, answer.code)).digest()


def _code(secret: bytes, purpose: bytes, *parts: str) -> str:
    key = hmac.digest(secret, purpose, "sha256")         # one for each direction: an answer is never a first message
    return hmac.digest(key, _framed(purpose, *parts), "sha256").hex()


def _framed(purpose: bytes, *parts: str) -> bytes:
    """Return the parts with their lengths, so that no other parts have the same bytes."""
    return purpose + b"".join(len(part).to_bytes(8, "big") + part.encode("ascii") for part in parts)


def _matching(pattern: re.Pattern[str], value: object, key: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise BadRequest(f"join: {key}: {shown(value)} is not a number in hex digits of the right length")
    return value


def _object(text: str) -> dict[str, Any]:
    try:
        found = read_strict_json(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest("join: the message is not JSON as a server writes it") from error
    if not isinstance(found, dict):
        raise BadRequest("join: the message is not a JSON object")
    return found
