"""What is sent, drawn from a seed: input number N of a seed is always the same, but for the time in its signature."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any
from urllib.parse import quote

from tests.fuzz import party_routes
from tests.fuzz.values import JOB, ODD_TEXTS, any_value, as_bytes, changed, damaged, fitting, huge

JOBS = 40
Sign = Callable[[str, str, bytes], dict[str, str]]
"""The fields that sign a request with this method, this target and this body."""


class Listener(Enum):
    """A port of the server."""

    GATEWAY = "gateway"
    CLIENTS = "clients' port"
    PLAIN = "plain listener"
    PROXIED = "listener behind a proxy"


class Way(Enum):
    """To which listener an input goes, and over what."""

    PEER = "gateway, a joined party"
    HOLDER = "gateway, a joined party that holds connections"
    STRANGER = "gateway, a stranger"
    TLS = "gateway, no handshake"
    CLIENT = "clients' port"
    PLAIN = "plain listener"
    PROXIED = "listener behind a proxy"

    @property
    def listener(self) -> Listener:
        return _LISTENERS.get(self, Listener.GATEWAY)


_LISTENERS = {Way.CLIENT: Listener.CLIENTS, Way.PLAIN: Listener.PLAIN, Way.PROXIED: Listener.PROXIED}


class Signed(Enum):
    """How a request is signed, by a client or behind a proxy."""

    NOT = "not"
    RIGHT = "right"
    WRONG = "wrong"


@dataclass(frozen=True)
class Operation:
    """A route of clients, from the OpenAPI document."""

    method: str
    path: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A request that is still to be signed and written down."""

    method: str
    target: str
    fields: tuple[tuple[bytes, bytes], ...]
    body: bytes
    signed: Signed = Signed.NOT
    is_chunked: bool = False

    def data(self, sign: Sign) -> bytes:
        """The bytes on the wire."""
        fields = list(self.fields)
        if self.signed is not Signed.NOT:
            is_form = any(value.startswith(b"multipart/") for _, value in fields)
            target = self.target if self.signed is Signed.RIGHT else f"{self.target}x"
            signature = sign(self.method, target, b"" if is_form else self.body)     # as FATE's client signs an upload
            fields += [(key.encode(), value.encode()) for key, value in signature.items()]
        framing = (b"Transfer-Encoding", b"chunked") if self.is_chunked else (b"Content-Length", b"%d" % len(self.body))
        head = b"".join(b"%s: %s\r\n" % one for one in (*fields, framing))
        content = self.body
        if self.is_chunked:
            size = max(64, len(self.body) // 3)
            pieces = [self.body[start : start + size] for start in range(0, len(self.body), size)]
            content = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        line = f"{self.method} {self.target} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
        return line + head + b"\r\n" + content


@dataclass(frozen=True)
class Input:
    """One thing to send. `request` alone: well-formed HTTP, whose answer is awaited on a connection that stays."""

    number: int
    kind: str
    way: Way
    request: Request | None = None
    damage: Callable[[bytes], bytes] | None = None       # what the bytes of the request become
    raw: bytes = b""                                     # without a request
    cuts: tuple[int, ...] = ()                           # where the bytes are divided for sending
    hold_at: float | None = None     # the share of the bytes that is sent at once; the connection is held open then

    @property
    def is_held(self) -> bool:
        return self.hold_at is not None

    @property
    def is_clean(self) -> bool:
        return self.request is not None and self.damage is None and not self.is_held

    def pieces(self, sign: Sign) -> list[bytes]:
        """The bytes, as they are sent one after the other."""
        data = self.raw if self.request is None else self.request.data(sign)
        data = self.damage(data) if self.damage else data
        ends = sorted({min(cut, len(data)) for cut in self.cuts} | {len(data)})
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if end > start]


_KINDS: Sequence[tuple[int, Way, str]] = (
    (20, Way.PEER, "routes"), (5, Way.PEER, "fields"), (3, Way.PEER, "huge"), (8, Way.PEER, "framing"),
    (3, Way.HOLDER, "held"), (3, Way.STRANGER, "strangers"), (4, Way.TLS, "handshakes"), (2, Way.TLS, "held"),
    (26, Way.CLIENT, "routes"), (5, Way.CLIENT, "fields"), (3, Way.CLIENT, "huge"), (8, Way.CLIENT, "framing"),
    (4, Way.CLIENT, "held"),
    (12, Way.PLAIN, "routes"), (3, Way.PLAIN, "fields"), (2, Way.PLAIN, "huge"), (4, Way.PLAIN, "framing"),
    (3, Way.PLAIN, "held"),
    (9, Way.PROXIED, "routes"), (3, Way.PROXIED, "fields"), (1, Way.PROXIED, "huge"), (3, Way.PROXIED, "framing"),
    (2, Way.PROXIED, "held"),
)  # fmt: skip

_CALLERS = {Way.HOLDER: (party_routes.HOLDER, 0), Way.PLAIN: (party_routes.PLAIN, 50),
            Way.PROXIED: (party_routes.PROXIED, 0)}
"""Who sends, if not `CALLER`, and the last digits of its first job id."""
_ODD_FIELDS = (
    b"X-Fate-Flow-Peer", b"X_FATE_FLOW_PEER", b"X-Fate-Flow-Address", b"X-Fate-Flow-Tls", b"X-Forwarded-For",
    b"Forwarded", b"X-Forwarded-Proto", b"SCRIPT_NAME", b"Script-Name", b"PATH_INFO", b"X-Real-IP", b"SRC-PARTY-ID",
    b"DEST-PARTY-ID", b"SRC-FATE-VER", b"SRC_PARTY_ID", b"Content-Type", b"Content-Encoding", b"Accept",
    b"Accept-Encoding", b"Origin", b"Sec-Fetch-Site", b"Cookie", b"Authorization", b"Range", b"If-None-Match",
    b"Expect", b"Upgrade", b"TE", b"Trailer", b"Connection", b"Idempotency-Key", b"TIMESTAMP", b"NONCE", b"APP_KEY",
    b"SIGNATURE", b"Signature-Input", b"Content-Digest", b"Signature", b"Date", b"X-HTTP-Method-Override",
    b"User-Agent", b"A" * 300,
)  # fmt: skip
_ODD_VALUES = (
    b"", b"0", b"9999", b"10000", b"10001", b"10002 " + b"cd" * 32, b"-1", b"1" * 400, b"\xe4\xf6", b"a" * 7000,
    b"x, y", b"chunked", b"gzip", b"close", b"keep-alive", b"100-continue", b"websocket",
    b"application/json; charset=utf-7", b"multipart/form-data", b"multipart/form-data; boundary=" + b"b" * 300,
    b"text/plain", b"bytes=0-", b"null", b"http://evil.example", b"cross-site", b"sig1=:AAAA:",
    b'sig1=("@method" "@path");created=1', b"sha-256=:AAAA:", b"\t",
    b"%00", b"2.0.0", b"1.11.2", b"..", b"\"", b"a;b=c;d=\"e",
)  # fmt: skip
_BAD_LINES = (
    b"Content-Length: 7\r\n", b"Content-Length: 0\r\n", b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: xchunked\r\n",
    b" folded: yes\r\n", b"no colon\r\n", b": no name\r\n", b"Host: other\r\n", b"A : b\r\n", b"A: b\rC: d\r\n",
    b"A: \0\r\n", b"A: b\n", b"Expect: 200-ok\r\n", b"A: " + b"b" * 40_000 + b"\r\n",
)  # fmt: skip
_METHODS = ("GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "post", "")
_BAD_CHUNKS = (
    b"5\r\nabc", b"-3\r\nabc\r\n0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b"F" * 21 + b"\r\nabc\r\n0\r\n\r\n",
    b"3\nabc\n0\n\n", b"3\r\nabcXX0\r\n\r\n", b"3;a=" + b"b" * 9000 + b"\r\nabc\r\n0\r\n\r\n",
    b"1\r\na\r\n" * 3000 + b"0\r\n\r\n",
    b"0\r\nA b\r\n\r\n", b"0\r\nContent-Length: 60\r\n\r\n", b"zz\r\n", b"",
)  # fmt: skip


def draw(seed: int, number: int, operations: Sequence[Operation]) -> Input:
    """Input `number` of this seed, for a server that offers these routes to clients."""
    random = Random(f"{seed}:{number}")
    [(_, way, kind)] = random.choices(_KINDS, [weight for weight, _, _ in _KINDS])
    hold_at = _hold_at(random) if kind == "held" else None
    if way is Way.TLS:
        return Input(number, kind, way, raw=_no_handshake(random), cuts=_cuts(random), hold_at=hold_at)
    if kind == "framing":
        return _framed_badly(random, number, way, _request(random, way, operations))
    if kind == "huge":
        request = _request(random, way, operations)
        body = huge(random)
        return Input(number, kind, way, Request(
            "POST", request.target, request.fields, body, request.signed, random.random() < 0.3
        ))
    request = _request(random, way, operations)
    if kind == "fields":
        request = _with_odd_fields(random, request)
    return Input(number, kind, way, request, hold_at=hold_at)


def _request(random: Random, way: Way, operations: Sequence[Operation]) -> Request:
    """A request of a route, in half of the cases a good one as far as it is known, otherwise a changed one."""
    request = _of_client(random, random.choice(operations)) if way is Way.CLIENT else _of_party(random, way)
    target = request.target
    if random.random() < 0.1:
        at = random.randrange(1, len(target))
        odd = quote(random.choice(ODD_TEXTS)[:2000].encode("utf-8", "replace"), safe=random.choice(("", "/%")))
        target = target[:at] + odd + target[at + random.randrange(4) :]
    if random.random() < 0.05:
        ends = ("?", "?a=b", "//", "/", "?" + "a=b&" * 200, "%2e%2e/", ";x", "?a=%ff", "?seq=-1&seq=2")
        target += random.choice(ends)
    method = request.method if random.random() < 0.95 else random.choice(_METHODS[:7])
    return Request(method, target, request.fields, request.body, request.signed, random.random() < 0.1)


def _of_party(random: Random, way: Way) -> Request:
    path, body = party_routes.good_request(random)
    caller, first = _CALLERS.get(way, (party_routes.CALLER, 0))
    job_id = JOB[:-2] + f"{first + random.randrange(JOBS):02d}"
    said = ((JOB, job_id), (party_routes.CALLER, caller))
    if isinstance(body, bytes):
        data, content_type = body, b"application/octet-stream"
    else:
        data, content_type = _body(random, body), b"application/json"
    for old, new in said:
        path, data = path.replace(old, new), data.replace(old.encode(), new.encode())
    fields = ((b"SRC-PARTY-ID", caller.encode()), (b"DEST-PARTY-ID", party_routes.OWN.encode()),
              (b"Content-Type", content_type))  # fmt: skip
    signed = _signed(random) if way is Way.PROXIED else Signed.NOT
    return Request("POST", f"/v1{path}", fields, data, signed)


def _of_client(random: Random, operation: Operation) -> Request:
    path = operation.path
    while "{" in path:
        before, _, rest = path.partition("{")
        path = before + random.choice(("fate_flow", "10003", "a/b")) + rest.partition("}")[2]
    fields: tuple[tuple[bytes, bytes], ...] = ((b"Content-Type", b"application/json"),)
    data = _body(random, fitting(random, operation.schema))
    if path.endswith("data/upload") and random.random() < 0.5:
        described = quote(as_bytes(random, changed(random, {"file": "a.csv", "head": 1, "namespace": "n"})), safe="")
        path, fields = f"{path}?{described}", ((b"Content-Type", b"multipart/form-data; boundary=bb"),)
        data = b'--bb\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\nid,x\r\n1,2\r\n--bb--\r\n'
        data = damaged(random, data) if random.random() < 0.7 else data
    return Request(operation.method.upper(), path, fields, data, _signed(random))


def _signed(random: Random) -> Signed:
    return random.choices((Signed.RIGHT, Signed.NOT, Signed.WRONG), (85, 10, 5))[0]


def _body(random: Random, good: Any) -> bytes:
    way = random.random()
    if way < 0.3:
        return as_bytes(random, good)
    if way < 0.75:
        for _ in range(random.choice((1, 1, 2, 4))):
            good = changed(random, good)
        return as_bytes(random, good)
    if way < 0.9:
        return as_bytes(random, any_value(random))
    return damaged(random, as_bytes(random, good)) if way < 0.97 else random.randbytes(random.randrange(200))


def _with_odd_fields(random: Random, request: Request) -> Request:
    number = random.choice((1, 1, 2, 3, 8, 30))
    more = [(random.choice(_ODD_FIELDS), random.choice(_ODD_VALUES).strip()) for _ in range(number)]
    if random.random() < 0.03:
        more = [(b"X%d" % one, b"") for one in range(random.choice((70, 90, 150)))]
    fields = [one for one in request.fields if random.random() < 0.9]
    for one in more:
        fields.insert(random.randrange(len(fields) + 1), one)
    return Request(request.method, request.target, tuple(fields), request.body, request.signed, request.is_chunked)


def _framed_badly(random: Random, number: int, way: Way, request: Request) -> Input:
    seed = random.getrandbits(64)

    def damage(data: bytes) -> bytes:
        return _broken(Random(seed), data)

    return Input(number, "framing", way, request, damage, cuts=_cuts(random))


def _broken(random: Random, data: bytes) -> bytes:
    """The bytes of one connection: hardly HTTP, or more than one request."""
    line, _, rest = data.partition(b"\r\n")
    way = random.randrange(9)
    if way == 0:
        return damaged(random, data)
    if way == 1:
        return line + b"\r\n" + random.choice(_BAD_LINES) + rest
    if way == 2:
        return data[: random.randrange(len(data) + 1)]
    if way == 3:
        return data * random.choice((2, 2, 3, 20))
    if way == 4:
        _, _, tail = line.partition(b" ")
        return random.choice(_METHODS).encode() + b" " + tail + b"\r\n" + rest
    if way == 5:
        version = random.choice((b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 ", b"", b"HTTP/1.10"))
        return line.rpartition(b" ")[0] + b" " + version + b"\r\n" + rest
    if way == 6:
        head = rest.partition(b"\r\n\r\n")[0].replace(b"Content-Length", b"X-Length")
        return line + b"\r\n" + head + b"\r\nTransfer-Encoding: chunked\r\n\r\n" + random.choice(_BAD_CHUNKS)
    if way == 7:
        method, _, _ = line.partition(b" ")
        targets = (b"*", b"http://x/v1/version/get", b"x:80", b"/a#b", b"/\xff", b"/a b", b"", b"/" * 9000)
        target = random.choice(targets)
        return method + b" " + target + b" HTTP/1.1\r\n" + rest
    return random.randbytes(random.choice((1, 20, 300, 5000)))


def _no_handshake(random: Random) -> bytes:
    """Bytes that are no handshake, or the beginning of one."""
    hello = b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + random.randbytes(32) + b"\x20" + random.randbytes(32)
    hello += b"\x00\x08\x13\x02\x13\x03\x13\x01\x00\xff\x01\x00\x00\x50" + random.randbytes(0x50)
    return random.choice((
        lambda: hello, lambda: damaged(random, hello), lambda: hello[: random.randrange(len(hello))],
        lambda: random.randbytes(random.choice((1, 5, 200, 20_000))), lambda: b"",
        lambda: b"GET /v1/party/heartbeat HTTP/1.1\r\nHost: x\r\n\r\n",
        lambda: b"\x16\x03\x01\xff\xff" + random.randbytes(400), lambda: b"\x15\x03\x03\x00\x02\x02\x28",
        lambda: b"\x17\x03\x03\x00\x10" + random.randbytes(16), lambda: b"\x80\x2e\x01\x03\x01" + random.randbytes(40),
        lambda: b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n", lambda: hello * 20,
    ))()  # fmt: skip


def _hold_at(random: Random) -> float:
    """Nothing of it, all of it, or a part."""
    return random.choice((0.0, 1.0, random.random(), random.random()))


def _cuts(random: Random) -> tuple[int, ...]:
    return tuple(random.randrange(400) for _ in range(random.choice((0, 0, 0, 1, 3))))
