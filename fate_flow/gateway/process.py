"""What the process of the gateway runs."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fate_flow.gateway.application import Application
from fate_flow.gateway.dialed import Dialed
from fate_flow.gateway.gateway import Gateway, Listeners
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.open_listeners import OpenListeners
from fate_flow.gateway.peer_connection import Carries
from fate_flow.gateway.peers import PeerSource
from fate_flow.gateway.refusals import Count, uncounted
from fate_flow.gateway.shares import Shares
from fate_flow.gateway.unproved import Unproved
from fate_flow.peers.tls import OwnTls


class Beside(Carries, Protocol):
    """What carries streams, and has listeners of its own."""

    def run(self, dialed: Dialed | None) -> Coroutine[None, None, None]:
        """Serve until this is canceled; `dialed`: the connections of parties that dial this one."""
        ...


@dataclass(frozen=True)
class GatewayProcess:
    """`folder` has the socket `socket_name` of the application; `clock` returns milliseconds since 1970. `own`: None if
    there is nothing with TLS."""

    party_id: str
    own: OwnTls | None
    source: PeerSource
    folder: Path
    socket_name: str
    limits: Limits
    clock: Callable[[], int]
    make_streams: Callable[[], Beside] | None = None        # called on the event loop; None: no streams
    count: Count = uncounted         # of refusals, for the record

    def run(
        self, listeners: Listeners | None, without_tls: Mapping[Unproved, socket.socket], ready: Callable[[], None]
    ) -> None:  # fmt: skip
        """Serve other parties until SIGTERM; call `ready` once they can connect. With TLS of its own and without
        `listeners`, this party dials them."""
        # The loop is not closed: a thread that waits for the database would be waited for, and the process ends anyway.
        asyncio.new_event_loop().run_until_complete(self._serve(listeners, without_tls, ready))

    async def _serve(
        self, listeners: Listeners | None, without_tls: Mapping[Unproved, socket.socket], ready: Callable[[], None]
    ) -> None:  # fmt: skip
        for one in (*((listeners.of_parties, listeners.of_processes) if listeners else ()), *without_tls.values()):
            one.setblocking(False)
        application = Application(self.folder, self.socket_name, self.limits)
        streams = self.make_streams() if self.make_streams else None
        gateway = None if self.own is None else Gateway(
            listeners, self.own, self.source, application, self.folder, self.limits, self.clock, streams,
            self.count,
        )  # fmt: skip
        shares = gateway.shares if gateway is not None else Shares(self.limits)
        beside = OpenListeners(
            without_tls, self.party_id, application, self.folder, self.limits, shares, streams, self.count
        )
        if gateway is None:
            ready()
        serving = asyncio.gather(
            beside.run(), *([gateway.run(ready)] if gateway is not None else []),
            *([streams.run(gateway.dialed if gateway else None)] if streams else [])
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving
