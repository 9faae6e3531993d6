"""Post a notification to a webhook: signed, over TLS that is checked, and without following redirects."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Callable
from functools import cached_property
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

from fate_flow.components.base.regular_file import open_regular
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.notifications.rendering import Sender, webhook_body
from fate_flow.core.notifications.standard_webhooks import read_secrets, signed_headers
from fate_flow.peers.network_errors import describe_cause
from fate_flow.server.notifying.sending import LONGEST_WAIT, SENT, Outcome, cut, moment_of, seconds_now
from fate_flow.settings.notifications import Webhook
from fate_flow.store.values import StoredNotification

_GONE = 410
_MOST_BYTES = 10_000         # of a file with a secret


class WebhookSending:
    """Posts to one webhook. It takes no proxy from the environment: requests go to the configured host alone."""

    def __init__(self, hook: Webhook, name: str, sender: Sender, clock: Callable[[], int] = seconds_now) -> None:
        """`name`: of its key in the configuration; `clock`: seconds since 1970."""
        self._hook, self._name, self._sender, self._clock = hook, name, sender, clock
        self._connection: HTTPConnection | None = None

    def send(self, one: StoredNotification) -> Outcome:
        body = webhook_body(one.notification, self._sender, one.target.person, moment_of(one.notification.at))
        try:
            secrets = read_secret_file(self._hook.secret_file, f"{self._name}.secret_file")
            return self._post(one.notification.id, body, secrets)
        except BadSettings as error:
            return Outcome(error.message)
        except (OSError, HTTPException) as error:
            return Outcome(describe_cause(error) or "its answer cannot be read")

    def abort(self) -> None:
        cut(self._connection.sock if self._connection is not None else None)

    def _post(self, message_id: str, body: bytes, secrets: tuple[bytes, ...]) -> Outcome:
        parts = urlsplit(self._hook.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = {
            **signed_headers(message_id, self._clock(), body, secrets),
            "content-type": "application/json", "user-agent": "fate_flow", "connection": "close",
        }  # fmt: skip
        self._connection = connection = self._new_connection(parts.hostname or "", parts.port, parts.scheme)
        try:
            connection.request("POST", target, body, headers)
            status = connection.getresponse().status
        finally:
            connection.close()
        if 200 <= status < 300:
            return SENT
        if 300 <= status < 400:
            return Outcome(f"HTTP status {status}: redirects are not followed")
        is_of_channel = status >= 500 or status == 429
        return Outcome(f"HTTP status {status}", is_final=status == _GONE, is_of_channel=is_of_channel)

    def _new_connection(self, host: str, port: int | None, scheme: str) -> HTTPConnection:
        if scheme == "http":          # of this machine alone
            return HTTPConnection(host, port, timeout=LONGEST_WAIT)
        return HTTPSConnection(host, port, timeout=LONGEST_WAIT, context=self._tls)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._hook.ca_file or None)


def read_secret_file(path: Path, name: str) -> tuple[bytes, ...]:
    """Return the secrets of a webhook. Raise BadSettings."""
    return read_secrets(text_of_secret(path, name), name)


def text_of_secret(path: Path, name: str) -> str:
    """Return the text of a file with a secret, which other users must not be able to read. Raise BadSettings."""
    try:
        with open_regular(path) as file:
            text, mode = file.read(_MOST_BYTES).decode("utf-8"), stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise BadSettings(f"{name}: {path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadSettings(f"{name}: {path}: is not text") from error
    if mode & 0o077:
        raise BadSettings(f"{name}: {path}: is of mode {mode:04o}, so other users could use the secret: chmod 600")
    return text
