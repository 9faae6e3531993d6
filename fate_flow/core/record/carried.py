"""What a channel of the exchange has carried at one party: one topic between two seats of a task, in one direction."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from operator import attrgetter

from fate_flow.core.model.spec import Party

NOT_KEPT = bytes(32)
"""The digest of a channel that was not followed from its first chunk on."""


class Direction(StrEnum):
    RECEIVED = "received"        # workers of the other seat have sent, and this server has stored it
    SENT = "sent"                # the server of the other seat has confirmed it


@dataclass(frozen=True)
class ChannelCount:
    """What one channel has carried. `digest`: of its chunks, in order (`digest_after`); NOT_KEPT if unknown. `messages`
    and `size` say nothing unless `is_complete`."""

    direction: Direction
    other: Party
    topic: str
    chunks: int
    messages: int                # that have ended
    size: int                    # bytes
    digest: bytes = NOT_KEPT

    @property
    def is_complete(self) -> bool:
        """Whether all its chunks were counted. Those that were sent are counted for the record alone: not before it was
        switched on, nor if the server was killed meanwhile."""
        return self.direction is Direction.RECEIVED or self.digest != NOT_KEPT

    def as_json(self) -> str:
        """Return it as JSON, the same at the sender and at the receiver of a channel whose digest both know."""
        carried = {"messages": self.messages, "bytes": self.size} if self.is_complete else {}
        known = "" if self.digest == NOT_KEPT else self.digest.hex()
        said = {"topic": self.topic, "chunks": self.chunks, **carried, "sha256": known}
        return json.dumps(said, sort_keys=True, separators=(",", ":"))


MOST_LISTED = 200


@dataclass(frozen=True)
class SeatCount:
    """What all channels of one seat have carried in one direction. `partial`: how many channels were not counted from
    the first chunk on; `messages` and `size` are those of the others. `listed`: those of them that are among the 200
    largest of all seats and directions, in the order of their topics; `digest`: of all of them (`digest_of_all`)."""

    direction: Direction
    other: Party
    channels: int
    partial: int
    messages: int
    size: int
    digest: bytes
    listed: tuple[ChannelCount, ...]


def counts_of_seats(carried: Iterable[ChannelCount]) -> Iterator[SeatCount]:
    """Yield what was carried by seat and direction. How many channels there are is up to other parties, so only a
    digest is kept of most."""
    totals = dict[_Seat, list[int]]()           # channels, partial ones, messages and bytes
    digests = dict[_Seat, list[bytes]]()
    largest = list[tuple[int, int, ChannelCount]]()
    for number, one in enumerate(carried):
        total = totals.setdefault(_seat(one), [0, 0, 0, 0])
        for at, more in enumerate((1, 0, one.messages, one.size) if one.is_complete else (1, 1, 0, 0)):
            total[at] += more
        digests.setdefault(_seat(one), []).append(sha256(one.as_json().encode()).digest())
        keep = heapq.heappush if len(largest) < MOST_LISTED else heapq.heappushpop
        keep(largest, (one.size, -number, one))
    listed = sorted((one for _, _, one in largest), key=attrgetter("topic"))
    for seat, (channels, partial, messages, size) in sorted(totals.items()):
        direction, role, party_id = seat
        own = tuple(one for one in listed if _seat(one) == seat)
        digest = digest_of_all(digests[seat])
        yield SeatCount(direction, Party(role, party_id), channels, partial, messages, size, digest, own)


_Seat = tuple[Direction, str, str]


def _seat(one: ChannelCount) -> _Seat:
    return one.direction, one.other.role, one.other.party_id


def digest_of_all(digests: Iterable[bytes]) -> bytes:
    """Return the digest of channels: SHA-256 of the SHA-256 digests of their JSON, in ascending order."""
    return sha256(b"".join(sorted(digests))).digest()


def digest_after(digest: bytes, data: bytes, last: bool) -> bytes:
    """Return the digest of a channel after one more chunk: SHA-256 of the digest before (32 zero bytes for the first
    chunk), a byte that is 1 if a message ends with this chunk and else 0, and the content of the chunk."""
    found = sha256(digest + (b"\1" if last else b"\0"))
    found.update(data)
    return found.digest()
