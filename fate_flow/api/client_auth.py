"""Whether a client may ask: requests are signed as FATE's clients sign them (client-api-v1, section 1).

The signature covers time, nonce, path with query as sent, and a JSON body or the fields of a form; no file. A request
is taken once, and within a minute of its time by the clock of this machine (`nonces.py`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from hmac import compare_digest, digest
from itertools import product
from urllib.parse import quote, unquote, urlencode

from flask import current_app, g, request
from werkzeug.exceptions import HTTPException

from fate_flow.api.envelope import leads_to_a_file
from fate_flow.api.nonces import Nonces
from fate_flow.core.errors import BadRequest, PermissionDenied
from fate_flow.settings import ClientKeys

WINDOW_MS = 60_000
SIGNED_WITH = ("TIMESTAMP", "NONCE", "APP-KEY", "SIGNATURE")     # a WSGI server has one name for APP_KEY and APP-KEY
_MOST_LETTERS = 200
_UPLOAD = "multipart/form-data"
_OF_PARTIES = ("/v1/party/", "/v1/initiator/", "/v1/tracker/", "/v1/exchange/")
_OF_CLIENTS_ALL_THE_SAME = "/v1/party/list"
OPEN = ("/index.html", "/v1/openapi.json")                   # pages without secrets


class NotAuthenticated(PermissionDenied):
    """The request is not signed with the key of this server's clients."""

    retcode = 109


class ClientAuth:
    """Checks each request that is a client's. `clock` tells milliseconds since 1970, by the clock on the wall."""

    def __init__(self, keys: ClientKeys, nonces: Nonces, clock: Callable[[], int]) -> None:
        self._keys = keys
        self._nonces = nonces
        self._clock = clock

    def check(self) -> None:
        """Raises NotAuthenticated."""
        rule = request.url_rule.rule if request.url_rule else OPEN[0]       # a path that is none has its answer
        if rule in OPEN or not is_for_clients(rule):
            return
        if leads_to_a_file(current_app.view_functions[request.endpoint or ""]):
            g.file_follows = True
        timestamp, nonce, app_key, signature = self._headers()
        now = self._clock()
        if abs(now - int(timestamp)) > WINDOW_MS:
            raise NotAuthenticated(f"TIMESTAMP: {timestamp} is not within 60 s of {now}, the time of this server")
        if not compare_digest(app_key.encode(), self._keys.app_key.encode()):
            raise NotAuthenticated("APP_KEY: is not the key of this server's clients")
        if not any(compare_digest(signature.encode(), good) for good in self._good(timestamp, nonce)):
            raise NotAuthenticated("SIGNATURE: does not belong to this request")
        if not self._nonces.is_new(nonce, int(timestamp), now):
            raise NotAuthenticated("NONCE: a request with this nonce was taken already")

    def _headers(self) -> tuple[str, str, str, str]:
        timestamp, nonce, app_key, signature = (request.headers.get(name, "")[:_MOST_LETTERS] for name in SIGNED_WITH)
        if not (timestamp and nonce and app_key and signature):
            raise NotAuthenticated("requests have to be signed: flow init --app-key KEY --secret-key SECRET")
        if not (timestamp.isascii() and timestamp.isdigit()):
            raise NotAuthenticated("TIMESTAMP: is not a number of milliseconds")
        return timestamp, nonce, app_key, signature

    def _good(self, timestamp: str, nonce: str) -> Iterator[bytes]:
        """What the signature may be."""
        for path, (body, fields) in product(_signed_paths(), _signed_parts()):
            parts = (timestamp, nonce, self._keys.app_key, path)
            text = b"\n".join((*(part.encode("utf-8", "surrogateescape") for part in parts), body, fields))
            yield b64encode(digest(self._keys.secret_key.encode(), text, "sha1"))


def _signed_paths() -> Iterator[str]:
    """What may have been signed of path and query: as they came, or before the client's library escaped each `%` of a
    query once more (`data.py`)."""
    path = str(request.environ.get("RAW_URI", ""))
    yield path
    plain, _, query = path.partition("?")
    if query.startswith("%257B"):
        yield f"{plain}?{unquote(query)}"


def _signed_parts() -> Iterator[tuple[bytes, bytes]]:
    """What may have been signed of what was sent: a body, or the fields of a form.

    The SDK leaves an empty object out of it, and sends it all the same."""
    body = b"" if request.mimetype == _UPLOAD else request.get_data()
    yield body, b""
    if body == b"{}":
        yield b"", b""
    if request.mimetype in (_UPLOAD, "application/x-www-form-urlencoded"):
        yield b"", _fields_of_form()


def _fields_of_form() -> bytes:
    """As the client signs them. To have them the whole form is read, its file to disk: so none of any length."""
    most = request.max_content_length
    if request.content_length is None or (most is not None and request.content_length > most):
        return b""
    try:
        fields = sorted(request.form.items())
    except (BadRequest, HTTPException, OSError):       # no form; nobody has to hear of that who may be anybody
        return b""
    return urlencode(fields, quote_via=quote, safe="-._~").encode()


def is_for_clients(rule: str) -> bool:
    """Whether a route is one of clients: other parties speak for themselves on routes of their own."""
    return rule == _OF_CLIENTS_ALL_THE_SAME or not rule.startswith(_OF_PARTIES)
