"""What the process of the gateway runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fate_flow.gateway.application import Application
from fate_flow.gateway.gateway import Gateway, Listeners
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.peers import PeerSource
from fate_flow.peers.tls import OwnTls


@dataclass(frozen=True)
class GatewayProcess:
    """`folder` has the socket `socket_name` of the application; `clock` returns milliseconds since 1970."""

    own: OwnTls
    source: PeerSource
    folder: Path
    socket_name: str
    limits: Limits
    clock: Callable[[], int]

    def run(self, listeners: Listeners | None, ready: Callable[[], None]) -> None:
        """Serve other parties until SIGTERM; call `ready` once they can connect. None: this party dials them."""
        # The loop is not closed: a thread that waits for the database would be waited for, and the process ends anyway.
        asyncio.new_event_loop().run_until_complete(self._serve(listeners, ready))

    async def _serve(self, listeners: Listeners | None, ready: Callable[[], None]) -> None:
        for one in (listeners.of_parties, listeners.of_processes) if listeners else ():
            one.setblocking(False)
        application = Application(self.folder, self.socket_name, self.limits)
        gateway = Gateway(listeners, self.own, self.source, application, self.folder, self.limits, self.clock)
        serving = asyncio.create_task(gateway.run(ready))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, serving.cancel)
        with suppress(asyncio.CancelledError):
            await serving
