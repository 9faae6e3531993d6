"""What this party keeps of another one that has joined, besides its keys (`key_list.py`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JoinedParty:
    """A party that has accepted an invitation, or whose invitation was accepted here."""

    party_id: str
    address: str                     # https URL of its gateway
    phrase: str                      # six words, the same at both parties
    joined_at: int                   # milliseconds since 1970
    joined_by: str                   # who invited it, or joined it
    clock_offset: int                # milliseconds by which its clock was ahead of ours then
