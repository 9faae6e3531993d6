"""Authentication of clients: requests are signed as FATE's clients sign them (client-api-v1, section 1), and the client
has one of the roles that the route names.

The signature covers the time, the nonce, the path with the query as sent, and the body. On routes that take a form, the
signature of a form covers its fields but no file. A request is accepted once (`nonces.py`), and only within a minute of
its time by the clock of this machine.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from hmac import compare_digest, digest
from urllib.parse import quote, unquote, urlencode

from flask import current_app, g, request
from werkzeug.exceptions import HTTPException

from fate_flow.api.http.caller import note_caller
from fate_flow.api.http.declared import declaration_of
from fate_flow.api.http.file_routes import note_file_route
from fate_flow.api.http.nonces import Nonces
from fate_flow.core.access.client_roles import METRICS, OPEN, ClientRole, names_of, suffices
from fate_flow.core.model.errors import BadRequest, BadSettings, PermissionDenied, StorageFailed
from fate_flow.core.model.grammar import shown
from fate_flow.settings.people import Client, People

LOG = logging.getLogger(__name__)

WINDOW_MS = 60_000
SIGNED_WITH = ("TIMESTAMP", "NONCE", "APP-KEY", "SIGNATURE")     # WSGI makes no difference between APP_KEY and APP-KEY
_MOST_LETTERS = 200
_UPLOAD = "multipart/form-data"
OF_PARTIES = ("/v1/party/", "/v1/initiator/", "/v1/tracker/", "/v1/exchange/")
OF_PAGES = "/board"
"""Where people see pages. They sign in, and each page checks that."""
_OF_CLIENTS_ALL_THE_SAME = "/v1/party/list"

NOT_SIGNED = (
    "requests have to be signed: flow init -c CONF on the server's machine; elsewhere flow init --app-key KEY "
    "--secret-key SECRET, with the keys in keys/clients.yaml of the server's home"
)
SIGNED_AS_FATE_2 = (
    "appId: the signature of FATE 2's clients covers neither the path nor the body of a request, so this server does "
    "not accept it; sign as FATE 1's clients do (flow init --app-key KEY --secret-key SECRET of this server's own "
    "flow), or let fate_client 2.x ask a server that requires no signatures"
)
NO_PASSWORD = (
    "Authorization: is not Basic with the app key and the secret key of a client with the role metrics alone "
    "(fate_flow client add NAME --role metrics)"
)
WRONG_KEY = "APP_KEY: is not the app key of this server's clients; set the right one: flow init --app-key KEY"
REVOKED = (
    "APP_KEY: this key was revoked; whoever runs this server can make another one: fate_flow client renew NAME, and "
    "then flow init --app-key KEY --secret-key SECRET"
)
WRONG_SECRET = (
    "SIGNATURE: is wrong, though the app key is right: the secret key is probably wrong (flow init --secret-key "
    "SECRET); if not, something between client and server changes requests"
)


class NotAuthenticated(PermissionDenied):
    """The request is not signed with the key of this server's clients."""


class ClientAuth:
    """The check of each client's request. `clock` returns wall clock time in milliseconds since 1970."""

    def __init__(self, people: People, nonces: Nonces, clock: Callable[[], int]) -> None:
        self._people = people
        self._nonces = nonces
        self._clock = clock

    def check(self) -> None:
        """Find out who asks (`caller.py`). Raise NotAuthenticated; PermissionDenied if the client may not do this."""
        if request.url_rule is None or not is_for_clients(request.url_rule.rule):
            return                              # an unknown path is refused elsewhere
        roles = roles_of_route(current_app.view_functions[request.endpoint or ""])
        if roles == OPEN:
            return
        note_file_route()
        if METRICS in roles and request.headers.get("Authorization"):
            note_caller(self._scraper().name)
            return
        timestamp, nonce, app_key, signature = self._headers()
        now = self._clock()
        if abs(now - int(timestamp)) > WINDOW_MS:
            raise NotAuthenticated(f"TIMESTAMP: {timestamp} is not within 60 s of {now}, the time of this server")
        client = self._client(app_key)
        if not self._is_good(client, signature.encode(), timestamp, nonce):
            raise NotAuthenticated(WRONG_SECRET)
        if not self._nonces.is_new(nonce, int(timestamp), now):
            raise NotAuthenticated("NONCE: a request with this nonce was already accepted")
        note_caller(client.name)
        if not suffices(client.roles, roles):
            raise PermissionDenied(_missing(client, roles))

    def _client(self, app_key: str) -> Client:
        """Raise NotAuthenticated; StorageFailed if the keys cannot be read."""
        try:
            found = self._people.client_with(app_key)
        except BadSettings as error:
            LOG.error("%s", error.message)
            raise StorageFailed("this server cannot read the keys of its clients; its log says why") from error
        if found is None:
            raise NotAuthenticated(WRONG_KEY)
        if not found.is_valid:
            raise NotAuthenticated(REVOKED)
        return found

    def _scraper(self) -> Client:
        """Return the client whose key is the password of this request. Raise NotAuthenticated; PermissionDenied if the
        key could do more than read metrics: a password crosses the network as it is."""
        given = request.authorization
        if given is None or given.type != "basic":
            raise NotAuthenticated(NO_PASSWORD)
        client = self._client(given.username or "")
        if client.roles != METRICS:
            held = ", ".join(names_of(client.roles))
            raise PermissionDenied(
                f"client {client.name} has the client roles {held}: only the key of a client with the role metrics "
                "alone may be sent as a password (fate_flow client add NAME --role metrics)"
            )
        if not compare_digest((given.password or "").encode(), client.secret_key.encode()):
            raise NotAuthenticated("Authorization: the password is not the secret key of this app key")
        return client

    def _headers(self) -> tuple[str, str, str, str]:
        timestamp, nonce, app_key, signature = (request.headers.get(name, "")[:_MOST_LETTERS] for name in SIGNED_WITH)
        if not app_key and request.headers.get("appId"):
            raise NotAuthenticated(SIGNED_AS_FATE_2)
        if not (timestamp and nonce and app_key and signature):
            raise NotAuthenticated(NOT_SIGNED)
        if not (timestamp.isascii() and timestamp.isdigit()):
            raise NotAuthenticated("TIMESTAMP: is not a number of milliseconds")
        return timestamp, nonce, app_key, signature

    def _is_good(self, client: Client, signature: bytes, timestamp: str, nonce: str) -> bool:
        """Return whether this is the client's signature of the request, in one of the ways in which clients sign."""
        key = client.secret_key.encode()
        for signed in _signed_parts():          # lazily: the next item may have to read a form
            for path in _signed_paths():
                parts = (timestamp, nonce, client.app_key, path)
                encoded = (part.encode("utf-8", "surrogateescape") for part in parts)
                text = b"\n".join((*encoded, signed.body, signed.fields))
                if compare_digest(signature, b64encode(digest(key, text, "sha1"))):
                    g.form_signed_without_fields = signed.is_form_without_fields
                    return True
        return False


@dataclass(frozen=True)
class _Signed:
    """The parts of a body that a signature may cover."""

    body: bytes = b""
    fields: bytes = b""
    is_form_without_fields: bool = False


def _signed_paths() -> Iterator[str]:
    """Yield the paths with query that may have been signed: as received, and as they were before the client's library
    escaped each `%` of the query again (`data.py`)."""
    path = str(request.environ.get("RAW_URI", ""))
    yield path
    bare_path, _, query = path.partition("?")
    if query.startswith("%257B"):
        yield f"{bare_path}?{unquote(query)}"


def _signed_parts() -> Iterator[_Signed]:
    """Yield the parts that may have been signed. The SDK sends an empty object, but leaves it out of the signature."""
    if request.mimetype == _UPLOAD and _takes_a_form():
        yield _Signed(is_form_without_fields=True)          # first, since it needs no reading of a large form
        fields = _fields_of_form()
        if fields is not None:
            yield _Signed(fields=fields)
        return
    body = request.get_data()
    yield _Signed(body)
    if body == b"{}":
        yield _Signed()


def _takes_a_form() -> bool:
    """Return whether the route reads a form, or reads nothing since it is not offered.

    All other routes read a body as JSON, whatever its content type."""
    declaration = declaration_of(current_app.view_functions[request.endpoint or ""])
    return declaration is not None and bool(declaration.form or declaration.never)


def check_fields_are_signed(fields: Collection[str]) -> None:
    """Raise NotAuthenticated if the form of this request has fields that its signature does not cover."""
    if fields and g.get("form_signed_without_fields", False):
        raise NotAuthenticated(f"SIGNATURE: does not cover the field {shown(min(fields))} of the form")


def _fields_of_form() -> bytes | None:
    """Return the fields as the client signs them; None if they cannot be read. This reads the whole form, with its file
    to disk; a form of unknown or excessive length is not read."""
    most = request.max_content_length
    if request.content_length is None or (most is not None and request.content_length > most):
        return None
    try:
        fields = sorted(request.form.items())
    except (BadRequest, HTTPException, OSError):       # not a form; an unauthenticated caller need not learn why
        return None
    return urlencode(fields, quote_via=quote, safe="-._~").encode()


def roles_of_route(view: Callable[..., object]) -> ClientRole:
    """Return the client roles that suffice for a route. Raise LookupError if it declares none: nobody may use it."""
    declaration = declaration_of(view)
    if declaration is None:
        raise LookupError(f"{request.path} does not declare which client roles may use it")
    return declaration.roles


def _missing(client: Client, roles: ClientRole) -> str:
    needed, held = " or ".join(names_of(roles)), ", ".join(names_of(client.roles))
    return (
        f"client {client.name} has the client roles {held}, and {request.path} needs {needed}; whoever runs this "
        f"server can give it: fate_flow client renew {client.name} --role ..."
    )


def is_for_clients(rule: str) -> bool:
    """Return whether a route is for clients. Other parties have routes of their own, and so have people with a browser:
    a route that is not for clients need not be for parties."""
    return not is_for_parties(rule) and not rule.startswith(f"{OF_PAGES}/")


def is_at_route_of_parties() -> bool:
    """Return whether the present request is at a route of other parties; an unknown path is none."""
    return request.url_rule is not None and is_for_parties(request.url_rule.rule)


def is_for_parties(rule: str) -> bool:
    """Return whether a route is for other parties; they reach no other one."""
    return rule.startswith(OF_PARTIES) and rule != _OF_CLIENTS_ALL_THE_SAME
