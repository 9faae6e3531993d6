"""Whose a socket on loopback is, since every user of a machine can connect to, and listen at, any loopback address; and
whether its other end has hung up.

A socket of IPv6 can do both there as well, as gRPC's sockets do: it stands in the other table, with a mapped address.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_NOBODY = "0"                              # in place of an inode: not accepted yet, or closed
_CLOSE_WAIT = 8                            # a state of TCP: the other end has said that it sends no more
_MAPPED = "0000000000000000FFFF0000"       # ::ffff:0:0/96 in words of this machine, as the kernel prints it


def _lines() -> Iterator[list[str]]:
    for table in _TABLES:
        with suppress(FileNotFoundError):       # a kernel without IPv6
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                yield line.split()


def _in_tables(address: tuple[str, int]) -> tuple[str, ...]:
    host, port = f"{int.from_bytes(socket.inet_aton(address[0]), 'little'):08X}", f"{address[1]:04X}"
    return f"{host}:{port}", f"{_MAPPED}{host}:{port}"


def is_ours(peer: tuple[str, int], own: tuple[str, int]) -> bool:
    """Return whether the other end of a connection, `peer`, is a socket of the user of this process; `own` is the end
    of this process. Raises OSError."""
    local, remote = _in_tables(peer), _in_tables(own)
    return any(one[1] in local and one[2] in remote and int(one[7]) == os.getuid() for one in _lines())


def leads_to_ours(place: tuple[str, int], own: tuple[str, int]) -> bool:
    """Return whether a connection that was made to `place` leads to a process of this user; `own` is the end of this
    process. Raises OSError."""
    # First the listeners: a connection that none of these can still accept was accepted when it is looked at, and is
    # then that of who has accepted it, whoever listens by now.
    listening, me = _listening(place), os.getuid()
    local, remote = _in_tables(place), _in_tables(own)
    accepted = [int(one[7]) for one in _lines() if one[1] in local and one[2] in remote and one[9] != _NOBODY]
    return accepted == [me] if accepted else listening == {me}


def _listening(address: tuple[str, int]) -> set[int]:
    """Return which users listen where connections to this address come."""
    port = address[1]
    anywhere = (*_in_tables(("0.0.0.0", port)), f"{0:032X}:{port:04X}")  # noqa: S104  # these reach every address
    wanted = (*_in_tables(address), *anywhere)
    return {int(one[7]) for one in _lines() if one[3] == _LISTENS and one[1] in wanted}


def has_hung_up(sock: socket.socket | None) -> bool:
    """Return whether the process at the other end sends no more, be it read to the end or not."""
    with suppress(OSError):
        return sock is not None and sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSE_WAIT
    return False
