"""Whose a socket on loopback is, since every user of a machine can connect to, and listen at, any loopback address; and
whether its other end has hung up.

The kernel is asked for one socket at a time (sock_diag(7)), in microseconds. Its tables in /proc take 0.2 s
with 50,000 sockets, and a socket stands there twice, or is left out, if others come and go meanwhile. They are read
where the kernel cannot be asked: without its module tcp_diag, or in a sandbox.

A socket of IPv6 can connect and listen there as well, as gRPC's sockets do. The kernel finds it by the address of IPv4;
in the tables it stands in the other one, with a mapped address.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

Place = tuple[str, int]

_ANYWHERE = "0.0.0.0"  # noqa: S104         # sockets that listen there are reached at every address
_LISTENS = 10                              # a state of TCP
_CLOSE_WAIT = 8                            # a state of TCP: the other end has said that it sends no more
_NOBODY = 0                                # in place of an inode: not accepted yet, or closed

_SOCK_DIAG = 4                             # NETLINK_SOCK_DIAG
_BY_FAMILY = 20                            # SOCK_DIAG_BY_FAMILY: of the request, and of an answer with a socket
_HEAD = struct.Struct("=IHHII")            # struct nlmsghdr
_REQUEST = struct.Struct("=BBBxI")         # struct inet_diag_req_v2 until its socket
_SOCKET = struct.Struct("!HH4s12x4s12x4x8s")   # struct inet_diag_sockid: ports, addresses, no interface, any cookie
_FOUND = struct.Struct("=xB2x48x12xII")    # struct inet_diag_msg: the state, the user, the inode
_ANSWER_BYTES = 4096

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_MAPPED = "0000000000000000FFFF0000"       # ::ffff:0:0/96 in words of this machine, as the kernel prints it


@dataclass(frozen=True)
class _Socket:
    state: int
    uid: int
    inode: int


_Find = Callable[[Place, Place | None], set[_Socket]]
"""Finds sockets by their own address and that of their other end; those that listen have no other end, None."""


def is_ours(peer: Place, own: Place) -> bool:
    """Return whether the other end of a connection, `peer`, is a socket of the user of this process; `own` is the end
    of this process. Raises OSError."""
    return any(one.uid == os.getuid() for one in _finder(peer, own)(peer, own))


def leads_to_ours(place: Place, own: Place) -> bool:
    """Return whether a connection that was made to `place` leads to a process of this user; `own` is the end of this
    process. Raises OSError."""
    # First the listeners: a connection that none of these can still accept was accepted when it is looked at, and is
    # then that of who has accepted it, whoever listens by now.
    find, me = _finder(place, own), os.getuid()
    listening = {one.uid for at in (place, (_ANYWHERE, place[1])) for one in find(at, None)}
    accepted = {one.uid for one in find(place, own) if one.inode != _NOBODY}
    return accepted == {me} if accepted else listening == {me}


def _finder(peer: Place, own: Place) -> _Find:
    """Return what finds sockets here: the kernel, if it knows the own end of this connection."""
    return _asked if _asked(own, peer) else _read


def _asked(at: Place, to: Place | None) -> set[_Socket]:
    """Ask the kernel; nothing if it knows no such socket, or cannot be asked."""
    here, there = (_in_message(one) for one in (at, to or (_ANYWHERE, 0)))
    socket_id = _SOCKET.pack(here[0], there[0], here[1], there[1], b"\xff" * 8)
    request = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + socket_id
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            kernel.send(_HEAD.pack(_HEAD.size + len(request), _BY_FAMILY, 1, 1, 0) + request)
            answer = kernel.recv(_ANSWER_BYTES)
    except OSError:
        return set()
    if _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return set()
    found = _Socket(*_FOUND.unpack_from(answer, _HEAD.size))
    # Where no connection is, the kernel answers with the socket that would accept it.
    return {found} if (found.state == _LISTENS) == (to is None) else set()


def _in_message(place: Place) -> tuple[int, bytes]:
    return place[1], socket.inet_aton(place[0])


def _read(at: Place, to: Place | None) -> set[_Socket]:
    """Look into the tables."""
    local, remote = _in_tables(at), None if to is None else _in_tables(to)
    if at[0] == _ANYWHERE:
        local += (f"{0:032X}:{at[1]:04X}",)
    return {
        found for one in _lines() if one[1] in local and (remote is None or one[2] in remote)
        for found in (_Socket(int(one[3], 16), int(one[7]), int(one[9])),) if (found.state == _LISTENS) == (to is None)
    }  # fmt: skip


def _lines() -> Iterator[list[str]]:
    for table in _TABLES:
        with suppress(FileNotFoundError):       # a kernel without IPv6
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                yield line.split()


def _in_tables(place: Place) -> tuple[str, ...]:
    host, port = f"{int.from_bytes(socket.inet_aton(place[0]), 'little'):08X}", f"{place[1]:04X}"
    return f"{host}:{port}", f"{_MAPPED}{host}:{port}"


def has_hung_up(sock: socket.socket | None) -> bool:
    """Return whether the process at the other end sends no more, be it read to the end or not."""
    with suppress(OSError):
        return sock is not None and sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _CLOSE_WAIT
    return False
