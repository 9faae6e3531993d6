"""The server's lease on a worker, as its runner sees it, and what ends the worker if the runner cannot look any more.

A shared folder may hang for as long as its server of files is away: whoever reads or writes there stands still, and a
runner that stands still never sees that its lease is over. Meanwhile the server counts the worker as lost and starts
another attempt. So a thread of the runner that touches no file of the folder kills the worker in time.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fate_flow.engines.local import proc

_LONGEST_CHECK_SECONDS = 5.0


class Lease:
    """It is over if the server has not rewritten the lease file for so long, by this process's own clock.

    It is over, too, if nobody has looked for that time and the grace of a stop: the server may have given the worker up
    meanwhile, so what the file has then comes too late."""

    def __init__(self, file: Path | None, seconds: float, grace_seconds: float, now: float) -> None:
        """`now`: since when the worker is this process's."""
        self._file = file if seconds > 0 else None
        self._seconds = seconds
        self._longest = seconds + grace_seconds
        self._seen: bytes | None = None
        self._has_looked = False
        self._since = now
        self.check_seconds = seconds / 4 if self._file else _LONGEST_CHECK_SECONDS

    def is_over(self, now: float) -> bool:
        """Look at the file; `now`: before that."""
        if self._file is None:
            return False
        if now >= self.lost_at:
            return True
        content = self._read()
        if not self._has_looked:
            self._seen, self._has_looked = content, True
        elif content is not None and content != self._seen:
            self._seen, self._since = content, now
        return now - self._since >= self._seconds

    @property
    def lost_at(self) -> float:
        """Return from when on the server may count the worker as lost; infinite without a lease."""
        return self._since + self._longest if self._file is not None else float("inf")

    def _read(self) -> bytes | None:
        """Return the content; None if the file cannot be read, which counts as not rewritten."""
        with suppress(OSError):
            return self._file.read_bytes() if self._file else None
        return None


@contextmanager
def killed_in_time(lost_at: Callable[[], float], leader: int, check_seconds: float) -> Iterator[threading.Event]:
    """Kill the worker with this process number, and all that it has started, when the time that `lost_at` returns has
    come; the event says whether that was done. The worker must not be reaped, and this process must not fork
    meanwhile."""
    lock, is_over, has_killed = threading.Lock(), threading.Event(), threading.Event()

    def look() -> None:
        while not is_over.wait(min(check_seconds, _LONGEST_CHECK_SECONDS)):
            with lock:
                if not is_over.is_set() and time.monotonic() >= lost_at():
                    has_killed.set()
                    _kill_all(leader)

    if lost_at() < float("inf"):
        threading.Thread(target=look, daemon=True).start()
    try:
        yield has_killed
    finally:
        with lock:
            is_over.set()


def _kill_all(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    for pid in proc.descendants():
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            try:
                if pid in proc.descendants():       # the number is still that of one of ours
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)
