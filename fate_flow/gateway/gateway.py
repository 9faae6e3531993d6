"""Connections with other parties: mutual TLS with the keys that are valid now, and limits for whoever is there.

A gateway listens, or, if this party has no port of its own, dials other parties and keeps connections open there.

Python's `ssl` cannot ask for a decision during a handshake, so the present keys are in the context of a connection.
When keys change, new connections get a new context, and open connections whose key is no longer valid are ended.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.gateway.accepting import accepted, set_options
from fate_flow.gateway.dialed import Dialed, Use
from fate_flow.gateway.dialing import Dialing, Wanted
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.origins import origin_of
from fate_flow.gateway.peer_connection import Asks, Carries, PeerConnection, Setting
from fate_flow.gateway.peers import Peers, PeerSource
from fate_flow.gateway.refusals import Count, RefusalLog, Refused, uncounted
from fate_flow.gateway.shares import Shares
from fate_flow.gateway.strangers import JoinRate, limits_of_strangers
from fate_flow.gateway.tls_stream import TlsStream
from fate_flow.peers.tls import (
    DIAL,
    ClocksDiffer,
    Leaf,
    NotAPeer,
    OwnTls,
    PeerKey,
    client_context,
    peer_of,
    server_context,
)

LOG = logging.getLogger(__name__)

_NEW_CONTEXT_MS = 12 * 3600 * 1000       # a leaf is made again by OwnTls long before it ends
_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"
_PAUSE_SECONDS = 0.1                     # between two looks at what is still open at the end


class _Open:
    """One connection, on which the peer has seen `leaf`, or an earlier one. `requests` is None until its handshake is
    over."""

    def __init__(self, task: asyncio.Task[None], sock: socket.socket, origin: str, leaf: Leaf | None) -> None:
        self.task = task
        self.sock = sock
        self.origin = origin
        self.leaf = leaf
        self.peer: PeerKey | None = None
        self.is_stranger = False             # whether its handshake is over without a certificate
        self.requests: PeerConnection | None = None
        self.use = Use()                     # of a connection that the party has opened for our requests
        self.on_stream: Callable[[], None] = lambda: None        # called when it begins to carry a stream

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way."""
        return self.use.is_idle if self.requests is None else self.requests.is_idle


@dataclass(frozen=True)
class Listeners:
    """Where other parties connect, and where processes of this server ask for connections of parties that dial."""

    of_parties: socket.socket
    of_processes: socket.socket


class Gateway:
    """`clock` returns milliseconds since 1970; `folder` is for large bodies on their way."""

    def __init__(
        self, listeners: Listeners | None, own: OwnTls, source: PeerSource, application: Asks, folder: Path,
        limits: Limits, clock: Callable[[], int], streams: Carries | None = None, count: Count = uncounted,
    ) -> None:  # fmt: skip
        self._listeners = listeners
        self._dialing: dict[Wanted, asyncio.Task[None]] = {}
        self._own = own
        self._source = source
        self._limits = limits
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._refusals, self._count = RefusalLog(self._loop.time), count
        self.dialed = Dialed(listeners.of_processes, limits, self._refusals.note) if listeners else None
        self._dial_failures = RefusalLog(self._loop.time, "no connection is kept open to")
        self.shares = Shares(limits)
        self._setting = Setting(
            own.party_id, own.key_id, limits, self.shares, application, folder, self._refusals.note, streams, count
        )
        few = limits_of_strangers(limits)
        self._of_strangers = replace(self._setting, limits=few, shares=Shares(few), streams=None)
        self._join_rate = JoinRate(self._loop.time)
        self._peers = Peers()
        self._context: ssl.SSLContext | None = None
        self._context_ms = 0
        self._leaf: Leaf | None = None             # in the context
        self._open: dict[asyncio.Task[None], _Open] = {}          # in the order in which they came
        self._handshakes: dict[asyncio.Task[None], _Open] = {}    # the same
        self._on_streams: set[asyncio.Task[None]] = set()         # of `_open`; `Carries.check` bounds them
        self._freed = asyncio.Event()

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until this task is canceled; call `ready` once peers can connect. Raises OSError, or what the source
        raises, if that cannot be."""
        await self._reload()
        ready()
        beside = [self._watch(), *([self.dialed.run()] if self.dialed else [])]
        tasks = [asyncio.create_task(one) for one in beside]
        try:
            if self._listeners is None:
                await asyncio.Event().wait()
            else:
                await self._accept(self._listeners.of_parties)
        finally:
            for task in (*tasks, *self._dialing.values()):
                task.cancel()
            if self._listeners is not None:
                self._listeners.of_parties.close()
            await self._end()
            self._refusals.finish()
            self._dial_failures.finish()

    # ------------------------------------------------------------------ peers

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._limits.reload_seconds)
            self._refusals.tick()
            self._dial_failures.tick()
            try:
                await self._reload()
            except Exception as error:  # noqa: BLE001  # whatever a database raises; the keys that are known stay valid
                # Nothing is lost: without the database the application carries out nothing for a peer either.
                self._refusals.note("", f"every change of keys: they cannot be read: {error}")

    async def _reload(self) -> None:
        """Read the peers; end the connections of keys that are no longer valid, and after one more request those on
        which an earlier leaf was shown: peers see that the next tls key is in use before the old one is revoked."""
        known = self._peers
        found = await asyncio.to_thread(self._source.read, known)
        age_ms = self._clock() - self._context_ms
        is_old = self._own.leaf() is not self._leaf or not 0 <= age_ms < _NEW_CONTEXT_MS
        if self._context is None or found.version != known.version or is_old:
            self._leaf = self._own.leaf()
            self._of_strangers = replace(self._of_strangers, own_key_id=self._own.key_id)
            self._context = server_context(self._own, found.keys, lets_strangers=found.may_join)
            self._context_ms = self._clock()
        for one in self._open.values():
            if one.requests is not None and one.leaf is not self._leaf:
                one.requests.is_last = True
        self._peers = found
        if found is known:
            return
        self._dial(found)
        valid = set(found.keys)
        for one in list(self._open.values()):
            if one.is_stranger and not found.may_join and one.requests is not None and one.requests.is_idle:
                one.task.cancel()
            if one.peer is not None and one.peer not in valid:
                LOG.info("the key of party %s is no longer valid: its connection is ended", one.peer.party_id)
                one.task.cancel()

    def _dial(self, peers: Peers) -> None:
        """Keep connections open to the parties that are to be dialed now, and to no other ones."""
        wanted = {
            Wanted(party_id, url, keys) for party_id, url in peers.to_dial
            if (keys := tuple(key for key in peers.keys if key.party_id == party_id))
        }  # fmt: skip
        for one in self._dialing.keys() - wanted:
            self._dialing.pop(one).cancel()
        for one in wanted - self._dialing.keys():
            dialing = Dialing(one, self, self._limits, self._dial_failures.note)
            self._dialing[one] = asyncio.create_task(dialing.run())

    # ------------------------------------------------------------------ connections

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._space()
            self._begin(*await accepted(listener, self._refusals.note))

    async def _space(self) -> None:
        """Wait until one more connection fits. Those that wait stay with the kernel."""
        while len(self._open) - len(self._on_streams) >= self._limits.connections:
            self._freed.clear()
            await self._freed.wait()

    def _begin(self, sock: socket.socket, address: str) -> None:
        origin = origin_of(address)
        if sum(one.origin == origin for one in self._handshakes.values()) >= self._limits.handshakes_of_address:
            self._refusals.note(address, "too many connections at once from this address")
            self._count(Cause.CONNECTIONS, origin, "", 0)
            sock.close()
            return
        if len(self._handshakes) >= self._limits.handshakes:
            oldest, found = next(iter(self._handshakes.items()))
            oldest.cancel()
            self._count(Cause.CONNECTIONS, found.origin, "", 0)
        set_options(sock)
        task = asyncio.create_task(self._serve(sock, address))
        self._open[task] = self._handshakes[task] = _Open(task, sock, origin, self._leaf)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._open.pop(task).sock.close()          # also if it was canceled before it began
        self._handshakes.pop(task, None)
        self._on_streams.discard(task)
        self._freed.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            LOG.error("a connection of another party failed", exc_info=error)

    async def _serve(self, sock: socket.socket, address: str) -> None:
        one = self._open[asyncio.current_task()]  # type: ignore[index]  # it is a task
        assert self._context is not None
        stream = TlsStream(sock, self._context)
        try:
            one.peer = await self._peer_of(stream)
            one.is_stranger = one.peer is None
            self._handshakes.pop(one.task, None)
            if stream.protocol == DIAL and one.peer is not None and self.dialed is not None:
                with self.shares.connection(one.peer.party_id):
                    await self.dialed.keep(stream, one.peer, one.use)
            else:
                await self._serve_peer(stream, one, address)
        except ClocksDiffer as error:        # of a known key, so it may read why; the clocks may be right later
            if stream.protocol == DIAL:      # it asks nothing
                self._refusals.note(address, str(error))
                self._count(Cause.KEY, one.origin, "", 0)
                return
            with suppress(OSError):
                await PeerConnection(stream, None, address, self._of_strangers).refuse(Refused(503, str(error)))
        except NotAPeer as error:
            self._refusals.note(address, str(error))
            self._count(Cause.KEY, one.origin, "", 0)
        except Refused as error:             # a connection for our requests
            self._refusals.note(address, str(error))
            self._count(Cause.CONNECTIONS, one.origin, one.peer.party_id if one.peer is not None else "", 0)
        except OSError as error:
            if one.peer is None and not one.is_stranger:
                self._refusals.note(address, f"no TLS connection: {_text(error)}")
                self._count(_cause(error), one.origin, "", 0)
                if isinstance(error, ssl.SSLError):        # the alert says why; a request may be on its way already
                    await stream.finish(self._limits.close_seconds)

    async def _peer_of(self, stream: TlsStream) -> PeerKey | None:
        """Return the key behind a connection, after its handshake; None for a stranger who may join.

        Raises NotAPeer, OSError."""
        async with asyncio.timeout(self._limits.handshake_seconds):
            await stream.handshake()
        if stream.leaf is None and self._peers.may_join:
            return None
        return peer_of(stream.leaf, self._peers.keys, self._clock())       # of now, not of when the context was made

    async def _serve_peer(self, stream: TlsStream, one: _Open, address: str) -> None:
        setting = self._setting if one.peer is not None else self._of_strangers
        one.requests = PeerConnection(stream, one.peer, address, setting)
        try:
            if one.peer is None:
                self._join_rate.take(one.origin)
            with setting.shares.connection(one.peer.party_id if one.peer is not None else "") as share:
                upgraded = await one.requests.serve(share)
            if upgraded is not None and setting.streams is not None:
                self._on_streams.add(one.task)
                self._freed.set()
                one.on_stream()
                await setting.streams.carry(upgraded)
        except Refused as refusal:
            await one.requests.refuse(refusal)

    # ------------------------------------------------------------------ connections that were opened here

    def context_for(self, keys: Sequence[PeerKey]) -> ssl.SSLContext:
        """Return what a connection uses that is kept open at the server with one of these keys."""
        return client_context(self._own, keys, DIAL)

    def peer_behind(self, leaf: bytes | None, keys: Sequence[PeerKey]) -> PeerKey:
        """Return the key behind this certificate (DER), one of these that is still valid. Raises NotAPeer."""
        return peer_of(leaf, [key for key in keys if key in self._peers.keys], self._clock())

    def serve(
        self, sock: socket.socket, stream: TlsStream, peer: PeerKey, address: str, on_stream: Callable[[], None]
    ) -> asyncio.Task[None]:  # fmt: skip
        """Serve requests over a connection of this peer, in a task that closes it."""

        async def served() -> None:
            with suppress(OSError):
                await self._serve_peer(stream, one, address)

        task = asyncio.create_task(served())
        one = self._open[task] = _Open(task, sock, "", self._leaf)
        one.peer, one.on_stream = peer, on_stream
        task.add_done_callback(self._forget)
        return task

    # ------------------------------------------------------------------ the end

    async def _end(self) -> None:
        """Let the requests that are under way end; nothing else."""
        until = self._loop.time() + self._limits.stop_seconds
        while self._open and (seconds := until - self._loop.time()) > 0:
            for one in self._open.values():
                if one.is_idle:
                    one.task.cancel()
                elif one.requests is not None:
                    one.requests.is_last = True
            await asyncio.wait(self._open, timeout=min(seconds, _PAUSE_SECONDS))
        left = list(self._open)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def _cause(error: OSError) -> Cause:
    """Return whether a handshake has failed because of the caller's key."""
    is_of_key = isinstance(error, ssl.SSLCertVerificationError) or getattr(error, "reason", None) == _NO_CERTIFICATE
    return Cause.KEY if is_of_key else Cause.HANDSHAKE


def _text(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "the handshake has not ended in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{error.reason} ({error.verify_message})"
    return getattr(error, "reason", None) or error.strerror or type(error).__name__
