"""Who may connect: whoever has a key of another party that is valid now, and strangers while they may join; and to whom
this party keeps connections open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fate_flow.peers.tls import PeerKey


@dataclass(frozen=True)
class Peers:
    """The keys that are valid, under a number that is another one for other values."""

    version: int = 0
    keys: tuple[PeerKey, ...] = ()
    may_join: bool = False           # whether an invitation is open
    to_dial: tuple[tuple[str, str], ...] = ()        # party ids and https addresses, if this party has no port


class PeerSource(Protocol):
    """Where the gateway gets its peers from. It is asked several times a second, in a thread, and may fail."""

    def read(self, known: Peers) -> Peers:
        """Return the peers of this moment; `known` itself if nothing has changed."""
        ...
