"""TLS for workers of this party that run on other hosts, with the deadlines and limits of the gateway.

A worker knows the server by the digest of its key and shows no certificate itself: the application checks the token of
each request. So a caller is an address until then, and what one address may take is limited. Who shows no token at all
is refused before a body is read. Behind this listener is
the application of the workers' own port, which has no other routes.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.gateway.accepting import accepted, set_options
from fate_flow.gateway.application import Application
from fate_flow.gateway.limits import MIB, Limits
from fate_flow.gateway.origins import origin_of
from fate_flow.gateway.peer_connection import Knows, PeerConnection, Setting, known_to_all
from fate_flow.gateway.refusals import Count, RefusalLog, uncounted
from fate_flow.gateway.shares import Shares
from fate_flow.gateway.tls_stream import TlsStream
from fate_flow.gateway.unproved import Unproved

LOG = logging.getLogger(__name__)

_TICK_SECONDS = 1.0


def limits_of_workers(threads: int, body_bytes: int) -> Limits:
    """Return the limits beside a workers' application with so many threads.

    The hosts of a cluster often have one address together, so one address may have nearly all. Some threads stay free
    for the workers of this machine."""
    base = Limits()
    return replace(
        base, body_bytes=body_bytes, connections_of_address=384, connections_of_party=384, requests_of_party=256,
        handshakes_of_address=64, application_requests=max(2, threads * 3 // 4),
        application_requests_of_party=max(2, threads * 3 // 4), stored_bytes=512 * MIB, memory_bytes=64 * 1024,
    )  # fmt: skip


@dataclass
class _Open:
    """One connection. `requests` is None until its handshake is over."""

    sock: socket.socket
    origin: str
    requests: PeerConnection | None = None

    @property
    def is_busy(self) -> bool:
        return self.requests is not None and self.requests.has_request

    @property
    def is_complete(self) -> bool:
        """Whether a request was read completely. Only the application knows whether its token is one."""
        return self.requests is not None and self.requests.is_complete


class WorkerListener:
    """Serves the connections of one listener. `asked`: the application, at a socket in `folder`."""

    def __init__(
        self, listener: socket.socket, context: ssl.SSLContext, own_party_id: str, asked: Application, folder: Path,
        limits: Limits, count: Count = uncounted, knows: Knows = known_to_all,
    ) -> None:  # fmt: skip
        self._listener = listener
        self._context = context
        self._limits = limits
        self._refusals = RefusalLog(asyncio.get_running_loop().time)
        note = self._refusals.note
        self._setting = Setting(own_party_id, "", limits, Shares(limits), asked, folder, note, count=count, knows=knows)
        self._open: dict[asyncio.Task[None], _Open] = {}           # the oldest one first
        self._freed = asyncio.Event()

    async def run(self) -> None:
        """Serve until this task is canceled."""
        ticks = asyncio.create_task(self._tick())
        try:
            while True:
                await self._space()
                self._begin(*await accepted(self._listener, self._refusals.note))
        finally:
            ticks.cancel()
            self._listener.close()
            await self._end()
            self._refusals.finish()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._refusals.tick()

    async def _space(self) -> None:
        """Wait until one more connection fits. If there are too many, the oldest one without a complete request is
        ended: an honest request comes with its connection, so the honest ones are left."""
        while len(self._open) >= self._limits.connections:
            self._freed.clear()
            self._end_oldest(self._open)
            await self._freed.wait()

    def _end_oldest(self, among: Iterable[asyncio.Task[None]]) -> bool:
        """End the first of these without a complete request; return whether there was one."""
        for task in among:
            one = self._open[task]
            if not one.is_complete and not task.cancelling():
                task.cancel()
                self._setting.count(Cause.CONNECTIONS, one.origin, "", 0)
                return True
        return False

    def _begin(self, sock: socket.socket, address: str) -> None:
        origin = origin_of(address)
        of_address = [task for task, one in self._open.items() if one.origin == origin and not task.cancelling()]
        handshakes = sum(self._open[task].requests is None for task in of_address)
        limits = self._limits
        is_full = len(of_address) >= limits.connections_of_address
        if handshakes >= limits.handshakes_of_address or (is_full and not self._end_oldest(of_address)):
            text = f"this address has {len(of_address)} open connections, {handshakes} of them new"
            self._refusals.note(address, text)
            self._setting.count(Cause.CONNECTIONS, origin, "", 0)
            sock.close()
            return
        set_options(sock)
        one = _Open(sock, origin)
        task = asyncio.create_task(self._serve(one, address))
        self._open[task] = one
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._open.pop(task).sock.close()          # also if it was canceled before it began
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a connection of a worker failed", exc_info=error)

    async def _serve(self, one: _Open, address: str) -> None:
        stream = TlsStream(one.sock, self._context)
        try:
            async with asyncio.timeout(self._limits.handshake_seconds):
                await stream.handshake()
        except OSError as error:                   # TimeoutError is one
            self._refusals.note(address, f"no TLS connection: {_text(error)}")
            self._setting.count(Cause.HANDSHAKE, one.origin, "", 0)
            return
        one.requests = PeerConnection(stream, Unproved.WORKER, address, self._setting)
        with suppress(OSError):                    # the connection has broken
            await one.requests.serve(None)

    async def _end(self) -> None:
        """Let the requests that are under way end; nothing else."""
        for task, one in list(self._open.items()):
            if one.requests is not None and one.is_busy:
                one.requests.is_last = True
            else:
                task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=self._limits.stop_seconds)
        left = list(self._open)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _text(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "the handshake has not ended in time"
    return getattr(error, "reason", None) or error.strerror or type(error).__name__


def serve_workers(
    listener: socket.socket, context: ssl.SSLContext, own_party_id: str, socket_at: Path, limits: Limits,
    ready: Callable[[], None], count: Count = uncounted, knows: Knows = known_to_all,
) -> None:  # fmt: skip
    """Serve workers of other hosts until SIGTERM, in a process of its own; `socket_at`: where the application is.

    A request that `knows` denies is refused before its body is read."""

    async def serve() -> None:
        listener.setblocking(False)
        application = Application(socket_at.parent, socket_at.name, limits)
        serving = asyncio.ensure_future(
            WorkerListener(listener, context, own_party_id, application, socket_at.parent, limits, count, knows).run()
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        ready()
        with suppress(asyncio.CancelledError):
            await serving

    asyncio.new_event_loop().run_until_complete(serve())
