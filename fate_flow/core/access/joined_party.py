"""What this party keeps of another one that has joined, besides its keys (`key_list.py`)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from fate_flow.core.access.fingerprint import fingerprint_of
from fate_flow.core.access.key_ends import ending_soon
from fate_flow.core.access.key_list import TLS, KeyState, PartyKeys, key_id_of, read_key_list

FROM, TO = "from", "to"
DIRECTIONS = (FROM, TO)
"""Of a request: from the other party, or to it."""


@dataclass(frozen=True)
class Contact:
    """A request over TLS that was answered, and what was seen on its connection."""

    party_id: str
    direction: str                   # one of DIRECTIONS
    at: int                          # milliseconds since 1970
    tls: str                         # version
    key_id: str                      # of the tls key of the party

DIALED = "dialed://"


def dialed_url(party_id: str) -> str:
    """Return the address of a party that has no port: it keeps connections open here, for requests to it."""
    return DIALED + party_id


@dataclass(frozen=True)
class JoinedParty:
    """A party that has accepted an invitation, or whose invitation was accepted here."""

    party_id: str
    address: str                     # https URL of its gateway; empty if it has no port, and dials this party
    phrase: str                      # six words, the same at both parties
    joined_at: int                   # milliseconds since 1970
    joined_by: str                   # who invited it, or joined it
    clock_offset: int                # milliseconds by which its clock was ahead of ours then


def described(
    keys: PartyKeys, joined: JoinedParty | None, contacts: Collection[Contact], now: int
) -> dict[str, Any]:
    """Return what operators see of another party: its keys, how this party regards it, and what both have agreed on.

    Times are milliseconds since 1970. `until`: when the first of its keys ends that have an end; None: none has."""
    listed = read_key_list(keys.signed.content)
    ends = [key.until for key in listed.keys if key.until is not None and key.is_valid(now)]
    found = {
        "state": keys.state.value, "since": keys.state_at, "by": keys.state_by, "list_number": keys.number,
        "fingerprint": fingerprint_of(keys.root_id),
        "tls_keys": [key_id_of(pem) for pem in keys.valid(TLS, now)],
        "until": min(ends, default=None),
        "warnings": list(ending_soon(listed, "", now)) if keys.state is KeyState.JOINED else [],
        "contacts": {one.direction: {"at": one.at, "tls": one.tls, "key_id": one.key_id} for one in contacts},
        "address": "", "phrase": "", "clock_offset": None,
    }  # fmt: skip
    if joined is None or keys.state is not KeyState.JOINED:
        return found
    return {**found, "address": joined.address, "phrase": joined.phrase, "clock_offset": joined.clock_offset}
