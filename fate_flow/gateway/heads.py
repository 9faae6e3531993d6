"""What the heads of requests and answers have to be, and which of their fields are passed on.

Nothing is passed on as it came. h11 has read a request; here it is refused, or described anew: method, target, and a
list of fields. So what the application reads is one request, the one that was read here, whatever its bytes were. What
h11 tolerates and gunicorn does not, or reads in another way, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import h11

from fate_flow.core.wire.v1.paths import EXCHANGE
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.refusals import Refused
from fate_flow.gateway.unproved import Unproved
from fate_flow.peers.tls import PeerKey

PEER, ADDRESS, TLS = b"X-Fate-Flow-Peer", b"X-Fate-Flow-Address", b"X-Fate-Flow-Tls"
UPGRADE = b"fate-flow-stream"          # what a connection becomes that carries a stream
ASKS_FOR_STREAM = b"X-Fate-Flow-Stream"         # tells the application that this gateway carries the stream
STRANGER = b"stranger"        # in place of a party id
_STREAMS = f"/v1{EXCHANGE}/stream/".encode()
_OURS = b"x-fate-flow-"
_OF_MANY = (STRANGER, *(one.value for one in Unproved))
HOST = b"127.0.0.1"           # the name in a request says nothing about who sent it, and the application checks names

Field = tuple[bytes, bytes]

METHODS = frozenset((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"))
_TARGET = re.compile(rb"/[\x21\x22\x24-\x7e]*")              # a path with a query: no fragment, no address
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")             # h11 lets control characters through
_ONE_HOP = frozenset((
    b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te",
    b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings",
))  # fmt: skip
_MADE_ANEW = frozenset((b"host", b"content-length", b"expect", b"forwarded", b"x-real-ip"))
_NOT_ANSWERED = frozenset((b"content-length", b"server"))
_SIGNED = frozenset((b"src-party-id", b"content-digest", b"signature-input", b"signature"))
_KEPT = frozenset((b"GET", b"POST"))       # after these, the connection to the application may serve another request
_ONCE = frozenset((b"content-type",))                        # gunicorn refuses a second one


def check_request(request: h11.Request, limits: Limits) -> None:
    """Raise Refused for a request that is not passed on."""
    if request.http_version != b"1.1":
        raise Refused(505, "the request is not HTTP/1.1")
    if request.method not in METHODS:
        raise Refused(501, "the method of the request is not one that this server has")
    if len(request.target) > limits.target_bytes:
        raise Refused(414, f"the path with its query is longer than {limits.target_bytes} bytes")
    if not _TARGET.fullmatch(request.target):
        raise Refused(400, "the target of the request is not a path that begins with /")
    _check_fields(list(request.headers), limits)


def _check_fields(fields: list[Field], limits: Limits) -> None:
    names = [name for name, _ in fields]
    if len(fields) > limits.head_fields:
        raise Refused(431, f"the head has more than {limits.head_fields} fields")
    if sum(len(name) + len(value) + 4 for name, value in fields) > limits.head_bytes:
        raise Refused(431, f"the head is longer than {limits.head_bytes} bytes")
    for name, value in fields:
        if len(name) + len(value) > limits.field_bytes:
            raise Refused(431, f"a field of the head is longer than {limits.field_bytes} bytes")
        if not _VALUE.fullmatch(value):
            raise Refused(400, "a field of the head has control characters")
    for name in _ONCE:
        if names.count(name) > 1:
            raise Refused(400, f"the field {name.decode()} occurs more than once")
    if b"transfer-encoding" in names and b"content-length" in names:
        raise Refused(400, "the request has both Content-Length and Transfer-Encoding")
    if any(name == b"expect" and value.lower() != b"100-continue" for name, value in fields):
        raise Refused(417, "the header Expect is not 100-continue")


def wants_stream(request: h11.Request) -> bool:
    """Return whether the connection is to carry a stream after this request. Only the routes of streams say whether it
    may: the answer of any other one means something else."""
    is_asked = request.method == b"POST" and request.target.startswith(_STREAMS)
    return is_asked and any(name == b"upgrade" and value.lower() == UPGRADE for name, value in request.headers)


def asking_for_stream(asked: h11.Request) -> h11.Request:
    """Return what the application is asked before a connection carries a stream, of the request as it would get it."""
    return h11.Request(method=asked.method, target=asked.target, headers=[*asked.headers, (ASKS_FOR_STREAM, b"1")])


def switching(allowed: h11.Response) -> h11.InformationalResponse:
    """Return the answer after which a connection carries a stream, with the signature of that of the application."""
    fields = [(name, value) for name, value in _passed_on(allowed, _NOT_ANSWERED) if name.lower() in _SIGNED]
    fields += [(b"Connection", b"Upgrade"), (b"Upgrade", UPGRADE)]
    return h11.InformationalResponse(status_code=101, headers=fields)


def announced_bytes(request: h11.Request) -> int:
    """Return the length that a request announces for its body; 0 if it announces none."""
    return next((int(value) for name, value in request.headers if name == b"content-length"), 0)


def identity_of(peer: PeerKey | Unproved | None, own_key_id: str) -> bytes:
    """Return how the application is told who asks: the party and its key; of a stranger, the key of this server that
    the stranger has seen; of others whose key nobody has verified, how they came."""
    if isinstance(peer, Unproved):
        return peer.value
    return STRANGER + f" {own_key_id}".encode() if peer is None else f"{peer.party_id} {peer.key_id}".encode()


def request_for_application(
    request: h11.Request, length: int, identity: bytes, address: str, tls: str
) -> h11.Request:  # fmt: skip
    """Return the request as the application gets it, with a body of this length. `tls`: the version on the connection
    of the peer.

    Its connection may serve another request with the same identity, except one that many callers have."""
    is_kept = request.method in _KEPT and not identity.startswith(_OF_MANY)
    fields = [
        (b"Host", HOST),
        (PEER, identity),
        (ADDRESS, address.encode()),
        (TLS, tls.encode()),
        *([] if is_kept else [(b"Connection", b"close")]),
        (b"Content-Length", str(length).encode()),
        *_passed_on(request, _MADE_ANEW),
    ]
    return h11.Request(method=request.method, target=request.target, headers=fields)


def _passed_on(message: h11.Request | h11.Response, left_out: frozenset[bytes]) -> Iterator[Field]:
    """Yield the fields that are passed on. `SRC_PARTY_ID` would be another spelling of `SRC-PARTY-ID` to the
    application (WSGI), and no field between servers has an underscore: those that do are left out."""
    named = set(_named_by_connection(message.headers))
    for raw_name, value in message.headers.raw_items():
        name = raw_name.lower()
        is_ours = name.replace(b"_", b"-").startswith((_OURS, b"x-forwarded-"))
        if not is_ours and b"_" not in name and name not in _ONE_HOP and name not in left_out and name not in named:
            yield raw_name, value


def _named_by_connection(fields: Iterable[Field]) -> Iterator[bytes]:
    """Yield the names that a sender has declared to be for the next hop alone."""
    for name, value in fields:
        if name == b"connection":
            yield from (one.strip().lower() for one in value.split(b","))


def response_for_peer(response: h11.Response, length: int, *, method: bytes, is_last: bool) -> h11.Response:
    """Return an answer of the application as the peer gets it; `is_last`: the connection ends after it."""
    fields = list(_passed_on(response, _NOT_ANSWERED))
    if method == b"HEAD":
        fields += [(name, value) for name, value in response.headers if name == b"content-length"]
    elif response.status_code not in (204, 304):
        fields.append((b"Content-Length", str(length).encode()))
    if is_last:
        fields.append((b"Connection", b"close"))
    return h11.Response(status_code=response.status_code, headers=fields, reason=response.reason)
