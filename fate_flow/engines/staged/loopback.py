"""The worker's own requests on another host: from a port of loopback there to its server, over TLS with the pin.

So a worker, whatever its program is, talks plain HTTP to a port of its own machine, as it does beside its server. Its
requests have its token; whoever has none is refused by the server.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

from fate_flow.engines.staged.pinned import ServerAt, WrongServer

_PIECE = 64 * 1024
_IDLE_SECONDS = 90.0             # the server keeps an idle connection for less
_CONNECTIONS = 128


class Loopback:
    """Listens on loopback, and carries each connection to the server in a thread of its own."""

    def __init__(self, server: ServerAt, note: Callable[[str], None]) -> None:
        self._server = server
        self._note = note
        self._places = threading.BoundedSemaphore(_CONNECTIONS)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_CONNECTIONS)
        self.port: int = self._listener.getsockname()[1]

    def begin(self) -> None:
        threading.Thread(target=self._accept, name="loopback", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return                                  # closed
            self._places.acquire()
            threading.Thread(target=self._carry, args=(sock,), name="carry", daemon=True).start()

    def _carry(self, sock: socket.socket) -> None:
        try:
            with sock, self._server.connect() as tls:
                _pump(sock, tls)
        except WrongServer as error:
            self._note(str(error))
        except OSError:
            pass                                        # the worker sees a lost connection, and tries again
        finally:
            self._places.release()


def _pump(sock: socket.socket, tls: ssl.SSLSocket) -> None:
    """Carry bytes in both directions until either side ends."""
    while True:
        ready = [tls] if tls.pending() else select.select([sock, tls], [], [], _IDLE_SECONDS)[0]
        if not ready:
            return
        for one in ready:
            other = tls if one is sock else sock
            data = one.recv(_PIECE)
            if not data:
                return
            other.sendall(data)
