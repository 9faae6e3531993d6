"""HTTP requests to the servers of other parties. Time and size of every request are limited, whatever they send.

The limits are kept at the socket (bounded_connections.py). A connection that exceeds one is closed at once.

The requests are sent by urllib3. `requests`, which is built on it, takes as long again for sessions, cookies and
redirects, of which there are none between parties. Errors are those of `requests`, as of every other HTTP request here.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlencode

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH
from urllib3 import BaseHTTPResponse, HTTPConnectionPool, HTTPHeaderDict, PoolManager, Retry, Timeout
from urllib3.exceptions import (
    ClosedPoolError,
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)
from urllib3.util import Url, make_headers, parse_url

from fate_flow.core.access.joined_party import DIALED
from fate_flow.core.metrics.measures import ANSWERED, PEER_REQUESTS, PEER_SECONDS, Measures, Unmeasured
from fate_flow.core.model.errors import FlowError
from fate_flow.core.wire.v1.envelope import DEST_PARTY_ID, MOST_VALUES, SRC_PARTY_ID, values_in
from fate_flow.peers.bounded_connections import (
    CONNECT_SECONDS,
    DIALED_HOST,
    AnswerTooLong,
    Bounds,
    MakePool,
    PlainPool,
    TlsPool,
    bound_by,
    dialed_pools,
    no_tls,
    pinned_pools,
)
from fate_flow.peers.network_errors import class_of_error
from fate_flow.peers.pinned import Recognised, Recognises
from fate_flow.peers.signature import SiteSignature
from fate_flow.peers.tls import NotAPeer

_MOST_SERVERS = 256          # servers to which connections are kept
_PIECE_BYTES = 64 * 1024
_USUAL = {"User-Agent": "fate_flow", "Connection": "keep-alive"}
_OURS = ("Accept-Encoding", "Content-Length", "Transfer-Encoding")       # not those of a caller
_ONCE = Retry(total=False, redirect=False)   # errors come as they are


@dataclass(frozen=True)
class PeerResponse:
    """The complete answer of another server."""

    status: int
    body: bytes
    said_by: str             # the party id in the header of the answer; empty from plain v1 servers

    def document(self) -> Any:
        """Return the body as JSON. Raises ValueError if it is not JSON, or too deep or too large to be read."""
        if values_in(self.body) > MOST_VALUES:
            raise ValueError(f"its answer has more than {MOST_VALUES} values")
        try:
            return json.loads(self.body)
        except RecursionError as error:
            raise ValueError("its answer is nested too deeply") from error


OnRequest = Callable[[str, str, bool], None]
"""Called after a request: the party id, the URL, and whether there was an answer."""


@dataclass(frozen=True)
class _Request:
    """What is sent, and where; `head` without signatures and a login."""

    address: str
    url: Url                 # of the address, as urllib3 knows it
    head: Mapping[str, str]
    body: bytes
    ca_file: str
    most_bytes: int

    @property
    def to(self) -> str:
        """The id of the party; empty if the head does not name it."""
        return self.head.get(DEST_PARTY_ID, "")


class PeerHttp:
    """Kept-alive connections to other parties' servers; may be shared by threads."""

    def __init__(
        self, auth: SiteSignature | None = None, connections: int = 10, pinned: Recognises | None = None,
        dialed: Path | None = None, measures: Measures | None = None, on_request: OnRequest | None = None,
    ) -> None:  # fmt: skip
        """`auth` signs each request, and checks the answers that have to be signed; at most `connections` to one
        server are kept open. `pinned`: the parties whose https servers are recognised by their keys, instead of by
        certificates of an authority. `dialed`: the socket of the own gateway for parties that keep connections open
        there (`dialed.py`). `measures`: where requests are counted. `on_request` is called after each of them."""
        self._auth = auth
        self._connections = connections
        self._pinned = pinned
        self._measures = measures or Unmeasured()
        self._on_request: OnRequest = on_request or (lambda *_: None)
        self._pools = self._make_pools({"http": PlainPool, "https": TlsPool}, _MOST_SERVERS)
        self._pools_of: dict[str, tuple[Recognised, PoolManager]] = {}
        self._to_dialing: PoolManager | None = None
        if dialed is not None:
            self._to_dialing = self._make_pools({"http": dialed_pools(dialed, pinned)}, _MOST_SERVERS)
        self._lock = threading.Lock()

    def post(
        self, url: str, data: bytes, head: Mapping[str, str], *, seconds: float, most_bytes: int, ca_file: str = "",
        query: Mapping[str, str | int] | None = None,
    ) -> PeerResponse:
        """Send a request and return the answer, with any status, within `seconds` and `most_bytes` altogether.

        Redirects are not followed. `ca_file`: certificates for the https server instead of keys and usual authorities.
        `head` names the party (DEST-PARTY-ID). `query`: of an address that has none yet.
        If the server has closed a kept connection meanwhile, the request is sent again; it may arrive twice.
        Raises requests.RequestException if there is no complete answer in time; ValueError for an answer that is not
        accepted."""
        to, begin = head.get(DEST_PARTY_ID, ""), time.monotonic()
        try:
            request = _Request(url, _parsed(url, query), head, data, ca_file, most_bytes)
            with bound_by(Bounds(seconds)) as bounds:
                try:
                    answer = self._exchange(request, bounds)
                except requests.exceptions.ConnectionError as error:
                    if isinstance(error, requests.exceptions.Timeout) or bounds.has_connected:
                        raise
                    answer = self._exchange(request, bounds)
        except (requests.RequestException, ValueError) as error:
            self._measures.count(PEER_REQUESTS, to, class_of_error(error))
            self._on_request(to, url, False)
            raise
        self._measures.count(PEER_REQUESTS, to, ANSWERED)
        self._on_request(to, url, True)
        self._measures.observe(PEER_SECONDS, to, value=time.monotonic() - begin)
        return answer

    def close(self) -> None:
        for pools in (self._pools, self._to_dialing, *(pools for _, pools in self._pools_of.values())):
            if pools is not None:
                pools.clear()

    def _make_pools(self, by_scheme: Mapping[str, MakePool], servers: int) -> PoolManager:
        pools = PoolManager(num_pools=servers, maxsize=self._connections)
        pools.pool_classes_by_scheme = cast(Any, by_scheme)      # urllib3 calls them, and names classes alone
        return pools

    def _pools_for(self, request: _Request) -> PoolManager:
        """Return the connections that a request may use. Raises requests.RequestException."""
        if request.address.startswith(DIALED):
            if self._to_dialing is None:
                raise requests.exceptions.InvalidSchema(f"{request.address}: there is no gateway to which parties dial")
            return self._to_dialing
        is_pinned = request.url.scheme == "https" and not request.ca_file
        return self._pools_of_party(request.to) if is_pinned else self._pools

    def _pools_of_party(self, party_id: str) -> PoolManager:
        """Return those to a party with the keys and the own certificate of this moment, without connections that were
        made with older ones. Raises requests.RequestException."""
        try:
            pinned = self._pinned.of(party_id) if self._pinned else None
        except (FlowError, NotAPeer) as error:
            if isinstance(error, NotAPeer):
                self._forget(party_id)
            raise requests.exceptions.SSLError(no_tls(str(error))) from error
        if pinned is None:
            self._forget(party_id)
            return self._pools
        with self._lock:
            before = self._pools_of.get(party_id)
            if before is not None and before[0] is pinned:
                return before[1]
            pools = self._make_pools({"https": pinned_pools(pinned)}, 1)
            self._pools_of[party_id] = (pinned, pools)
        if before is not None:
            before[1].clear()        # a connection in use ends after its request
        return pools

    def _forget(self, party_id: str) -> None:
        """Close what was kept for a party that is no longer recognised by its keys."""
        with self._lock:
            _, pools = self._pools_of.pop(party_id, (None, None))
        if pools is not None:
            pools.clear()

    def _exchange(self, request: _Request, bounds: Bounds) -> PeerResponse:
        pools = self._pools_for(request)        # also for the second try: keys may have changed
        url, is_recognised, head = request.url, pools is not self._pools, _head_of(request)
        if self._auth is not None:
            head.update(self._auth.fields("POST", url.request_uri, head, request.body))
        else:
            head.update(login_fields(url))
        options = _authorities(request.ca_file) if url.scheme == "https" and not is_recognised else {}
        pool = pools.connection_from_host(url.host, url.port, url.scheme, options)
        response = _answered(pool, request, head, bounds)
        try:
            body = _body_of(response, bounds, request.most_bytes)
        except ReadTimeoutError as error:
            raise requests.exceptions.ReadTimeout(error) from error
        except HTTPError as error:
            raise requests.exceptions.ChunkedEncodingError(error) from error
        finally:
            response.close()
            response.release_conn()
        if self._auth is not None:
            self._auth.check_answer(request.to, head, response.status, response.headers, body)
        if self._pinned is not None and is_recognised:
            self._pinned.has_answered(request.to)
        return PeerResponse(response.status, body, response.headers.get(SRC_PARTY_ID, ""))


def login_fields(url: Url) -> dict[str, str]:
    """Return the field of the head that shows the login of an address to whoever asks for one there, such as a proxy;
    none if it has no login."""
    return make_headers(basic_auth=unquote(url.auth)) if url.auth else {}


def _head_of(request: _Request) -> HTTPHeaderDict:
    """Return the fields that are sent, by names in any case: a caller may have read some of them from a file."""
    head = HTTPHeaderDict(_USUAL)
    for name, value in request.head.items():
        head[name] = value
    for name in _OURS:
        head.discard(name)
    head["Accept-Encoding"] = "identity"
    return head


def _parsed(address: str, query: Mapping[str, str | int] | None) -> Url:
    """Return the parts of an address, percent-encoded as they are sent; a party that dials is the name of a host.
    Raises requests.exceptions.InvalidURL, without the address, which may have a password."""
    url = f"http://{DIALED_HOST}{address.removeprefix(DIALED)}" if address.startswith(DIALED) else address
    bad = requests.exceptions.InvalidURL("its address is not https://HOST:PORT/PATH")
    try:
        found = parse_url(f"{url}?{urlencode(query)}" if query else url)
    except LocationParseError as error:
        raise bad from error
    if not found.host or found.scheme not in ("http", "https"):
        raise bad
    return found


def _authorities(ca_file: str) -> dict[str, str]:
    """Return how a server is recognised that has no keys here: by this file, or folder, or the usual authorities.
    Raises requests.exceptions.SSLError."""
    at = ca_file or str(DEFAULT_CA_BUNDLE_PATH)
    if not os.path.exists(at):
        raise requests.exceptions.SSLError(no_tls(f"the authorities of its certificate: there is no file {at}"))
    return {"cert_reqs": "CERT_REQUIRED", "ca_cert_dir" if os.path.isdir(at) else "ca_certs": at}


def _answered(
    pool: HTTPConnectionPool, request: _Request, head: Mapping[str, str], bounds: Bounds
) -> BaseHTTPResponse:  # fmt: skip
    """Send a request, and return its answer as far as its head. Raises requests.RequestException."""
    try:
        seconds = bounds.wait_seconds()
        return pool.urlopen(
            "POST", request.url.request_uri, request.body, head, _ONCE, redirect=False, preload_content=False,
            decode_content=False, timeout=Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds),
        )  # fmt: skip
    except (ReadTimeoutError, TimeoutError) as error:
        raise requests.exceptions.ReadTimeout(error) from error
    except (ProtocolError, NewConnectionError, ClosedPoolError, OSError) as error:
        raise requests.exceptions.ConnectionError(error) from error
    except ConnectTimeoutError as error:         # of which NewConnectionError is one
        raise requests.exceptions.ConnectTimeout(error) from error
    except SSLError as error:
        raise requests.exceptions.SSLError(error) from error
    except HTTPError as error:
        raise requests.RequestException(error) from error


def _body_of(response: BaseHTTPResponse, bounds: Bounds, most_bytes: int) -> bytes:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise ValueError(f"its answer has the Content-Encoding {encoding[:20]!r}, which was not asked for")
    too_long = AnswerTooLong(f"its answer is longer than {most_bytes} bytes")
    if int(response.length_remaining or 0) > most_bytes:
        raise too_long
    body = bytearray()
    for piece in response.stream(_PIECE_BYTES, decode_content=False):
        body += piece
        if len(body) > most_bytes:
            raise too_long
        bounds.give(2 * len(piece))
    return bytes(body)


