"""Writers of one SQLite file, one after the other.

SQLite itself makes a writer that finds the file locked sleep and look again, up to 100 ms later: under load the one
that writes all the time, the scheduler, then shuts the others out for seconds.

The threads of a process wait for each other at a lock of their own, so that each process has one in front. These meet
at two `flock`s, so that who has just written cannot take the next turn before one that waits: the first in the queue
holds the first lock until it gets the second. Both go with their process, however it ends. SQLite's own lock stays the
truth: who does not come through here, a shell for instance, is waited for as ever.

A process that was stopped keeps its turn, and the kernel's wait for a `flock` knows no deadline. So whoever is in front
looks again and again, which of all processes are three or four, and gives up in time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time

_AT_THE_FIRST, _IN_FRONT = 0.000_5, 0.000_05    # seconds between two looks
_LONGEST = 0.002


class FairFileLock:
    """For all processes and threads that write the database at `path`."""

    def __init__(self, path: str) -> None:
        self._first, self._second = f"{path}-gate", f"{path}-turn"
        self._front = threading.Lock()
        self._mine = threading.local()

    def enter(self, seconds: float) -> None:
        """Returns when it is this thread's turn. Raises OSError, TimeoutError when the turn does not come in time."""
        deadline = time.monotonic() + seconds
        if not self._front.acquire(timeout=seconds):
            raise _too_late(self._second)
        try:
            first = _locked(self._first, _AT_THE_FIRST, deadline)
            try:
                self._mine.descriptor = _locked(self._second, _IN_FRONT, deadline)
            finally:
                os.close(first)
        except BaseException:
            self._front.release()
            raise

    def leave(self) -> None:
        """Lets the next one in; nothing to do for a thread that did not enter."""
        descriptor = getattr(self._mine, "descriptor", None)
        if descriptor is not None:
            self._mine.descriptor = None
            os.close(descriptor)
            self._front.release()


def _locked(path: str, pause: float, deadline: float) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _taken(descriptor):
            if time.monotonic() > deadline:
                raise _too_late(path)
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _too_late(path: str) -> TimeoutError:
    return TimeoutError(errno.ETIMEDOUT, "the turn did not come in time", path)
