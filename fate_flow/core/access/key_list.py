"""The key list of a party: which keys it uses for what, signed by its root key.

Another party keeps the newest list that it has seen. A key counts if the newest list has it and its time is not over.
Signatures are made and checked in `peers/key_lists.py`; here are the form of a list, and the rule that says which list
follows which.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from typing import Any

from fate_flow.core.model.errors import BadRequest, Conflict
from fate_flow.core.model.grammar import check_party_id, shown
from fate_flow.core.text.strict_json import read_strict_json

TLS, MESSAGE, RECORD, WITNESS = "tls", "message", "record", "witness"
USES = (TLS, MESSAGE, RECORD, WITNESS)

VERSION = 1
LONGEST_TEXT = 100_000               # characters of a signed list
_MOST_KEYS = 50
MOST_REPLACED = 200                  # lists of one party that stay stored, besides its newest one
MOST_NUMBER = 2**53 - 1              # that every reader of JSON keeps
_WHERE = "key list"


@dataclass(frozen=True)
class ListedKey:
    """A public key of a party. Times are milliseconds since 1970."""

    use: str                         # one of USES
    pem: str
    since: int
    until: int | None = None         # None: until a newer list does not have it

    def is_valid(self, now: int) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True)
class KeyList:
    """What the root key signs."""

    party_id: str
    number: int                      # 1 for the first list; a newer list has a larger one
    issued_at: int
    keys: tuple[ListedKey, ...]
    next_root: str | None = None     # PEM: the root key that may sign the next list instead

    def content(self) -> str:
        """Return the text that is signed."""
        keys = [{"use": key.use, "key": key.pem, "from": key.since, "until": key.until} for key in self.keys]
        document = {
            "version": VERSION, "party_id": self.party_id, "number": self.number, "issued_at": self.issued_at,
            "keys": keys,
        }
        return json.dumps(document if self.next_root is None else {**document, "next_root": self.next_root})

    def in_use(self, use: str, now: int) -> ListedKey | None:
        """Return the key that the party itself uses now: the newest one whose time has come; None if there is none."""
        begun = [key for key in self.keys if key.use == use and key.since <= now and key.is_valid(now)]
        return max(begun, key=lambda key: key.since, default=None)

    def end_of(self, use: str) -> int | None:
        """Return when the last key of this use ends; None if one has no end, or there is none."""
        ends = [key.until for key in self.keys if key.use == use]
        return None if None in ends else max((end for end in ends if end is not None), default=None)

    def valid(self, use: str, now: int) -> tuple[str, ...]:
        """Return the keys (PEM) of this use that are valid now, also those whose time has not come."""
        return tuple(key.pem for key in self.keys if key.use == use and key.is_valid(now))


@dataclass(frozen=True)
class SignedKeyList:
    """A key list as it goes from one party to another."""

    root_key: str                    # PEM, of the key that signed
    content: str                     # of a KeyList, to the letter
    signature: str                   # base64

    def text(self) -> str:
        """Return the file that operators exchange."""
        document = {"key_list": self.content, "root_key": self.root_key, "signature": self.signature}
        return json.dumps(document, indent=1) + "\n"


class KeyState(StrEnum):
    """How this party regards another one."""

    JOINED = "joined"                # its keys count
    REVOKED = "revoked"              # none of its keys counts any more
    REMOVED = "removed"              # forgotten, but for this mark


@dataclass(frozen=True)
class PartyKeys:
    """What is stored of another party: its newest key list, and how this party regards it."""

    party_id: str
    number: int
    root_id: str                     # the id of the root key (SHA-256 of its DER form, in hex digits)
    signed: SignedKeyList
    received_at: int
    state: KeyState
    state_by: str                    # who put it into this state
    state_at: int

    def valid(self, use: str, now: int) -> tuple[str, ...]:
        """Return the keys (PEM) of this use that count now."""
        return stored_key_list(self.signed.content).valid(use, now) if self.state is KeyState.JOINED else ()

    def listed(self, use: str) -> tuple[str, ...]:
        """Return the keys (PEM) of this use, also those whose time is over: what they have signed stays signed."""
        return tuple(key.pem for key in stored_key_list(self.signed.content).keys if key.use == use)

    def root_ids(self) -> tuple[str, ...]:
        """Return the ids of the root keys that may sign the next list."""
        next_root = stored_key_list(self.signed.content).next_root
        return (self.root_id,) if next_root is None else (self.root_id, key_id_of(next_root))


@dataclass(frozen=True)
class ReplacedKeyList:
    """A key list of another party that a newer one has replaced."""

    signed: SignedKeyList
    received_at: int
    replaced_at: int


def key_id_of(pem: str) -> str:
    """Return the id of a key of a list whose keys were checked."""
    return sha256(b64decode("".join(pem.splitlines()[1:-1]))).hexdigest()


def ed25519_in(pem: str) -> bytes | None:
    """Return the 32 bytes of an Ed25519 key of a list; None for a key of another kind."""
    raw = b64decode("".join(pem.splitlines()[1:-1]))
    return raw[len(_ED25519_HEAD) :] if raw.startswith(_ED25519_HEAD) and len(raw) == _ED25519_BYTES else None


_ED25519_HEAD, _ED25519_BYTES = bytes.fromhex("302a300506032b6570032100"), 44       # RFC 8410


def is_signed_key_list(text: str) -> bool:
    """Return whether a text is meant as a signed key list, and not as a key in PEM."""
    return text.lstrip().startswith("{")


def read_signed_key_list(text: str) -> SignedKeyList:
    """Read the file that operators exchange. Raises BadRequest."""
    found = _Object(_document(text), _WHERE)
    signed = SignedKeyList(found.text("root_key"), found.text("key_list"), found.text("signature"))
    found.refuse_others("key_list", "root_key", "signature")
    try:
        b64decode(signed.signature, validate=True)
    except ValueError as error:
        raise BadRequest(f"{_WHERE}: signature is not base64") from error
    return signed


def read_key_list(content: str) -> KeyList:
    """Read what was signed. Raises BadRequest for anything but the one form."""
    found = _Object(_document(content), _WHERE)
    if found.whole("version", 0) != VERSION:
        raise BadRequest(f"{_WHERE}: version is not {VERSION}; a newer release of this server may read it")
    next_root = found.text("next_root") if "next_root" in found.values else None
    keys = found.values.get("keys")
    if not isinstance(keys, list) or not 1 <= len(keys) <= _MOST_KEYS:
        raise BadRequest(f"{_WHERE}: keys is not a list of 1 to {_MOST_KEYS} keys")
    found.refuse_others("version", "party_id", "number", "issued_at", "keys", "next_root")
    return KeyList(
        check_party_id(found.values.get("party_id"), f"{_WHERE}: party_id"), found.whole("number", 1),
        found.whole("issued_at", 0), tuple(_listed(key, number) for number, key in enumerate(keys)), next_root,
    )


stored_key_list = lru_cache(maxsize=256)(read_key_list)
"""For lists that are stored: they are looked at several times a second."""


def follows(stored: PartyKeys | None, new: KeyList, signed: SignedKeyList, is_compared: bool) -> bool:
    """Return whether a list, whose signature holds, takes the place of the stored one; False if it is the stored one.

    `is_compared`: an operator has compared the fingerprint of the new list's root key with the other party. Raises
    Conflict for a list that must not replace the stored one."""
    if stored is None:
        return True
    if stored.state is KeyState.REMOVED:
        if not is_compared:
            raise Conflict(
                f"party {stored.party_id} was removed here; to accept it again, compare the fingerprint of its root "
                "key with its operator and give it (--fingerprint)"
            )
        return True
    if stored.state is KeyState.REVOKED:
        raise Conflict(
            f"party {stored.party_id} was revoked here; to accept it again, delete it first (flow key delete)"
        )
    return _is_newer(stored, new, signed)


def _is_newer(stored: PartyKeys, new: KeyList, signed: SignedKeyList) -> bool:
    if signed.root_key != stored.signed.root_key:
        announced = read_key_list(stored.signed.content).next_root
        if announced != signed.root_key:
            raise Conflict(
                f"another root key than that of party {stored.party_id} here has signed this list, and no list here "
                "announces it; if the party has lost its root key, delete it first (flow key delete)"
            )
    if new.number < stored.number:
        raise Conflict(
            f"the list has number {new.number}, and number {stored.number} of party {new.party_id} is here. If the "
            "home of that party was restored from an older copy, there: fate_flow key certify --number "
            f"{stored.number + 1}"
        )
    if new.number > stored.number:
        return True
    if signed.content != stored.signed.content:
        raise Conflict(
            f"party {new.party_id} has signed two different lists with number {new.number}: ask its operator for a "
            f"list with a larger number (fate_flow key certify --number {new.number + 1})"
        )
    return False


def _document(text: str) -> dict[str, Any]:
    if len(text) > LONGEST_TEXT:
        raise BadRequest(f"{_WHERE}: has more than {LONGEST_TEXT} characters")
    try:
        found = read_strict_json(text)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{_WHERE}: is not JSON as a key list has it") from error
    if not isinstance(found, dict):
        raise BadRequest(f"{_WHERE}: is not a JSON object")
    return found


def _listed(value: object, number: int) -> ListedKey:
    where = f"{_WHERE}: keys[{number}]"
    if not isinstance(value, dict):
        raise BadRequest(f"{where} is not a JSON object")
    found = _Object(value, where)
    use = found.text("use")
    if use not in USES:
        raise BadRequest(f"{where}: use {shown(use)} is not one of {', '.join(USES)}")
    until = None if found.values.get("until") is None else found.whole("until", 0)
    found.refuse_others("use", "key", "from", "until")
    return ListedKey(use, found.text("key"), found.whole("from", 0), until)


@dataclass(frozen=True)
class _Object:
    """A JSON object, and its name in messages."""

    values: dict[str, Any]
    where: str

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str) or not value or not value.isascii():
            raise BadRequest(f"{self.where}: {key} is not text in ASCII")
        return value

    def whole(self, key: str, least: int) -> int:
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MOST_NUMBER:
            raise BadRequest(f"{self.where}: {key} is not a whole number from {least} on")
        return value

    def refuse_others(self, *known: str) -> None:
        others = sorted(set(self.values) - set(known))
        if others:
            raise BadRequest(f"{self.where}: {shown(others[0])} is no key of it; a newer release may know it")
