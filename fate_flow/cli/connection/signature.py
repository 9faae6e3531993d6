"""Sign a request with an app key, as the genuine client does (client-api-v1, section 1)."""

from __future__ import annotations

import hmac
import time
from base64 import b64encode
from uuid import uuid1

from requests import PreparedRequest
from requests.auth import AuthBase


class Signature(AuthBase):
    """Add the four headers that identify the sender."""

    def __init__(self, app_key: str, secret_key: str) -> None:
        self._app_key = app_key
        self._secret_key = secret_key

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        timestamp, nonce = str(time.time_ns() // 1_000_000), str(uuid1())
        signature = sign(self._secret_key, timestamp, nonce, self._app_key, request.path_url, _json_body(request))
        request.headers.update({
            "TIMESTAMP": timestamp, "NONCE": nonce, "APP_KEY": self._app_key, "SIGNATURE": signature,
        })
        return request


def sign(secret_key: str, timestamp: str, nonce: str, app_key: str, path: str, body: bytes, form: bytes = b"") -> str:
    """Return the signature over these parts; it does not cover an uploaded file."""
    parts = (timestamp.encode(), nonce.encode(), app_key.encode(), path.encode(), body, form)
    return b64encode(hmac.digest(secret_key.encode(), b"\n".join(parts), "sha1")).decode("ascii")


def _json_body(request: PreparedRequest) -> bytes:
    if str(request.headers.get("Content-Type", "")).startswith("multipart/"):
        return b""                  # a form with a file: the signature does not cover it
    body = request.body
    if isinstance(body, str):
        return body.encode()
    return body if isinstance(body, bytes) else b""
