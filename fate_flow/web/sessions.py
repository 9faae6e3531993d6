"""Signing in to the board with the key of a client, and the session of a browser.

The secret key does not leave the browser: it answers a challenge of this server with an HMAC. The session is a cookie
that the server has signed with the secret of its home. A session ends after twelve hours, and at once when the key is
revoked or the person signs out: the ids of sessions that people have ended are files, as used nonces are.
"""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest, digest
from typing import Any

from flask import request

from fate_flow.api.http.client_auth import NotAuthenticated
from fate_flow.api.http.nonces import Nonces
from fate_flow.core.access.client_roles import ALL_ROLES, METRICS, ClientRole, suffices
from fate_flow.core.model.errors import BadSettings, PermissionDenied, StorageFailed
from fate_flow.settings.people import Client, People

SESSION_MS = 12 * 3600 * 1000
CHALLENGE_MS = 5 * 60 * 1000
_CHALLENGE, _SESSION, _FORM, _NOTE = "challenge", "session", "form", "note"
PROOF_OF = "fate_flow board sign-in\n"
_WRONG = "the app key or the secret key is wrong, or the key was revoked (fate_flow client list shows the app keys)"


def session_cookie(party_id: str) -> str:
    """Return the name of the cookie. Browsers send it to every port of a host, and a host may have several parties."""
    return f"fate_flow_board_{party_id}"


class NotSignedIn(NotAuthenticated):
    """Nobody is signed in."""


@dataclass(frozen=True)
class Session:
    """Who looks at the board. `name` is empty where clients need no keys."""

    name: str
    roles: ClientRole
    form_token: str          # in every form: a page of another site does not know it

    def may(self, roles: ClientRole) -> bool:
        """Return whether one of these client roles is held."""
        return suffices(self.roles, roles)


class Sessions:
    """The sessions of one server. `people` is None where clients need no keys: everybody may do everything."""

    def __init__(
        self, secret: bytes, people: People | None, nonces: Nonces, ended: Nonces, clock: Callable[[], int]
    ) -> None:
        """`ended`: the sessions that people have ended, as long as their cookies could be used."""
        self._secret = digest(secret, b"board", "sha256")
        self._people = people
        self._nonces, self._ended = nonces, ended
        self._clock = clock

    @property
    def needs_key(self) -> bool:
        return self._people is not None

    # ------------------------------------------------------------------ signing in

    def challenge(self) -> str:
        return self._signed(_CHALLENGE, {"nonce": secrets.token_hex(16), "at": self._clock()})

    def begin(self, challenge: str, app_key: str, proof: str) -> str:
        """Return the cookie of a new session. Raise NotAuthenticated; PermissionDenied for a key for metrics alone."""
        now, asked = self._clock(), self._read(_CHALLENGE, challenge)
        if asked is None or not 0 <= now - asked["at"] <= CHALLENGE_MS:
            raise NotAuthenticated("the page was open for too long before you signed in: try again")
        client = self._client(app_key)
        if client is None or not compare_digest(
            proof_of(client.secret_key, challenge).encode(), proof.encode("ascii", "replace")
        ):
            raise NotAuthenticated(_WRONG)
        if client.roles == METRICS:
            raise PermissionDenied(f"client {client.name} has the client role metrics alone, and sees no jobs")
        if not self._nonces.is_new(asked["nonce"], asked["at"], now):
            raise NotAuthenticated("this page has signed in once already: reload it")
        return self._signed(_SESSION, {"key": client.app_key, "at": now, "id": secrets.token_hex(8)})

    def of(self, cookie: str) -> Session:
        """Return the session of a cookie. Raise NotSignedIn."""
        if self._people is None:
            return Session("", ALL_ROLES, self._mac(_FORM, b"nobody"))
        found = self._read(_SESSION, cookie) if cookie else None
        if found is None or not 0 <= self._clock() - found["at"] <= SESSION_MS:
            raise NotSignedIn
        if self._ended.is_used(found["id"], found["at"]):
            raise NotSignedIn
        client = self._client(found["key"])
        if client is None:
            raise NotSignedIn
        return Session(client.name, client.roles, self._mac(_FORM, cookie.encode()))

    def end(self, cookie: str) -> None:
        """End the session of a cookie everywhere, as far as there is one. Raise StorageFailed."""
        found = self._read(_SESSION, cookie) if cookie else None
        if found is not None:
            self._ended.is_new(found["id"], found["at"], self._clock())

    def _client(self, app_key: str) -> Client | None:
        """Return the client with this key, if it is valid. Raise StorageFailed."""
        assert self._people is not None
        try:
            found = self._people.client_with(app_key)
        except BadSettings as error:
            raise StorageFailed("this server cannot read the keys of its clients; its log says why") from error
        return found if found is not None and found.is_valid else None

    # ------------------------------------------------------------------ notes for the next page

    def note(self, text: str) -> str:
        """Return a cookie with a text that the next page shows."""
        return self._signed(_NOTE, {"text": text})

    def noted(self, cookie: str) -> str:
        found = self._read(_NOTE, cookie) if cookie else None
        return str(found["text"]) if found else ""

    # ------------------------------------------------------------------ signed texts

    def _signed(self, use: str, content: Mapping[str, Any]) -> str:
        body = urlsafe_b64encode(json.dumps(content, separators=(",", ":")).encode())
        return f"{body.decode()}.{self._mac(use, body)}"

    def _read(self, use: str, text: str) -> Any | None:
        """Return the content of a text that this server has signed for this use; None for any other text."""
        body, _, mac = text.encode("ascii", "replace").partition(b".")
        if not compare_digest(self._mac(use, body).encode(), mac):
            return None
        try:
            return json.loads(urlsafe_b64decode(body))
        except (Error, ValueError):          # of another release
            return None

    def _mac(self, use: str, body: bytes) -> str:
        return digest(self._secret, use.encode() + b"\n" + body, "sha256").hex()


def is_encrypted() -> bool:
    """Return whether the browser has sent this request by TLS. A proxy that ends it says nothing of it here; the
    browser does, in the origin of a form. A made up one can only add the mark to the cookie of who has made it up.
    """
    return request.is_secure or request.headers.get("Origin", "").startswith("https://")


def proof_of(secret_key: str, challenge: str) -> str:
    """Return what a browser answers to a challenge, in hex."""
    return digest(secret_key.encode(), (PROOF_OF + challenge).encode(), sha256).hex()
