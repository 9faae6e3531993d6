"""A thread that ends streams soon after what allowed them was revoked, also by another process than the server."""

from __future__ import annotations

from collections.abc import Callable

from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.services.context.ports import Context
from fate_flow.services.workers.allowed_streams import AllowedStreams

_SECONDS = 1.0


class StreamWatch(PeriodicWork):
    """Looks once a second; without streams, that reads the names in a folder."""

    def __init__(self, context: Context, close: Callable[[], None]) -> None:
        """The thread calls `close` at its end."""
        failure = "whether streams are still allowed could not be looked at"
        super().__init__("streams", failure, close, first=_SECONDS, again=_SECONDS)
        self._streams = AllowedStreams(context)

    def step(self) -> float:
        self._streams.look()
        return _SECONDS
