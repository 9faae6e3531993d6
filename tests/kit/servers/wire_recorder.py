"""A place between two servers where every byte that they exchange is seen."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

OF_REQUESTS = (b"SRC-PARTY-ID", b"HTTP/1.1", b"application/json", b"retcode", b"fate_flow party")
"""What requests, answers and certificates between parties contain."""


class WireRecorder:
    """Passes connections on to a port of this machine, and keeps what passes in either direction."""

    def __init__(self, target: int = 0) -> None:
        self.target = target             # the port to pass on to
        self.seen: list[bytes] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def readable(self, *texts: str | bytes) -> list[bytes]:
        """Return which of these texts have passed as they are, and which of those that every request has."""
        with self._lock:
            seen = b"".join(self.seen)
        wanted = (one.encode() if isinstance(one, str) else one for one in (*texts, *OF_REQUESTS))
        return [one for one in wanted if one in seen]

    def count(self) -> int:
        """Return how many bytes have passed."""
        with self._lock:
            return sum(map(len, self.seen))

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), timeout=60)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    self.seen.append(data)
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
