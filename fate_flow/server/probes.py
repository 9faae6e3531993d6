"""Check whether a server answers: for its supervisor at the start, and for the commands that start and show a server.

This module imports little, so that those commands start fast.
"""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit


def answers(url: str, timeout_seconds: float = 2.0) -> bool:
    """Return whether a server answers at this URL; ask for its version."""
    return _status(url, "/v1/version/get", "{}", timeout_seconds) == 200


def serves_workers(url: str, timeout_seconds: float = 2.0) -> bool:
    """Return whether the workers' port answers: it refuses a caller without a worker's token."""
    return _status(url, "/v1/exchange/peek", "", timeout_seconds) in (400, 401)


def _status(url: str, path: str, body: str, timeout_seconds: float) -> int | None:
    """Return the HTTP status of the answer; None if there is none."""
    address = urlsplit(url)
    connection = HTTPConnection(address.hostname or "", address.port or 80, timeout=timeout_seconds)
    try:
        connection.request("POST", path, body=body, headers={"Content-Type": "application/json"} if body else {})
        return connection.getresponse().status
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
