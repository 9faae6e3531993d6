"""The parts of the gateway that the supervisor opens and checks before it forks; its process builds the rest."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Self

from fate_flow.core.model.errors import FlowError
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.own_keys import own_tls
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
    """`listener` is for other parties; at `behind`, the public gunicorn serves what the gateway passes on."""

    listener: socket.socket
    behind: socket.socket
    own: OwnTls
    settings: Settings
    _ready: Wakeup = field(default_factory=Wakeup)

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """Return None if no gateway is configured. Raise FlowError if it cannot be started."""
        if settings.parties_listen is None:
            return None
        import_module(_MODULE)       # before the fork, which shares its memory; other servers do not need it
        try:
            own = own_tls(settings.party_id, settings.keys_dir, _now)
        except FlowError as error:
            raise FlowError(f"parties.listen: {error.message}") from error
        listener = listen(settings.parties_listen.host, settings.parties_listen.port, "parties.listen.port")
        try:
            return cls(listener, listen_at(settings.parties_socket), own, settings)
        except FlowError:
            listener.close()
            raise

    def is_ready(self) -> bool:
        """Return whether other parties can connect; true once."""
        return bool(self._ready.wait(0.0))

    def run(self) -> None:
        """Serve other parties until SIGTERM, in a process of its own."""
        from fate_flow.gateway.limits import Limits
        from fate_flow.gateway.process import GatewayProcess

        settings = self.settings
        threads = settings.http_threads * settings.http_workers
        limits = Limits.of_server(threads, settings.limits.max_request_bytes, settings.quotas)
        open_log(settings)
        # Its statements are not logged: there are two a second.
        store = SqlStore(open_database(settings.database_url, settings.home))
        GatewayProcess(
            self.own, StoredPeers(store, settings.party_id, _now, Invitations(settings.invitations_dir, _now).are_open),
            settings.parties_socket.parent, settings.parties_socket.name, limits, _now,
        ).run(self.listener, self._ready.wake)  # fmt: skip

    def remove(self) -> None:
        """Remove the Unix socket, at the end of the server."""
        with suppress(OSError):
            self.settings.parties_socket.unlink()


def _now() -> int:
    return time.time_ns() // 1_000_000
