"""What a server hands to each of its engines."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from fate_flow.components.providers.table import ProviderTable
from fate_flow.settings.settings import Settings


@dataclass(frozen=True)
class EngineParts:
    """The parts of a server that its engines share."""

    settings: Settings
    spawner: socket.socket | None               # the end of the wake-up to which the spawner listens
    wake_scheduler: Callable[[bytes], None]     # with an event, such as the end of a worker
    exchange_url: str                           # of the exchange, for workers
    secret: bytes                               # from which tokens of workers are derived
    providers: ProviderTable
