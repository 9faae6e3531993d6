"""Whether a server answers: asked by its supervisor when it starts, and by the commands that start and look at it.

Imports little, since those commands are short.
"""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit


def answers(url: str, timeout_seconds: float = 2.0) -> bool:
    """Whether a server answers there, by asking for its version."""
    return _status(url, "/v1/version/get", "{}", timeout_seconds) == 200


def serves_workers(url: str, timeout_seconds: float = 2.0) -> bool:
    """Whether the port of a server's workers answers: it refuses who is not one of them."""
    return _status(url, "/v1/exchange/peek", "", timeout_seconds) in (400, 401)


def _status(url: str, path: str, body: str, timeout_seconds: float) -> int | None:
    """The HTTP status of the answer; None without an answer."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port or 80, timeout=timeout_seconds)
    try:
        connection.request("POST", path, body=body, headers={"Content-Type": "application/json"} if body else {})
        return connection.getresponse().status
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
