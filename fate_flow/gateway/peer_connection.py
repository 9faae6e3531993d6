"""The requests of one connection: each is read completely, passed on, and answered; then the next one is read."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

import h11

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.gateway.application import Answer
from fate_flow.gateway.bodies import Body, Pace
from fate_flow.gateway.heads import (
    announced_bytes,
    asking_for_stream,
    check_request,
    identity_of,
    request_for_application,
    response_for_peer,
    switching,
    wants_stream,
)
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.origins import origin_of
from fate_flow.gateway.refusals import Count, Refused, uncounted
from fate_flow.gateway.shares import Share, Shares, StoredBytes
from fate_flow.gateway.strangers import check_target
from fate_flow.gateway.tls_stream import TlsParts
from fate_flow.gateway.unproved import Unproved, claimed_by
from fate_flow.peers.tls import PeerKey

_LATER = (429, 503)           # what is asked again later
_MOST_SAID = 64 * 1024        # bytes of what the application says about a stream
_STEPS = 64                   # events that are handled before others have their turn


class Stream(Protocol):
    """A connection; `tls_stream.py` and `unproved.py` have the real ones."""

    @property
    def version(self) -> str:
        """The version of TLS; empty without TLS."""
        ...

    @property
    def sock(self) -> socket.socket: ...

    @property
    def tls(self) -> TlsParts | None:
        """What somebody goes on with who reads and writes `sock` from now on; None without TLS."""
        ...

    async def receive(self) -> bytes:
        """Return what comes next; b"" at the end. Raises OSError."""
        ...

    async def send(self, data: bytes) -> None:
        """Send all of this. Raises OSError."""
        ...

    async def finish(self, seconds: float) -> None:
        """Let the peer read what was sent, for so long at most, before the connection ends."""
        ...


class Asks(Protocol):
    """The application; `application.py` has the real one."""

    async def ask(self, identity: bytes, request: h11.Request, body: Body) -> Answer:
        """Return the answer to a request with this identity. Raises Refused."""
        ...


@dataclass(frozen=True)
class Upgraded:
    """A connection that carries a stream from now on."""

    stream: Stream
    leftover: bytes                           # what came after the request
    said: Mapping[str, Any]                   # what the application said about the stream
    share: str                                # whose share of the streams it takes


class Carries(Protocol):
    """What carries streams; `fate_flow/streams` has the real one."""

    def check(self, share: str) -> None:
        """Raise Refused if there may be no further stream of this share now."""
        ...

    async def carry(self, upgraded: Upgraded) -> None:
        """Carry the stream of a connection until its end."""
        ...


# Whether a request with this target and this field Authorization may have a body.
Knows = Callable[[str, str], bool]


def known_to_all(_target: str, _authorization: str) -> bool:
    """Let only the application decide on a request, when it has all of it."""
    return True


@dataclass(frozen=True)
class Setting:
    """What all connections of a gateway share."""

    own_party_id: str
    own_key_id: str                           # of the tls key whose certificate peers see
    limits: Limits
    shares: Shares
    application: Asks
    folder: Path                              # of large bodies
    note: Callable[[str, str], None]          # an address, and why a request from there was refused
    streams: Carries | None = None            # None: no connection carries one
    count: Count = uncounted                  # of refusals, for the record
    knows: Knows = known_to_all


class PeerConnection:
    """One connection: of a peer whose key is known, of a stranger (None), or of a caller without TLS."""

    def __init__(self, stream: Stream, peer: PeerKey | Unproved | None, address: str, setting: Setting) -> None:
        self.is_idle = True                   # between two requests
        self.has_request = False              # whether the head of one was read and its answer is not sent
        self.is_complete = False              # whether all of that request was read
        self.carries_stream = False           # from now to the end of the connection
        self.is_last = False                  # no other request is read after the present one
        self._upgraded: Upgraded | None = None
        self._stream = stream
        self._peer = peer
        self._address = address
        self._all = setting
        self._limits = setting.limits
        self._clock = asyncio.get_running_loop().time
        self._http = h11.Connection(h11.SERVER, setting.limits.head_bytes)

    async def serve(self, share: Share | None) -> Upgraded | None:
        """Serve requests until the peer or a refusal ends the connection; `share` is that of the peer's party; None:
        each request has that of the party it names. Return the connection if it is to carry a stream now. Raises
        OSError if it breaks."""
        try:
            while not self.is_last and (request := await self._head()) is not None:
                self.has_request = True
                with self._share_of(request, share) as one:
                    await self._serve(request, one)
                self.is_idle, self.has_request, self.is_complete = True, False, False
        except Refused as refusal:
            await self.refuse(refusal)
        return self._upgraded

    # ------------------------------------------------------------------ reading

    async def _head(self) -> h11.Request | None:
        """Return the next request; None if there is none. Raises Refused."""
        try:
            if not self._http.trailing_data[0]:
                async with asyncio.timeout(self._limits.idle_seconds):
                    self._http.receive_data(await self._stream.receive())
        except TimeoutError:
            return None
        self.is_idle = False
        event = await self._event(self._clock() + self._limits.head_seconds, "the head of the request")
        if not isinstance(event, h11.Request):
            return None
        check_request(event, self._limits)
        shown = next((value for name, value in event.headers if name == b"authorization"), b"")
        if not self._all.knows(event.target.decode("ascii"), shown.decode("latin-1")):
            raise Refused(401, "Authorization: unknown token")
        if self._peer is None:
            check_target(event)
            self.is_last = True
        return event

    async def _event(self, deadline: float, what: str) -> h11.Event | type[h11.PAUSED]:
        """Return the next event of h11. Raises Refused."""
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout_at(deadline):
                    self._http.receive_data(await self._stream.receive())
        except TimeoutError:
            raise Refused(408, f"{what} has not come in time") from None
        except h11.RemoteProtocolError as error:
            status = error.error_status_hint if error.error_status_hint in (431, 501) else 400
            raise Refused(status, f"the input is not an HTTP/1.1 request: {sanitized(str(error), 200)}") from error
        return event  # type: ignore[return-value]  # NEED_DATA has ended the loop

    async def _body(self, request: h11.Request, body: Body, stored: StoredBytes) -> None:
        """Read the body of a request. Raises Refused."""
        self._check_size(announced_bytes(request))
        stored.reach(announced_bytes(request))
        if self._http.they_are_waiting_for_100_continue:
            await self._send(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        pace, pieces = Pace(self._limits, self._clock), 0
        while True:
            event = await self._event(pace.deadline(body.size), "the body of the request")
            if isinstance(event, h11.EndOfMessage):
                body.complete()
                return
            if isinstance(event, h11.Data):
                pieces += event.chunk_start
                self._check_size(body.size + len(event.data))
                self._check_chunks(pieces, body.size)
                stored.reach(body.size + len(event.data))
                body.add(bytes(event.data))
                if pieces % _STEPS == 1:
                    await asyncio.sleep(0)

    def _check_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            raise Refused(413, f"the body is larger than {self._limits.body_bytes} bytes, the limit of this server")

    def _check_chunks(self, chunks: int, size: int) -> None:
        limits = self._limits
        if chunks > limits.tiny_chunks and size < (chunks - limits.tiny_chunks) * limits.tiny_chunk_bytes:
            raise Refused(400, f"the chunks of the body have less than {limits.tiny_chunk_bytes} bytes on average")

    # ------------------------------------------------------------------ answering

    def _share_of(self, request: h11.Request, share: Share | None) -> AbstractContextManager[Share]:
        if share is not None:
            return nullcontext(share)
        return self._all.shares.connection(claimed_by(request, origin_of(self._address)))

    async def _serve(self, request: h11.Request, share: Share) -> None:
        shares, body = self._all.shares, Body(self._limits.memory_bytes, self._all.folder)
        try:
            if not isinstance(self._peer, Unproved):        # the application counts those once they are proved
                await shares.pace(share)
            with shares.stored(share) as stored:
                async with shares.request(share):
                    await self._body(request, body, stored)
                    self.is_complete = True
                    async with shares.application(share):
                        identity = identity_of(self._peer, self._all.own_key_id)
                        asked = request_for_application(
                            request, body.size, identity, self._address, self._stream.version
                        )
                        is_stream = self._all.streams is not None and wants_stream(request)
                        if is_stream:
                            asked = asking_for_stream(asked)
                        answer = await self._all.application.ask(identity, asked, body)
                    body.close()
                    self._count_answer(answer, stored)
                    said = _allowed_stream(answer) if is_stream else None
                    if said is not None:
                        await self._switch(answer, said, share)
                    else:
                        await self._answer(request, answer)
        finally:
            body.close()

    def _count_answer(self, answer: Answer, stored: StoredBytes) -> None:
        """Count an answer that is in a file until the peer has read it. Raises Refused, although the application has
        carried out the request: peers ask again, and a message that comes twice has one effect."""
        if answer.body.size > self._limits.memory_bytes:
            try:
                stored.reach(answer.body.size)
            except Refused:
                answer.body.close()
                raise

    async def _switch(self, answer: Answer, said: Mapping[str, Any], share: Share) -> None:
        """Make the connection one that carries the stream which the application allows. Raises Refused."""
        answer.body.close()
        assert self._all.streams is not None
        self._all.streams.check(share.party_id)
        await self._send(self._http.send(switching(answer.head)))
        self._upgraded = Upgraded(self._stream, self._http.trailing_data[0], said, share.party_id)
        self.is_last = self.carries_stream = True

    async def _answer(self, request: h11.Request, answer: Answer) -> None:
        try:
            # What follows before the answer was read is not looked at: no client of a server sends ahead.
            self.is_last |= bool(self._http.trailing_data[0])
            head = response_for_peer(answer.head, answer.body.size, method=request.method, is_last=self.is_last)
            await self._send_answer(head, answer.body)
        finally:
            answer.body.close()
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE and not self.is_last:
            self._http.start_next_cycle()
        else:
            self.is_last = True
            await self._finish()

    async def _send_answer(self, head: h11.Response, body: Body) -> None:
        pace, sent = Pace(self._limits, self._clock), 0
        data = self._http.send(head)
        for piece in body.pieces():
            data += self._http.send(h11.Data(data=piece))
            sent += len(data)
            await self._send(data, pace.deadline(sent))
            data = b""
        if data := data + self._http.send(h11.EndOfMessage()):
            await self._send(data, pace.deadline(sent))

    async def _send(self, data: bytes, deadline: float | None = None) -> None:
        """Send this in time. Raises OSError."""
        async with asyncio.timeout_at(self._clock() + self._limits.grace_seconds if deadline is None else deadline):
            await self._stream.send(data)

    async def refuse(self, refusal: Refused) -> None:
        """Answer with the sentence of a refusal, and end the connection. Raises OSError."""
        self.is_last = True
        self._all.note(self._address, f"{_name_of(self._peer)}: {refusal.text}")
        proved = self._peer.party_id if isinstance(self._peer, PeerKey) else ""
        self._all.count(Cause.REQUEST, origin_of(self._address), proved, refusal.status)
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return         # a part of an answer was sent
        text = json.dumps({"retcode": refusal.status, "retmsg": refusal.text}).encode()
        fields = [
            (b"Content-Type", b"application/json"), (SRC_PARTY_ID.encode(), self._all.own_party_id.encode()),
            (b"Content-Length", str(len(text)).encode()), (b"Connection", b"close"),
            *([(b"Retry-After", b"1")] if refusal.status in _LATER else []),
        ]  # fmt: skip
        head = h11.Response(status_code=refusal.status, headers=fields, reason=HTTPStatus(refusal.status).phrase)
        with suppress(h11.LocalProtocolError):
            answer = self._http.send(head) + self._http.send(h11.Data(data=text)) + self._http.send(h11.EndOfMessage())
            await self._send(answer)
            await self._finish()

    async def _finish(self) -> None:
        await self._stream.finish(self._limits.close_seconds)


def _allowed_stream(answer: Answer) -> Mapping[str, Any] | None:
    """Return what the application says about the stream that it allows; None if it allows none: it may refuse one with
    the status 200, too."""
    if answer.head.status_code != HTTPStatus.OK or answer.body.size > _MOST_SAID:
        return None
    try:
        said = json.loads(b"".join(answer.body.pieces()))
    except ValueError:
        return None
    is_allowed = isinstance(said, dict) and said.get("retcode") == 0 and ("session" in said or said.get("call") is True)
    return said if is_allowed else None


def _name_of(peer: PeerKey | Unproved | None) -> str:
    if isinstance(peer, Unproved):
        return "a worker" if peer is Unproved.WORKER else "a caller without TLS"
    return "a stranger" if peer is None else f"party {peer.party_id}"
