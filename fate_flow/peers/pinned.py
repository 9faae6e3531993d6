"""Which TLS context a request to another party uses: one that trusts the keys of its key list and nothing else."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

from fate_flow.core.model.errors import BadSettings
from fate_flow.peers.open_connections import KeysOf, OpenConnections, Watching
from fate_flow.peers.tls import Clock, Leaf, NotAPeer, OwnTls, PeerKey, client_context, peer_of


@dataclass(frozen=True)
class SeenTls:
    """What a connection to a party was, as seen on it."""

    version: str
    key_id: str                      # of the tls key of the party


class Recognised(Protocol):
    """How a server is recognised: by the connections of this context, if `check` does not raise."""

    @property
    def party_id(self) -> str: ...

    @property
    def context(self) -> ssl.SSLContext: ...

    def check(self, connection: ssl.SSLSocket) -> None:
        """Check the certificate that the server has shown on this connection. Raises NotAPeer."""
        ...


Reached = Callable[[str, SeenTls], None]
"""Called with a party id when its server has answered, and with what its connection was."""


class Recognises(Protocol):
    """Whoever knows how the servers of parties are recognised."""

    def has_dialed(self, party_id: str, seen: SeenTls, /) -> None:
        """Note what a connection is that a party has opened for our requests."""
        ...

    def has_answered(self, party_id: str, /) -> None:
        """Note that the server of a party has answered a request."""
        ...

    def of(self, party_id: str, /) -> Recognised | None:
        """Return the same value until keys change; None for a party that is recognised in another way.

        Raises NotAPeer if no connection to the party can be good now; FlowError if its keys cannot be read."""
        ...


@dataclass(frozen=True, eq=False)
class Pinned:
    """How the server of one party is recognised, and what this party shows it."""

    party_id: str
    context: ssl.SSLContext
    _keys: tuple[PeerKey, ...]
    _leaf: Leaf
    _clock: Clock
    _seen: dict[str, SeenTls]
    _open: OpenConnections

    def check(self, connection: ssl.SSLSocket) -> None:
        """Check the certificate that the server has shown on this connection, and end the connection once the key
        behind it is no longer valid. Raises NotAPeer."""
        peer = peer_of(connection.getpeercert(binary_form=True), self._keys, self._clock())
        self._seen[self.party_id] = SeenTls(connection.version() or "", peer.key_id)
        self._open.add(connection, peer)

    def is_of(self, keys: tuple[PeerKey, ...], leaf: Leaf) -> bool:
        return self._keys == keys and self._leaf is leaf


class PinnedParties:
    """The contexts for all parties; may be shared by threads."""

    def __init__(
        self, own: Callable[[], OwnTls], keys_of: KeysOf, clock: Clock, reached: Reached = lambda *_: None,
        watching: Watching = nullcontext,
    ) -> None:  # fmt: skip
        """`own` reads the tls key of this party when it is first needed, and may raise BadSettings. `watching` is
        around the work of the thread that looks at open connections."""
        self._reached = reached
        self._read_own = own
        self._own: OwnTls | None = None
        self._keys_of = keys_of
        self._clock = clock
        self._lock = threading.Lock()
        self._made: dict[str, Pinned] = {}
        self._seen: dict[str, SeenTls] = {}
        self._open = OpenConnections(keys_of, watching)

    def of(self, party_id: str) -> Pinned | None:
        """Return the same value until keys or the own leaf change; None for a party that has no key list here.

        Raises NotAPeer if no connection to the party can be good now; FlowError if its keys cannot be read."""
        keys = self._keys_of(party_id)
        if keys is None:
            return None
        if not keys:
            raise NotAPeer(f"no tls key of party {party_id} is valid here (flow key save --list)")
        with self._lock:
            leaf = self._own_tls().leaf()
            made = self._made.get(party_id)
            if made is None or not made.is_of(keys, leaf):
                context = client_context(self._own_tls(), keys)
                made = Pinned(party_id, context, keys, leaf, self._clock, self._seen, self._open)
                self._made[party_id] = made
            return made

    def has_dialed(self, party_id: str, seen: SeenTls) -> None:
        self._seen[party_id] = seen

    def has_answered(self, party_id: str) -> None:
        seen = self._seen.get(party_id)
        if seen is not None:
            self._reached(party_id, seen)

    def seen(self, party_id: str) -> SeenTls | None:
        """Return what the last connection to a party was; None if there was none yet."""
        return self._seen.get(party_id)

    def _own_tls(self) -> OwnTls:
        if self._own is None:
            try:
                self._own = self._read_own()
            except BadSettings as error:
                raise NotAPeer(error.message) from error
        return self._own
