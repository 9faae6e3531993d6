"""The server of a staged worker, as its agent on the other host sees it."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fate_flow.components.providers.provider import PACKAGE
from fate_flow.engines.staged.pinned import Answer, PinnedClient
from fate_flow.engines.staged.places import sign_of

log = logging.getLogger(__name__)

_AGAIN = frozenset({408, 429, 500, 502, 503, 504, 507})
PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)
GIVE_UP_SECONDS = 600.0          # as a runner tries for so long to write its end to a full disk


class Over(Exception):
    """The server has told this agent to end: somebody else has the worker, or the worker is over."""


class Refused(Exception):
    """The server refuses a request for good."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Server:
    """Requests about one worker. Not for several threads at once."""

    client: PinnedClient
    worker_id: str
    root: Path
    port: int                                   # of the worker's way to the server, on loopback here
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    runner: str = field(default_factory=lambda: secrets.token_hex(16))
    answered: float = 0.0                       # when the last request was sent that was answered

    @property
    def there(self) -> dict[str, str | int]:
        return {"root": str(self.root), "port": self.port, "package": str(PACKAGE.parent)}

    def redeem(self) -> None:
        """Get the token of the worker for its claim token. Raises Over, Refused, TimeoutError."""
        sys.stdout.write(f"{sign_of(self.runner)}\n")
        sys.stdout.flush()
        self.client.show(str(self.ask("redeem", {}).json()["token"]))

    def once(self, what: str, body: bytes, query: Mapping[str, str | int] | None = None) -> Answer:
        """Send one request. Raises Over, Refused; OSError or HTTPException without an answer."""
        sent = self.now()
        fields = {"X-Staged-Runner": self.runner}
        answer = self.client.ask("POST", f"/v1/staged/{quote(self.worker_id, safe='')}/{what}", query, body, fields)
        if answer.status in _AGAIN:
            raise HTTPException(answer.text)
        self.answered = sent
        if answer.status in (401, 410) or (answer.status == 409 and what in ("claim", "alive", "redeem")):
            raise Over(answer.text)
        if answer.status != 200:
            raise Refused(answer.status, answer.text)
        return answer

    def ask(
        self, what: str, body: Mapping[str, Any] | bytes, query: Mapping[str, str | int] | None = None,
        seconds: float = GIVE_UP_SECONDS,
    ) -> Answer:  # fmt: skip
        """Send a request until it is answered. Raises Over, Refused; TimeoutError if the server is away for too long.
        """
        data = body if isinstance(body, bytes) else json.dumps(dict(body)).encode()
        until, tries = self.now() + seconds, 0
        while True:
            try:
                return self.once(what, data, query)
            except (OSError, HTTPException) as error:
                if self.now() >= until:
                    raise TimeoutError(f"{what}: no answer of the server within {seconds:.0f} s: {error}") from error
                if tries == len(PAUSES):
                    log.warning("%s: %s; asking again for up to %.0f s", what, error, seconds)
            self.sleep(PAUSES[min(tries, len(PAUSES) - 1)])
            tries += 1
