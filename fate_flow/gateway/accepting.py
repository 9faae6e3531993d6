"""How the gateway takes connections, whatever listener they come to, and opens those to other servers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

_PAUSE_SECONDS = 0.1             # after an accept that failed, for example for lack of descriptors


async def accepted(
    listener: socket.socket, note: Callable[[str, str], None], failure: str = "no connection can be accepted"
) -> tuple[socket.socket, str]:
    """Return the next connection, and the address of who has made it; the address is empty at a Unix socket.

    `note` gets an empty address, and `failure` with the reason, each time that none can be accepted."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            sock, found = await loop.sock_accept(listener)
        except OSError as error:
            note("", f"{failure}: {error.strerror}")
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            sock.setblocking(False)
            return sock, found[0] if isinstance(found, tuple) else ""


def set_options(sock: socket.socket) -> None:
    """Let small pieces leave at once, and find out when the other side has vanished."""
    with suppress(OSError):          # it is no TCP socket in tests
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


async def line_from(sock: socket.socket, longest: int, at_once: int) -> bytes:
    """Return what a process of this server sends, up to the end of a line. `at_once`: bytes of a read; 1 leaves what
    comes after the line to others. Raises OSError; ValueError if there is no line of this length."""
    loop, line = asyncio.get_running_loop(), b""
    while not line.endswith(b"\n"):
        more = await loop.sock_recv(sock, at_once)
        if not more or len(line) > longest:
            raise ValueError("no line")
        line += more
    return line


async def connected(host: str, port: int, seconds: float) -> tuple[socket.socket, str]:
    """Return a TCP connection, and the address to which it leads. Raises OSError if there is none in time."""
    loop = asyncio.get_running_loop()
    failure: OSError = OSError("the name of its host has no address")
    async with asyncio.timeout(seconds):
        for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, address)
                set_options(sock)
                return sock, str(address[0])
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
    raise failure
