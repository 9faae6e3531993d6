"""Whose a socket on loopback is: every user of a machine can connect to, and listen at, any loopback address."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

_TABLE = Path("/proc/net/tcp")
_LISTENS = "0A"


def _lines() -> Iterator[list[str]]:
    for line in _TABLE.read_text(encoding="ascii").splitlines()[1:]:
        yield line.split()


def _in_table(address: tuple[str, int]) -> str:
    host = int.from_bytes(socket.inet_aton(address[0]), "little")
    return f"{host:08X}:{address[1]:04X}"


def is_ours(peer: tuple[str, int], own: tuple[str, int]) -> bool:
    """Return whether the other end of a connection, `peer`, is a socket of the user of this process; `own` is the end
    of this process. Raises OSError."""
    local, remote = _in_table(peer), _in_table(own)
    return any(one[1] == local and one[2] == remote and int(one[7]) == os.getuid() for one in _lines())


def foreign_listener(address: tuple[str, int]) -> bool:
    """Return whether another user listens here. Raises OSError."""
    wanted = (_in_table(address), _in_table(("0.0.0.0", address[1])))  # noqa: S104  # it reaches every address
    return any(one[3] == _LISTENS and one[1] in wanted and int(one[7]) != os.getuid() for one in _lines())
