"""What the supervisor opens for workers on other hosts before it forks; a process of its own serves it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Self

from fate_flow.api.between_parties.slots import threads_for
from fate_flow.gateway.workers.tls import WorkerTls
from fate_flow.relay.spool_registry import SessionRegistry
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.listeners.listening import listen, listen_at
from fate_flow.server.listeners.worker_tokens import WorkerTokens
from fate_flow.settings.settings import Settings
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore


@dataclass(frozen=True)
class WorkerListenerParts:
    """`listener` is for workers on other hosts; at `behind` the workers' gunicorn serves what passes."""

    listener: socket.socket
    behind: socket.socket
    tls: WorkerTls
    settings: Settings
    secret: bytes                        # of the tokens of agents
    _ready: Wakeup = field(default_factory=Wakeup)

    @classmethod
    def of(cls, settings: Settings, secret: bytes) -> Self | None:
        """Return None if no such listener is configured. Raise FlowError if it cannot be started."""
        place = settings.worker_listen
        if place is None:
            return None
        import_module("fate_flow.gateway.workers.listener")      # before the fork, which shares its memory
        tls = WorkerTls.of(settings.keys_dir)
        listener = listen(place.host, place.port, "fateflow.worker_listen.port")
        try:
            behind = listen_at(settings.workers_socket)
        except BaseException:
            listener.close()
            raise
        return cls(listener, behind, tls, settings, secret)

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return self.listener, self.behind

    def is_ready(self) -> bool:
        """Return whether workers can connect; true once."""
        return bool(self._ready.wait(0.0))

    def run(self, make_space: Callable[[], bool]) -> None:
        """Serve workers on other hosts until SIGTERM, in a process whose log is open. `make_space`: as in `Retry`."""
        from fate_flow.gateway.workers.listener import limits_of_workers, serve_workers
        from fate_flow.server.listeners.refused_callers import counted_refusals

        settings = self.settings
        limits = limits_of_workers(threads_for(settings.worker_threads // 2), settings.limits.max_request_bytes)
        sessions = SessionRegistry(str(settings.spool_dir))
        tokens = WorkerTokens(lambda token: sessions.session_of(token) is not None, self.secret)
        store = SqlStore(open_database(settings.database_url, settings.home))
        with counted_refusals(settings, store, "worker", make_space) as count:
            serve_workers(
                self.listener, self.tls.context(), settings.party_id, settings.workers_socket, limits,
                self._ready.wake, count, tokens.knows,
            )  # fmt: skip

    def remove(self) -> None:
        """Remove the Unix socket, at the end of the server."""
        with suppress(OSError):
            self.settings.workers_socket.unlink()
