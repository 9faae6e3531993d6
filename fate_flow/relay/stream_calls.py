"""Asks the own gateway whether streams could be opened to other parties: it calls their gateways, as for a stream.

A process connects to the Unix socket of the gateway, sends one line, and gets one line.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from fate_flow.core.model.spec import Party

LOOK = b"look\n"
"""What a process sends that has changed the folder of streams (`stream_sessions.py`)."""
MOST_CALLS = 1000
LONGEST_LINE = 256 * 1024
_SECONDS = 6.0                # more than the gateway takes for its calls
_NO_GATEWAY = "the gateway of its own server does not answer"

Seats = tuple[Party, Party]
"""Whose worker connects, and to whose."""


def ask_gateway(socket_at: Path, line: bytes, seconds: float) -> bytes:
    """Send a line to the gateway, and return the one that it answers. Raises OSError."""
    folder = os.open(socket_at.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(seconds)
            sock.connect(f"/proc/self/fd/{folder}/{socket_at.name}")          # a path of a socket has 107 bytes
            sock.sendall(line)
            with sock.makefile("rb") as answer:
                return answer.readline(LONGEST_LINE)
    finally:
        os.close(folder)


class GatewayCalls:
    """Calls the gateways of other parties, through the own one."""

    def __init__(self, socket_at: Path) -> None:
        self._socket_at = socket_at

    def __call__(self, pairs: Sequence[Seats]) -> list[str]:
        """Return for each pair why no stream could be opened now; empty if one could."""
        asked = pairs[:MOST_CALLS]
        try:
            found = json.loads(ask_gateway(self._socket_at, call_line(asked), _SECONDS))
        except (OSError, ValueError):
            return [_NO_GATEWAY] * len(pairs)
        return [str(one) for one in found] + [""] * (len(pairs) - len(asked))


def call_line(pairs: Sequence[Seats]) -> bytes:
    asked = [[caller.role, caller.party_id, to.role, to.party_id] for caller, to in pairs]
    return json.dumps(asked).encode() + b"\n"


def read_call(line: bytes) -> list[Seats]:
    """Return the pairs that a process asks for. Raises ValueError."""
    return [(Party(*one[:2]), Party(*one[2:])) for one in json.loads(line)[:MOST_CALLS]]
