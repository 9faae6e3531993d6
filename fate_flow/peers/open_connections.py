"""The open connections to servers that are recognised by their keys: each ends soon after its key has stopped counting.

Otherwise a request under way would go on, and a connection that is kept for the next request would stay open."""

from __future__ import annotations

import logging
import select
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

from fate_flow.core.model.errors import FlowError
from fate_flow.peers.tls import PeerKey

KeysOf = Callable[[str], tuple[PeerKey, ...] | None]
"""Returns the tls keys of a party that are valid now; None for a party without a key list. Raises FlowError."""

Watching = Callable[[], AbstractContextManager[None]]
"""Entered by the thread that watches, and left when no connection is open; it asks for keys several times a second."""

LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2


class OpenConnections:
    """Ends connections of other threads. Its own thread runs only while a connection is open."""

    def __init__(self, keys_of: KeysOf, watching: Watching = nullcontext) -> None:
        self._keys_of = keys_of
        self._watching = watching
        self._lock = threading.Lock()
        self._open: list[tuple[weakref.ref[ssl.SSLSocket], PeerKey]] = []
        self._is_watched = False

    def add(self, connection: ssl.SSLSocket, key: PeerKey) -> None:
        """Watch a connection to the server with this key, until whoever uses it closes it."""
        with self._lock:
            self._open.append((weakref.ref(connection), key))
            if not self._is_watched:
                self._is_watched = True
                threading.Thread(target=self._watch, name="keys of connections", daemon=True).start()

    def _watch(self) -> None:
        try:
            with self._watching():
                while self._end_invalid():
                    time.sleep(_LOOK_SECONDS)
        except BaseException:
            self._is_watched = False
            raise

    def _end_invalid(self) -> bool:
        """End the connections whose key is no longer valid; return whether one is left to watch."""
        with self._lock:
            self._open = [(one, key) for one, key in self._open if _is_open(one())]
            self._is_watched = bool(self._open)
            watched = list(self._open)
        for party_id in {key.party_id for _, key in watched}:
            try:
                valid = self._keys_of(party_id) or ()
            except FlowError:          # without the database the keys that are known stay valid
                continue
            for one, key in watched:
                if key.party_id == party_id and key not in valid:
                    LOG.info("the key of party %s is no longer valid: the connection to its server is ended", party_id)
                    _end(one())
        return bool(watched)


def _is_open(connection: ssl.SSLSocket | None) -> bool:
    """Return whether neither side has ended this connection."""
    if connection is None or connection.fileno() < 0:
        return False
    ended = select.poll()
    ended.register(connection.fileno(), select.POLLRDHUP)
    return not ended.poll(0)


def _end(connection: ssl.SSLSocket | None) -> None:
    """End a connection under the hands of the thread that uses it; that thread closes it.

    `SSLSocket.shutdown` would let that thread go on without TLS for a moment."""
    if connection is not None:
        with suppress(OSError):        # it has ended meanwhile
            socket.socket.shutdown(connection, socket.SHUT_RDWR)
