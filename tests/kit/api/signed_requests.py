"""Requests of named clients to a server without a socket."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from werkzeug.test import TestResponse

from fate_flow.cli.connection.signature import sign
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.people import Client
from tests.kit.api.client_world import World

_NONCES = itertools.count()


def asked(
    world: World, key: Client | ClientKeys, path: str, body: Mapping[str, Any] | None = None, method: str = "POST"
) -> TestResponse:
    """The answer to a request that is signed with this key; with method GET it has no body."""
    at, nonce = str(now_on_the_wall()), f"n{next(_NONCES)}"
    data = json.dumps(body or {}).encode() if method == "POST" else b""
    signature = sign(key.secret_key, at, nonce, key.app_key, path, data)
    headers = {"TIMESTAMP": at, "NONCE": nonce, "APP_KEY": key.app_key, "SIGNATURE": signature}
    return world.client.open(path, method=method, data=data, headers=headers, content_type="application/json")
