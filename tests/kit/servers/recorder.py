"""What crosses between two servers, byte by byte: a TCP proxy that writes down both directions."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress
from urllib.parse import urlsplit


class Recorder:
    """Listens on a free port of this machine and passes on to a server whose address may be told later."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._target = ("127.0.0.1", 0)
        self._streams: list[bytearray] = []
        self._sockets: set[socket.socket] = {self._listener}
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def pass_on_to(self, url: str) -> None:
        address = urlsplit(url)
        self._target = (address.hostname or "", address.port or 80)

    def recorded(self) -> bytes:
        """Everything so far, connection by connection, so that nothing hides where the network cut it."""
        return b"\n".join(bytes(stream) for stream in self._streams)

    def close(self) -> None:
        for one in list(self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:              # it is not up yet, or no more
                    client.close()
                    continue
                self._sockets |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        stream = bytearray()
        self._streams.append(stream)
        with suppress(OSError), closing(sink):
            while data := source.recv(1 << 16):
                stream += data
                sink.sendall(data)
