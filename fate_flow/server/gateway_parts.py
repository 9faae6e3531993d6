"""The parts of the gateway that the supervisor opens and checks before it forks; its process builds the rest."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Self

from fate_flow.core.model.errors import FlowError
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.key_changes import own_tls
from fate_flow.peers.tls import OwnTls
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.listening import listen, listen_at
from fate_flow.server.runtime import open_log
from fate_flow.server.stored_peers import StoredPeers
from fate_flow.settings.settings import Settings
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore

_MODULE = "fate_flow.gateway.process"


@dataclass(frozen=True)
class GatewayParts:
    """At `behind`, the public gunicorn serves what the gateway passes on. `listener` is for other parties, and `dialed`
    for processes of this server that send to parties that dial it; None if this party dials others."""

    listener: socket.socket | None
    dialed: socket.socket | None
    behind: socket.socket
    own: OwnTls
    settings: Settings
    _ready: Wakeup = field(default_factory=Wakeup)

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """Return None if no gateway is configured. Raise FlowError if it cannot be started."""
        if settings.parties_listen is None and not settings.parties_dial:
            return None
        place = "parties.listen" if settings.parties_listen else "parties.dial"
        import_module(_MODULE)       # before the fork, which shares its memory; other servers do not need it
        try:
            own = own_tls(settings.party_id, settings.keys_dir, _now)
        except FlowError as error:
            raise FlowError(f"{place}: {error.message}") from error
        with ExitStack() as opened:          # closes them all if one of them cannot be opened
            listener = dialed = None
            if settings.parties_listen is not None:
                at = settings.parties_listen
                listener = opened.enter_context(listen(at.host, at.port, "parties.listen.port"))
                dialed = opened.enter_context(listen_at(settings.dialed_socket))
            behind = opened.enter_context(listen_at(settings.parties_socket))
            opened.pop_all()
        return cls(listener, dialed, behind, own, settings)

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return tuple(one for one in (self.listener, self.dialed, self.behind) if one is not None)

    def is_ready(self) -> bool:
        """Return whether other parties can connect; true once."""
        return bool(self._ready.wait(0.0))

    def run(self) -> None:
        """Serve other parties until SIGTERM, in a process of its own."""
        from fate_flow.gateway.gateway import Listeners
        from fate_flow.gateway.limits import Limits
        from fate_flow.gateway.process import GatewayProcess

        settings = self.settings
        threads = settings.http_threads * settings.http_workers
        limits = Limits.of_server(threads, settings.limits.max_request_bytes, settings.quotas)
        open_log(settings)
        # Its statements are not logged: there are two a second.
        store = SqlStore(open_database(settings.database_url, settings.home))
        may_join, dials = Invitations(settings.invitations_dir, _now).are_open, settings.routes
        peers = StoredPeers(store, settings.party_id, _now, may_join, dials if settings.parties_dial else None)
        socket_at = settings.parties_socket
        process = GatewayProcess(self.own, peers, socket_at.parent, socket_at.name, limits, _now)
        process.run(Listeners(self.listener, self.dialed) if self.listener and self.dialed else None, self._ready.wake)

    def remove(self) -> None:
        """Remove the Unix sockets, at the end of the server."""
        for path in (self.settings.parties_socket, self.settings.dialed_socket):
            with suppress(OSError):
                path.unlink()


def _now() -> int:
    return time.time_ns() // 1_000_000
