"""Requests to a party that has no port of its own: it dials this server's gateway, and keeps connections open there.

The address of such a party is `dialed://<party id>`. A process that sends a request to it connects to a Unix socket of
the gateway, sends the party id as one line, and gets one line: what the TLS connection is, or why there is none. After
the former, the socket is a connection to the party's server: the gateway carries its bytes over mutual TLS.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from fate_flow.peers.pinned import SeenTls

LONGEST_LINE = 200
_WANTED = re.compile(rb"([0-9]{1,10})\n")
_OPEN = re.compile(rb"open (TLSv1\.[0-9]) ([0-9a-f]{64})\n")


def open_line(seen: SeenTls) -> bytes:
    """Return the line that a process gets with a connection."""
    return f"open {seen.version} {seen.key_id}\n".encode()


def read_wanted(line: bytes) -> str:
    """Return the party id in the first line of a process. Raises ValueError."""
    found = _WANTED.fullmatch(line)
    if found is None:
        raise ValueError("no party id")
    return found[1].decode()


def use_connection(sock: socket.socket, path: Path, party_id: str) -> SeenTls:
    """Make a Unix socket a connection to this party; return what its TLS is. Raises OSError, which says why that cannot
    be."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sock.connect(f"/proc/self/fd/{folder}/{path.name}")       # a path of a socket has at most 107 bytes
    finally:
        os.close(folder)
    sock.sendall(f"{party_id}\n".encode())
    line = b""
    while not line.endswith(b"\n") and len(line) < LONGEST_LINE:
        more = sock.recv(1)                   # no byte of what follows the line
        if not more:
            raise ConnectionResetError("the gateway has ended the connection")
        line += more
    found = _OPEN.fullmatch(line)
    if found is None:
        raise NotConnected(line.decode(errors="replace").strip())
    return SeenTls(found[1].decode(), found[2].decode())


class NotConnected(ConnectionError):
    """The party keeps no connection open now."""
