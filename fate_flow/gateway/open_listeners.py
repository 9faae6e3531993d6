"""The listeners of callers whose key the gateway does not verify (`unproved.py`)."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.gateway.accepting import accepted, set_options
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.origins import origin_of
from fate_flow.gateway.peer_connection import Asks, Carries, PeerConnection, Setting
from fate_flow.gateway.refusals import Count, RefusalLog, uncounted
from fate_flow.gateway.shares import Shares
from fate_flow.gateway.unproved import OpenStream, Unproved, limits_of_unproved

LOG = logging.getLogger(__name__)

_TICK_SECONDS = 1.0


class OpenListeners:
    """Runs the listeners. `within`: the shares of the peers whose keys are known, who use the same application."""

    def __init__(
        self, listeners: Mapping[Unproved, socket.socket], own_party_id: str, application: Asks, folder: Path,
        limits: Limits, within: Shares, streams: Carries | None = None, count: Count = uncounted,
    ) -> None:  # fmt: skip
        self._limits = limits_of_unproved(limits)
        self._refusals = RefusalLog(asyncio.get_running_loop().time)
        shares = Shares(self._limits, within)
        note = self._refusals.note
        setting = Setting(own_party_id, "", self._limits, shares, application, folder, note, streams, count)
        self._listeners = [_Listener(kind, sock, setting) for kind, sock in listeners.items()]

    async def run(self) -> None:
        """Serve until this task is canceled."""
        tasks = [asyncio.create_task(one) for one in (self._tick(), *(one.accept() for one in self._listeners))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*(one.end() for one in self._listeners))
            self._refusals.finish()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._refusals.tick()


class _Listener:
    """One of the listeners, and its connections, the oldest one first."""

    def __init__(self, kind: Unproved, sock: socket.socket, setting: Setting) -> None:
        self._kind = kind
        self._socket = sock
        self._all = setting
        self._limits = setting.limits
        self._open: dict[asyncio.Task[None], tuple[PeerConnection, str, socket.socket]] = {}
        self._on_streams: set[asyncio.Task[None]] = set()          # of `_open`; `Carries.check` bounds them
        self._freed = asyncio.Event()

    async def accept(self) -> None:
        while True:
            await self._space()
            self._begin(*await accepted(self._socket, self._all.note))

    async def _space(self) -> None:
        """Wait until one more connection fits. If there are too many, the oldest one without a complete request is
        ended: an honest request comes with its connection, so the honest ones are left."""
        while len(self._open) - len(self._on_streams) >= self._limits.connections:
            self._freed.clear()
            for task, (requests, origin, _) in self._open.items():
                if not (requests.is_complete or requests.carries_stream) and not task.cancelling():
                    task.cancel()
                    self._all.count(Cause.CONNECTIONS, origin, "", 0)
                    break
            await self._freed.wait()

    def _begin(self, sock: socket.socket, address: str) -> None:
        origin = origin_of(address)
        of_address = sum(found == origin and not one.carries_stream for one, found, _ in self._open.values())
        if self._kind is Unproved.PLAIN and of_address >= self._limits.connections_of_address:
            self._all.note(address, f"this address has {of_address} open connections, the most that it may have")
            self._all.count(Cause.CONNECTIONS, origin, "", 0)
            sock.close()
            return
        set_options(sock)
        requests = PeerConnection(OpenStream(sock), self._kind, address, self._all)
        task = asyncio.create_task(self._serve(requests))
        self._open[task] = requests, origin, sock
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        _, _, sock = self._open.pop(task)
        sock.close()                               # also if it was canceled before it began
        self._on_streams.discard(task)
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a connection without TLS failed", exc_info=error)

    async def _serve(self, requests: PeerConnection) -> None:
        with suppress(OSError):              # the connection has broken
            upgraded, streams = await requests.serve(None), self._all.streams
            if upgraded is not None and streams is not None:
                task = asyncio.current_task()
                assert task is not None
                self._on_streams.add(task)
                self._freed.set()
                await streams.carry(upgraded)

    async def end(self) -> None:
        """Let the requests that are under way end; nothing else."""
        self._socket.close()
        for task, (requests, _, _) in list(self._open.items()):
            if requests.has_request:
                requests.is_last = True
            else:
                task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=self._limits.stop_seconds)
        left = list(self._open)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
