"""What a channel of the exchange has carried at one party: one topic between two seats of a task, in one direction."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from fate_flow.core.model.spec import Party

NOT_KEPT = bytes(32)
"""The digest of a channel that was not followed from its first chunk on."""


class Direction(StrEnum):
    RECEIVED = "received"        # workers of the other seat have sent, and this server has stored it
    SENT = "sent"                # the server of the other seat has confirmed it


@dataclass(frozen=True)
class ChannelCount:
    """What one channel has carried. `digest`: of its chunks, in order (`digest_after`); NOT_KEPT if unknown."""

    direction: Direction
    other: Party
    topic: str
    chunks: int
    messages: int                # that have ended
    size: int                    # bytes
    digest: bytes = NOT_KEPT


def digest_after(digest: bytes, data: bytes, last: bool) -> bytes:
    """Return the digest of a channel after one more chunk: SHA-256 of the digest before (32 zero bytes for the first
    chunk), a byte that is 1 if a message ends with this chunk and else 0, and the content of the chunk."""
    found = sha256(digest + (b"\1" if last else b"\0"))
    found.update(data)
    return found.digest()
