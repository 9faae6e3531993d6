"""Whether the scheduler of this server still gives signs of life."""

from __future__ import annotations

from pathlib import Path

from fate_flow.server.scheduling import ALIVE_SECONDS

_MOST_MISSED_SIGNS = 4


class Watchdog:
    """Notices a scheduler that stands still, stopped or hanging: in its own home nobody else takes over from it.

    It counts looks, not seconds: when the whole server was stopped, the scheduler gets its chance afterwards."""

    def __init__(self, alive_file: Path) -> None:
        self._file = alive_file
        self._seen: tuple[int, bytes] = (0, b"")
        self._missed = 0
        self._next_look = 0.0

    def stands_still(self, pid: int, now: float) -> bool:
        """Whether this process has given no sign of life at so many looks; `now` on a monotonic clock."""
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
