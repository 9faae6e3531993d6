"""Detect a scheduler that no longer shows signs of life."""

from __future__ import annotations

from pathlib import Path

from fate_flow.server.scheduling import ALIVE_SECONDS

_MOST_MISSED_SIGNS = 4


class Watchdog:
    """Detects a stopped or hanging scheduler: no other process takes over from it in its home.

    It counts checks, not seconds: after the whole server was suspended, the scheduler has time to show a sign."""

    def __init__(self, alive_file: Path) -> None:
        self._file = alive_file
        self._seen: tuple[int, bytes] = (0, b"")
        self._missed = 0
        self._next_look = 0.0

    def stands_still(self, pid: int, now: float) -> bool:
        """Return whether this process showed no sign of life in the last checks; `now`: seconds, monotonic."""
        if now < self._next_look:
            return False
        self._next_look = now + ALIVE_SECONDS
        seen = (pid, self._sign())
        self._missed = self._missed + 1 if seen == self._seen else 0
        self._seen = seen
        return self._missed >= _MOST_MISSED_SIGNS

    def _sign(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError:
            return b""
