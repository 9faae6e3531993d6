"""One try to send a notification, in a thread of its own: a receiver that hangs holds up nothing else."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from fate_flow.store.values import StoredNotification

LONGEST_WAIT = 10.0          # seconds for one step of a connection
LONGEST_TRY = 30.0           # seconds for a try as a whole


@dataclass(frozen=True)
class Outcome:
    """What has come of a try. `error`: empty if it was sent; it never has an address or a secret."""

    error: str = ""
    is_final: bool = False           # the receiver will never take this notification
    is_of_channel: bool = True       # others over the channel would fail, too


SENT = Outcome()


class Sending(Protocol):
    """A way to send one notification after the other."""

    def send(self, one: StoredNotification) -> Outcome:
        """Send it; wait until the receiver has it, or does not take it."""

    def abort(self) -> None:
        """End a `send` of another thread that waits for the receiver."""


class Try:
    """A try that is under way, or over."""

    def __init__(self, one: StoredNotification, sending: Sending, monotonic: Callable[[], float]) -> None:
        self.one = one
        self.outcome: Outcome | None = None
        self._sending, self._monotonic = sending, monotonic
        self._begin = monotonic()
        self._is_late = False
        threading.Thread(target=self._run, name=f"notify {one.target.channel}", daemon=True).start()

    def look(self) -> Outcome | None:
        """Return what has come of it; None while it is under way. One that takes too long is ended."""
        if self.outcome is None and self._monotonic() - self._begin > LONGEST_TRY:
            self._is_late = True
            self._sending.abort()
        return self.outcome

    def abort(self) -> None:
        self._sending.abort()

    def _run(self) -> None:
        try:
            found = self._sending.send(self.one)
        except Exception as error:  # noqa: BLE001  # whatever it is, the notification was not sent
            found = Outcome(f"unexpected {type(error).__name__}")
        late = Outcome(f"the receiver had not taken it after {LONGEST_TRY:g} s")
        self.outcome = late if self._is_late and found.error else found


def cut(connection: socket.socket | None) -> None:
    """End all waiting for this connection, in any thread."""
    if connection is not None:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def moment_of(at: int) -> str:
    """Return milliseconds since 1970 in ISO 8601."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_now() -> int:
    return int(time.time())
