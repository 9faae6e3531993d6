"""The parts of the gateway that the supervisor opens and checks before it forks; its process builds the rest."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Self

from fate_flow.core.model.errors import FlowError
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.key_changes import own_tls
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.tls import OwnTls
from fate_flow.relay.wakeup import Wakeup
from fate_flow.server.listeners.listening import listen, listen_at
from fate_flow.server.other_parties.party_routes import with_joined_routes
from fate_flow.server.runtime import open_log, reserve_of, stream_sessions
from fate_flow.server.stored_peers import StoredPeers
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.parties import Listen
from fate_flow.settings.settings import Settings
from fate_flow.store.database.opening import open_database
from fate_flow.store.sql.store import SqlStore

_FILES, _FILES_OF_REQUESTS = 8192, 1024
_LEAST_STREAMS = 128                    # the default quota of one party
_MODULES = ("fate_flow.gateway.process", "fate_flow.streams.streams")


@dataclass(frozen=True)
class GatewayParts:
    """At `behind`, the public gunicorn serves what the gateway passes on. `listener` is for other parties with TLS, and
    `dialed` for processes of this server that send to parties that dial it; None if there is none. `plain`: for peers
    that speak plain v1; `proxied`: for a proxy that has ended TLS. `look`: for processes of this server that
    have changed which streams there may be. `own`: None if the gateway has no TLS of its own."""

    listener: socket.socket | None
    dialed: socket.socket | None
    plain: socket.socket | None
    proxied: socket.socket | None
    behind: socket.socket
    look: socket.socket
    own: OwnTls | None
    settings: Settings
    signature: SiteSignature | None
    _ready: Wakeup = field(default_factory=Wakeup)

    @classmethod
    def of(cls, settings: Settings, signature: SiteSignature | None = None) -> Self | None:
        """Return None if no gateway is configured. Raise FlowError if it cannot be started."""
        has_tls = settings.parties_listen is not None or settings.parties_dial
        if not settings.has_gateway:
            return None
        for module in _MODULES:
            import_module(module)    # before the fork, which shares its memory; other servers do not need it
        own = _own_tls(settings) if has_tls else None
        with ExitStack() as opened:          # closes them all if one of them cannot be opened
            tls, plain, proxied = (
                None if one is None else opened.enter_context(listen(one.host, one.port, key))
                for key, one in _places(settings).items()
            )
            dialed = opened.enter_context(listen_at(settings.dialed_socket)) if tls else None
            behind = opened.enter_context(listen_at(settings.parties_socket))
            look = opened.enter_context(listen_at(settings.streams_socket))
            opened.pop_all()
        return cls(tls, dialed, plain, proxied, behind, look, own, settings, signature)

    @property
    def _of_others(self) -> tuple[socket.socket | None, ...]:
        return self.listener, self.plain, self.proxied

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        return tuple(one for one in (*self._of_others, self.dialed, self.behind, self.look) if one is not None)

    def is_ready(self) -> bool:
        """Return whether other parties can connect; true once."""
        return bool(self._ready.wait(0.0))

    def run(self) -> None:
        """Serve other parties until SIGTERM, in a process of its own."""
        from fate_flow.gateway.gateway import Listeners
        from fate_flow.gateway.limits import Limits
        from fate_flow.gateway.process import GatewayProcess
        from fate_flow.gateway.unproved import Unproved
        from fate_flow.server.listeners.refused_callers import counted_refusals
        from fate_flow.server.other_parties.answer_keys import expecting_answers
        from fate_flow.server.stream_ways import StreamWays
        from fate_flow.streams.streams import Streams

        most_streams = most_streams_with(_allow_many_files())
        settings = self.settings
        threads = settings.http_threads * settings.http_workers
        limits = Limits.of_server(threads, settings.limits.max_request_bytes, settings.quotas)
        open_log(settings)
        # Its statements are not logged: there are two a second.
        store = SqlStore(open_database(settings.database_url, settings.home))
        may_join, dials = Invitations(settings.invitations_dir, now_on_the_wall).are_open, settings.routes
        peers = StoredPeers(
            store, settings.party_id, now_on_the_wall, may_join, dials if settings.parties_dial else None,
            settings.certified_parties,
        )  # fmt: skip
        socket_at = settings.parties_socket
        joined = with_joined_routes(settings, store)
        ways = StreamWays(joined, store, self.own, expecting_answers(self.signature, joined, store))

        def make_streams() -> Streams:
            return Streams(
                stream_sessions(settings), self.look, ways, settings.quotas, most_streams,
                keeps_digests=settings.recording.is_on,
            )  # fmt: skip

        listeners = Listeners(self.listener, self.dialed) if self.listener and self.dialed else None
        without_tls = {Unproved.PLAIN: self.plain, Unproved.PROXY: self.proxied}
        with counted_refusals(settings, store, "party", reserve_of(settings).give_back) as count:
            process = GatewayProcess(
                settings.party_id, self.own, peers, socket_at.parent, socket_at.name, limits, now_on_the_wall,
                make_streams, count,
            )  # fmt: skip
            process.run(
                listeners, {kind: one for kind, one in without_tls.items() if one is not None}, self._ready.wake
            )

    def remove(self) -> None:
        """Remove the Unix sockets, at the end of the server."""
        settings = self.settings
        for path in (settings.parties_socket, settings.dialed_socket, settings.streams_socket):
            with suppress(OSError):
                path.unlink()


def _places(settings: Settings) -> dict[str, Listen | None]:
    """Return where other parties connect: with TLS, as peers that speak plain v1, and through a proxy."""
    plain = settings.plain_parties
    return {
        "parties.listen.port": settings.parties_listen,
        "parties.plain.listen.port": plain.listen if plain else None,
        "parties.behind_proxy.port": settings.parties_behind_proxy,
    }


def _own_tls(settings: Settings) -> OwnTls:
    try:
        return own_tls(settings.party_id, settings.keys_dir, now_on_the_wall, settings.parties_certificate)
    except FlowError as error:
        place = "parties.listen" if settings.parties_listen else "parties.dial"
        raise FlowError(f"{place}: {error.message}") from error


def _allow_many_files() -> int:
    """Let this process open files for many streams beyond the usual 1024; return how many it may open."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(most, _FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted


def most_streams_with(files: int) -> int:
    """Return how many streams all other parties together may have here, if this process may open so many files.

    A stream takes two. Half of what requests do not need is left for the streams of this party's own workers."""
    return max(_LEAST_STREAMS, (files - _FILES_OF_REQUESTS) // 4)
