"""Who may speak for a party: whoever has its key, and for some, as the configuration says, whoever says so."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown

_KEY_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class SiteKey:
    """The public key of another party, as it is kept."""

    party_id: str
    key_id: str                      # SHA-256 of its DER form, in hex digits
    pem: str


@dataclass(frozen=True)
class SiteRule:
    """Whether requests between parties are signed."""

    is_on: bool = False
    unsigned_from: frozenset[str] = frozenset()      # parties that are believed all the same

    def needs_key(self, party_id: str) -> bool:
        """Whether this other party is known by its key."""
        return self.is_on and party_id not in self.unsigned_from


def check_key_id(value: object, key: str) -> str:
    """Raises BadRequest."""
    if not isinstance(value, str) or not _KEY_ID.fullmatch(value):
        raise BadRequest(f"{key}: {shown(value)} is not the id of a key, 64 hex digits; flow key query shows it")
    return value
