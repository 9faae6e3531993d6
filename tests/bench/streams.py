"""(10) Streams between workers: bytes a second through two gateways, without and with TLS, over one and many streams.

A process stands for each gateway, and this one for both workers. Nothing here asks an application, so the numbers are
those of the bytes alone. Over a dialed connection, the gateway that opens the stream is the server of the TLS.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from fate_flow.core.streams.stream import Stream
from fate_flow.gateway.tls_stream import TlsStream
from fate_flow.peers.tls import client_context, server_context
from fate_flow.streams.ends import LineEnd, WorkerEnd
from tests.bench.cluster import BenchFailed
from tests.kit.peers.handshakes import TlsParty, tls_party

_PIECE = b"\x5a" * (256 * 1024)
_MANY = 100
MEGA = 1_000_000


@dataclass(frozen=True)
class Line:
    """What is between the two gateways. `parties`: without TLS, None."""

    parties: tuple[TlsParty, TlsParty] | None
    is_dialed: bool


def measure(megabytes: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, over_tls, dialed in (("without TLS", False, False), ("with TLS", True, False), ("dialed", True, True)):
        for streams in (1, _MANY):
            found[f"{name}, {streams} at once"] = carried(megabytes, streams, over_tls, dialed)
    return {"streams": found}


def carried(megabytes: int, streams: int, over_tls: bool, is_dialed: bool) -> dict[str, float]:
    """Send so much over so many streams altogether; return the rate, and what the two gateways used."""
    ends = (tls_party("9999", clock=_now), tls_party("10000", clock=_now)) if over_tls else None
    line = Line(ends, is_dialed)
    with ExitStack() as stack:
        near, far, sink = (stack.enter_context(_listener()) for _ in range(3))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        children = [
            _forked(lambda: _gateway(near, far.getsockname(), line, calls=True)),
            _forked(lambda: _gateway(far, sink.getsockname(), line, calls=False)),
        ]
        begun = time.monotonic()
        try:
            each = megabytes * MEGA // streams
            threads = [threading.Thread(target=_send, args=(near.getsockname(), each)) for _ in range(streams)]
            taken = [0] * streams
            threads += [threading.Thread(target=_take, args=(sink, taken, number)) for number in range(streams)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            seconds = time.monotonic() - begun
        finally:
            for pid in children:
                os.kill(pid, 15)
            for pid in children:
                os.waitpid(pid, 0)
        if sum(taken) != each * streams:
            raise BenchFailed(f"{sum(taken)} of {each * streams} bytes arrived")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        total = sum(taken)
        return {"mb_per_s": round(total / MEGA / seconds, 1), "gateways_cpu_s_per_gb": round(used * 1e9 / total, 2)}


def _now() -> int:
    return time.time_ns() // MEGA


@contextmanager
def _listener() -> Any:
    with socket.create_server(("127.0.0.1", 0), backlog=_MANY) as sock:
        yield sock


def _send(place: tuple[str, int], count: int) -> None:
    with socket.create_connection(place) as sock:
        while count:
            piece = _PIECE[:count]
            sock.sendall(piece)
            count -= len(piece)
        sock.shutdown(socket.SHUT_WR)
        sock.recv(1)


def _take(listener: socket.socket, taken: list[int], number: int) -> None:
    sock, _ = listener.accept()
    with sock:
        buffer = bytearray(len(_PIECE))
        while count := sock.recv_into(buffer):
            taken[number] += count


def _forked(work: Callable[[], object]) -> int:
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(1)
    return pid


def _gateway(listener: socket.socket, to: tuple[str, int], line: Line, *, calls: bool) -> None:
    asyncio.run(_serve(listener, to, line, calls))


async def _serve(listener: socket.socket, to: tuple[str, int], line: Line, calls: bool) -> None:
    """Carry each connection further; `calls`: it is one of a worker, and the next one leads to a gateway."""
    loop, tasks = asyncio.get_running_loop(), set()
    listener.setblocking(False)
    while True:
        sock, _ = await loop.sock_accept(listener)
        task = asyncio.create_task(_carry(sock, to, line, calls))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def _carry(near: socket.socket, to: tuple[str, int], between: Line, calls: bool) -> None:
    loop = asyncio.get_running_loop()
    far = socket.socket()
    for sock in (near, far):
        sock.setblocking(False)
    await loop.sock_connect(far, to)
    worker_sock, line_sock = (near, far) if calls else (far, near)
    parts = None
    if between.parties is not None:
        own, peer = between.parties if calls else between.parties[::-1]
        is_client = calls is not between.is_dialed
        make = client_context if is_client else server_context
        tls = TlsStream(line_sock, make(own.own, [peer.peer]), is_client=is_client)
        await tls.handshake()
        parts = tls.tls
    _, line = await loop.connect_accepted_socket(lambda: LineEnd(parts, loop.time), line_sock)
    stream = line.stream = Stream(line, loop.time())
    _, worker = await loop.connect_accepted_socket(WorkerEnd, worker_sock)
    worker.stream = stream
    stream.connected(worker)
    line.read_decrypted()
    line.resume_reading()
    await asyncio.wait((worker.over, line.over))
