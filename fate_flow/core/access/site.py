"""How a request on the port of clients proves which party sent it: by a signature, or by its claim alone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown

_KEY_ID = re.compile(r"[0-9a-f]{64}")
_SHOWN_DIGITS = 16       # of the 64


@dataclass(frozen=True)
class SiteKey:
    """The stored public key of another party."""

    party_id: str
    key_id: str                      # SHA-256 of its DER form, in hex digits
    pem: str


@dataclass(frozen=True)
class SiteRule:
    """Whether requests between parties are signed."""

    is_on: bool = False
    unsigned_from: frozenset[str] = frozenset()      # parties that are believed without a signature
    plain_from: frozenset[str] = frozenset()         # the same, on a listener of their own alone
    due_to: str = field(default="", compare=False)   # a key, with its value, that makes it on unless a switch is set

    def needs_key(self, party_id: str) -> bool:
        """Return whether requests of this other party must be signed, on the port of clients."""
        return self.is_on and party_id not in self.unsigned_from

    def needs_saved_key(self, party_id: str) -> bool:
        """Return whether this other party can take part in jobs only if a key of it is saved."""
        return self.needs_key(party_id) and party_id not in self.plain_from


def short_key_id(key_id: str) -> str:
    """Return the beginning of a key id, for a message."""
    return f"{key_id[:_SHOWN_DIGITS]}..."


def check_key_id(value: object, key: str) -> str:
    """Return `value` if it is the id of a key; raises BadRequest if not."""
    if not isinstance(value, str) or not _KEY_ID.fullmatch(value):
        raise BadRequest(f"{key}: {shown(value)} is not a key id (64 hex digits); `flow key query` shows it")
    return value
