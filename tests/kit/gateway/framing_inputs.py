"""Bytes that two servers could read as different requests, and unusual ones that mean one request."""

from __future__ import annotations

OTHER = b"POST /v1/initiator/stolen HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

REFUSED: dict[str, tuple[bytes, int]] = {
    "length and chunks": (
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + OTHER, 400),
    "chunks and length": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + OTHER, 400),
    "two lengths": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 60\r\n\r\n" + OTHER, 400),
    "two lengths in one field": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0, 60\r\n\r\n" + OTHER, 400),
    "a signed length": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nabcd" + OTHER, 400),
    "a length in other digits": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: \xb2\r\n\r\nab" + OTHER, 400),
    "a hidden coding": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + OTHER, 501),
    "two codings": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + OTHER, 501),
    "two fields of codings": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 501),
    "a coding with a control character": (
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + OTHER, 400),
    "a chunk with a bad end": (CHUNKED + b"3\r\nabcXX0\r\n\r\n" + OTHER, 400),
    "a chunk with half an end": (CHUNKED + b"3\r\nabc\n\r0\r\n\r\n" + OTHER, 400),
    "a chunk size with a sign": (CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n", 400),
    "a chunk size with a prefix": (CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n", 400),
    "a chunk size that ends with LF": (CHUNKED + b"3\nabc\r\n0\r\n\r\n" + OTHER, 400),
    "a blank before the colon": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length : 60\r\n\r\n" + OTHER, 400),
    "a blank before the name": (b"POST / HTTP/1.1\r\n Content-Length: 60\r\nHost: x\r\n\r\n" + OTHER, 400),
    "a field without a colon": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length\r\n\r\n" + OTHER, 400),
    "CR within a field": (b"POST / HTTP/1.1\r\nHost: x\r\nA: b\rContent-Length: 60\r\n\r\n" + OTHER, 400),
    "NUL within a field": (b"POST / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 400),
    "a control character within a field": (b"POST / HTTP/1.1\r\nHost: x\r\nA: b\x01c\r\n\r\n", 400),
    "DEL within a field": (b"POST / HTTP/1.1\r\nHost: x\r\nA: b\x7fc\r\n\r\n", 400),
    "the target of a proxy": (b"GET http://127.0.0.1/v1/party/list HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "the target of a tunnel": (b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\n" + OTHER, 501),
    "CONNECT with a path": (b"CONNECT / HTTP/1.1\r\nHost: x\r\n\r\n" + OTHER, 501),
    "the target of the server": (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "an address as target": (b"GET 127.0.0.1:80 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a fragment": (b"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "bytes beyond ASCII in the target": (b"GET /\xe4 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a second target": (b"GET / /v1/job/stop HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "a small method": (b"post / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    "an unknown method": (b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    "TRACE": (b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    "HTTP/1.0": (b"GET / HTTP/1.0\r\nHost: x\r\n\r\n", 505),
    "HTTP/1.0 with chunks": (
        b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + OTHER, 505),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "no Host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "two content types": (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Type: a\r\nContent-Type: b\r\n\r\n", 400),
    "another expectation": (b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\nContent-Length: 0\r\n\r\n", 417),
    "a bad end of the trailers": (CHUNKED + b"0\r\nA b\r\n\r\n" + OTHER, 400),
    "an end within the body": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\n\r\nabc", 400),
    "an end within the chunks": (CHUNKED + b"5\r\nabc", 400),
    "an end within the head": (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Le", 400),
}  # fmt: skip
"""By name, what is refused, and the status. Each is a whole connection: its sender ends after it."""

CLEAN: dict[str, bytes] = {
    "the same length twice": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "chunks in capitals": CHUNKED.replace(b"chunked", b"CHUNKED") + b"A;x=y\r\n0123456789\r\n0\r\nB: c\r\n\r\n",
    "folded lines": b"POST / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\tX-Fate-Flow-Peer: 10001\r\n\r\n",
    "lines that end with LF": b"POST / HTTP/1.1\nHost: x\nContent-Length: 2\n\nab",
    "an upgrade": b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "an upgrade to HTTP/2": (
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        b"Connection: Upgrade, HTTP2-Settings\r\n\r\n"),
    "fields for one hop": (
        b"POST / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, A\r\nA: b\r\nTE: trailers\r\nKeep-Alive: 3\r\n"
        b"Proxy-Connection: close\r\nContent-Length: 0\r\n\r\n"),
    "two slashes": b"GET //x/y?z=//a HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes beyond ASCII in a field": b"GET / HTTP/1.1\r\nHost: x\r\nA: \xe4\xf6\r\n\r\n",
    "an empty field": b"GET / HTTP/1.1\r\nHost: x\r\nA:\r\n\r\n",
}  # fmt: skip
"""By name, what is passed on as one request."""
