"""Requests of a test that are signed: those of clients, and those of other parties."""

from __future__ import annotations

from pathlib import Path

from requests import PreparedRequest, Request
from requests.auth import AuthBase

from fate_flow.cli.connection.signature import Signature
from fate_flow.peers.signature import SiteSignature
from fate_flow.settings.client_keys import read_client_keys


def signature_of_clients(home: Path) -> AuthBase | None:
    """What signs requests to the server of this home; None where it made no keys."""
    keys = read_client_keys(home)
    return Signature(keys.app_key, keys.secret_key) if keys is not None else None


def signed_lines(home: Path, path: str) -> str:
    """The header lines of a signed request without a body, or with a form, for a test that writes bytes itself."""
    request = Request("POST", f"http://localhost{path}", auth=signature_of_clients(home)).prepare()
    names = ("TIMESTAMP", "NONCE", "APP_KEY", "SIGNATURE")
    return "".join(f"{name}: {request.headers[name]}\r\n" for name in names if name in request.headers)


class SignedByParty(AuthBase):
    """Signs requests of `requests` as a server signs its own."""

    def __init__(self, signature: SiteSignature) -> None:
        self._signature = signature

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        body = request.body or b""
        assert isinstance(body, bytes)
        method, target = str(request.method), request.path_url
        request.headers.update(self._signature.fields(method, target, request.headers, body))
        return request
