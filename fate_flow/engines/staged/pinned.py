"""Requests of a worker on another host to its server: TLS 1.3, and the server is the one with the pinned key."""

from __future__ import annotations

import hmac
import json
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_MOST_ANSWER = 64 * 1024 * 1024
_SECONDS = 30.0


class WrongServer(Exception):
    """Whoever answers at the address of the server has another key than the worker was told."""


@dataclass(frozen=True)
class ServerAt:
    """The address of the server, and the digest of its key."""

    host: str
    port: int
    pin: str                 # sha256: and 64 hex digits

    @classmethod
    def of(cls, address: str, pin: str) -> Self:
        """Read HOST:PORT and a pin. Raises ValueError, naming what is wrong."""
        parts = urlsplit(f"//{address}")
        if not parts.hostname or parts.port is None:
            raise ValueError(f"{address!r} is not HOST:PORT, the address of the server")
        digest = pin.removeprefix("sha256:")
        if digest == pin or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise ValueError(f"{pin!r} is not sha256: with 64 hex digits, the digest of the server's key")
        return cls(parts.hostname, parts.port, pin)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect(self, seconds: float = _SECONDS) -> ssl.SSLSocket:
        """Return a connection to the server with this key. Raises WrongServer before anything is sent; OSError."""
        sock = socket.create_connection((self.host, self.port), timeout=seconds)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            tls = _context().wrap_socket(sock)
        except BaseException:
            sock.close()
            raise
        found = pin_of(tls.getpeercert(binary_form=True) or b"")
        if not hmac.compare_digest(found, self.pin):
            tls.close()
            raise WrongServer(
                f"the server at {self} has the key {found}, and this worker was told {self.pin}: nothing is sent "
                "there. Either another server answers at this address, or the key of the server has changed since "
                "the worker was placed"
            )
        return tls


def pin_of(certificate: bytes) -> str:
    """Return the digest of the key in a certificate (DER). Raises WrongServer if there is none."""
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
        public = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, x509.InvalidVersion) as error:
        raise WrongServer("the server has shown no certificate that can be read") from error
    return f"sha256:{sha256(public).hexdigest()}"


def _context() -> ssl.SSLContext:
    """TLS itself proves that the server has the key in its certificate; `connect` compares that key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Connection(HTTPConnection):
    def __init__(self, server: ServerAt, seconds: float) -> None:
        super().__init__(server.host, server.port, timeout=seconds)
        self._server = server
        self._seconds = seconds

    def connect(self) -> None:
        self.sock = self._server.connect(self._seconds)


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body as an object; an empty one if it is none."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def text(self) -> str:
        """Return what the server says, for people."""
        return str(self.json().get("retmsg") or f"HTTP status {self.status}")


class PinnedClient:
    """Sends requests with a token over one connection, which is opened again after a failure. For one thread."""

    def __init__(self, server: ServerAt, token: str, seconds: float = _SECONDS) -> None:
        self.show(token)
        self._connection = _Connection(server, seconds)

    def show(self, token: str) -> None:
        """Send this token from now on."""
        self._fields = {"Authorization": f"Bearer {token}"}

    def ask(
        self, method: str, path: str, query: Mapping[str, str | int] | None = None, body: bytes = b"",
        fields: Mapping[str, str] | None = None,
    ) -> Answer:  # fmt: skip
        """Send one request. Raises WrongServer; OSError or HTTPException if no answer comes."""
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            self._connection.request(method, target, body or None, {**self._fields, **(fields or {})})
            return _read(self._connection.getresponse())
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()


def _read(response: HTTPResponse) -> Answer:
    body = response.read(_MOST_ANSWER + 1)
    if len(body) > _MOST_ANSWER:
        raise HTTPException(f"the answer is longer than {_MOST_ANSWER} bytes")
    return Answer(response.status, body)
