"""The worker's end of the exchange: messages to and from the workers of the same task at other parties.

A worker sends requests to its own server only. Chunks are numbered for each topic, party and direction, so a request
that is repeated after a lost answer changes nothing. Errors that a repetition cannot help (the session has ended, the
token is unknown) are raised at once.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Protocol
from urllib.parse import urlencode, urlsplit

from fate_flow.components.base.errors import ExchangeError, shown
from fate_flow.components.base.own_servers import ExchangeAddress
from fate_flow.core.model.spec import Party

log = logging.getLogger(__name__)

CHUNK = 1024 * 1024
WAIT_MS = 1000
GIVE_UP_SECONDS = 600.0
"""How long the own server, or that of the peer, may be away; a restart takes much less."""

OK = 200
NOTHING_YET = 204
NOT_IN_TIME = 408         # a part of the request came too late: this process stood still, or the way is slow
PEER_IS_FULL = 429
NO_FREE_SLOT = 503
AGAIN = frozenset({NOT_IN_TIME, 425, 502, NO_FREE_SLOT, 507})
FATAL: Mapping[int, str] = {
    401: "this task's token is not known",
    403: "the server of the receiver refuses its messages",
    404: "it is not a party of this task",
    409: "the numbering of messages does not match",
    410: "the session has ended: the task was stopped, or it restarts",
    413: "a chunk is larger than the server takes",
}
_MOST_ANSWER = 16 * 1024 * 1024
"""Bytes; a chunk has at most 4 MiB."""
_CHUNK_COSTS = 64        # bytes that a chunk takes at least
PAUSES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before each repetition; the first is at once, because a kept-alive connection may just have been closed."""


class Channel(Protocol):
    """Messages between the parties of a task, in order for each topic and pair of parties.

    Several threads may use a channel, if each topic and party is used by one thread only."""

    def push(self, topic: str, to: Party, message: bytes) -> None:
        """Send a message; it has reached the receiver's server when this returns."""

    def pop(self, topic: str, frm: Party) -> bytes:
        """Return the next message; wait for it for as long as the task may run."""

    def release(self, topic: str, frm: Party) -> None:
        """Drop what the own server still holds of this topic. The end of a task does this by itself."""


@dataclass(frozen=True)
class ExchangeReply:
    """The answer of the own server."""

    status: int
    body: bytes = b""
    is_last: bool = True
    pause_seconds: float = 0.0     # how long the server asks the worker to wait


class Transport(Protocol):
    def __call__(self, operation: str, query: Mapping[str, str | int], body: bytes) -> ExchangeReply:
        """Send one request. Raises OSError or HTTPException if no answer comes."""


class HttpTransport:
    """Sends requests to the own server, over one kept-alive connection for each thread."""

    def __init__(self, url: str, token: str, timeout_seconds: float = 60.0, servers: str = "") -> None:
        """`servers`: the folder with the addresses of the party's servers, if it has several."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ExchangeError(f"conf.federation.metadata.exchange.url: {shown(url)} is not http://HOST:PORT/...")
        self._address = ExchangeAddress(url, servers)
        self._path = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        self._timeout_seconds = timeout_seconds
        self._of_thread = threading.local()

    def __call__(self, operation: str, query: Mapping[str, str | int], body: bytes) -> ExchangeReply:
        """Send one request. Raises OSError or HTTPException if no answer comes."""
        url, connection = self._connection()
        try:
            connection.request("POST", f"{self._path}/{operation}?{urlencode(query)}", body, self._headers)
            response = connection.getresponse()
            return _answer(response)
        except BaseException:
            connection.close()   # the next request opens it again
            self._address.try_another(url)
            raise

    def _connection(self) -> tuple[str, HTTPConnection]:
        """Return the connection of this thread, and the URL to which it goes."""
        url = self._address.url
        found: tuple[str, HTTPConnection] | None = getattr(self._of_thread, "connection", None)
        if found is None or found[0] != url:
            if found is not None:
                found[1].close()
            parts = self._address.parts
            found = url, HTTPConnection(str(parts.hostname), parts.port, timeout=self._timeout_seconds)
            self._of_thread.connection = found
        return found


@dataclass
class _Patience:
    """The pauses between repetitions of one request, and when to give up."""

    channel: HttpChannel
    what: str
    started: float
    repeated: int = 0

    def wait(self, why: str) -> None:
        """Wait until the request may be repeated. Raises ExchangeError after too long a time."""
        waited = self.channel.now() - self.started
        if waited >= self.channel.give_up_seconds:
            raise ExchangeError(f"{self.what}: no success within {waited:.0f} seconds, the last answer was: {why}")
        if self.repeated == len(PAUSES):   # once, when the failure lasts longer than a moment
            log.warning("%s: %s, asking again for up to %.0f seconds", self.what, why, self.channel.give_up_seconds)
        self.channel.sleep(PAUSES[min(self.repeated, len(PAUSES) - 1)])
        self.repeated += 1

    def start_over(self) -> None:
        """Restart the time limit, and keep the pauses short, so that a stream is not slowed down."""
        self.started = self.channel.now()
        self.repeated = min(self.repeated, PAUSES.index(0.2))


def half_of_memory() -> int:
    """Return the bytes of half of this machine's memory: a message that is put together takes it twice."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


@dataclass
class HttpChannel:
    """A `Channel` through the own server's worker routes."""

    transport: Transport
    give_up_seconds: float = GIVE_UP_SECONDS
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    most_bytes: int = field(default_factory=half_of_memory)      # of one message
    _pushed: dict[tuple[str, Party], int] = field(default_factory=dict)
    _popped: dict[tuple[str, Party], int] = field(default_factory=dict)

    def push(self, topic: str, to: Party, message: bytes) -> None:
        """Send the message in chunks; return when the receiver's server has all of them."""
        view = memoryview(message)
        starts = range(0, max(len(message), 1), CHUNK)
        seq = self._pushed.get((topic, to), 0)
        for start in starts:
            query = {**_peer(topic, to), "seq": seq, "last": int(start == starts[-1])}
            self._ask("push", query, f"push of {topic} to {to}", bytes(view[start:start + CHUNK]))
            seq += 1
            self._pushed[topic, to] = seq

    def pop(self, topic: str, frm: Party) -> bytes:
        """Return the next message; ask again without a limit as long as the server says that nothing came yet.

        Raises ExchangeError if the message is too long: only its sender decides when it ends."""
        chunks, size = [], 0
        seq = self._popped.get((topic, frm), 0)
        while True:
            query = {**_peer(topic, frm), "seq": seq, "wait_ms": WAIT_MS}
            answer = self._ask("pop", query, f"pop of {topic} from {frm}")
            if answer.status == NOTHING_YET:
                self.sleep(answer.pause_seconds)   # above 0 if the server had no free thread to wait
                continue
            chunks.append(answer.body)
            size += max(len(answer.body), _CHUNK_COSTS)
            if size > self.most_bytes:
                raise ExchangeError(
                    f"pop of {topic} from {frm}: the message is longer than {self.most_bytes} bytes, half of the "
                    "memory of this machine: it could not be put together"
                )
            seq += 1
            self._popped[topic, frm] = seq
            if answer.is_last:
                return b"".join(chunks)

    def release(self, topic: str, frm: Party) -> None:
        """Drop what the own server still holds of this topic."""
        self._ask("release", _peer(topic, frm), f"release of {topic} from {frm}")

    def _ask(self, operation: str, query: Mapping[str, str | int], what: str, body: bytes = b"") -> ExchangeReply:
        """Repeat a request until the answer is 200 or 204. Raises ExchangeError for a final error, or after too long a
        time."""
        patience = _Patience(self, what, self.now())
        while True:
            try:
                answer = self.transport(operation, query, body)
            except (OSError, HTTPException) as error:
                patience.wait(f"no answer from the own server ({_why(error)})")
                continue
            if answer.status in (OK, NOTHING_YET):
                return answer
            if _is_mere_waiting(operation, answer.status):
                patience.start_over()
            elif answer.status not in AGAIN:
                raise ExchangeError(f"{what}: {_reason(answer)}")
            patience.wait(_reason(answer))


def _why(error: OSError | HTTPException) -> str:
    if isinstance(error, TimeoutError):
        return "not in time"
    return (error.strerror if isinstance(error, OSError) else None) or "connection lost"


def open_http_channel(url: str, token: str, servers: str = "") -> HttpChannel:
    """Return the channel through the own server; `servers` as for `HttpTransport`."""
    return HttpChannel(HttpTransport(url, token, servers=servers))


def _answer(response: HTTPResponse) -> ExchangeReply:
    pause_ms, body = response.getheader("Retry-After-Ms", "0"), response.read(_MOST_ANSWER + 1)
    if len(body) > _MOST_ANSWER:
        raise HTTPException(f"the answer is longer than {_MOST_ANSWER} bytes")
    return ExchangeReply(
        response.status,
        body,
        is_last=response.getheader("X-Last", "1") == "1",
        pause_seconds=min(int(pause_ms), 1000) / 1000 if pause_ms.isdecimal() else 0.0,
    )


def _is_mere_waiting(operation: str, status: int) -> bool:
    """Return whether all servers work, so that only the task's own time limit may end the wait.

    This holds if the receiver is still busy with earlier messages, or if a pop found nothing yet and the server had no
    free thread to wait for it."""
    return status == PEER_IS_FULL or (operation == "pop" and status == NO_FREE_SLOT)


def _peer(topic: str, party: Party) -> dict[str, str | int]:
    return {"topic": topic, "role": party.role, "party_id": party.party_id}


def _reason(answer: ExchangeReply) -> str:
    meaning = FATAL.get(answer.status, "")
    said = _retmsg(answer.body)
    return " ".join(part for part in (str(answer.status), meaning, said and f"({said})") if part)


def _retmsg(body: bytes) -> str:
    """Return the message of the server on one line; empty if the body has another form."""
    try:
        said = json.loads(body)["retmsg"]
    except (ValueError, KeyError, TypeError):
        return ""
    return shown(said, 200)
