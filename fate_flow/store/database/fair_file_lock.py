"""A fair lock for the writers of one SQLite file.

SQLite itself lets a writer that finds the file locked sleep and try again, up to 100 ms later. Under load, the process
that writes all the time, the scheduler, then keeps the others out for seconds.

The threads of a process wait for each other at a lock of their own, so only one thread of each process competes with
other processes. These threads use two `flock`s, so that a writer that has just finished cannot overtake one that waits:
the first in the queue holds the first lock until it gets the second. The kernel releases both when their process ends.
SQLite's own lock still decides: a writer without this lock, such as a shell, is waited for as usual.

A stopped process keeps the lock, and waiting for a `flock` in the kernel has no deadline. So the waiting threads, one
for each of three or four processes, poll, and give up in time.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time

_AT_THE_FIRST, _IN_FRONT = 0.000_5, 0.000_05    # seconds between two tries
_LONGEST = 0.002


class FairFileLock:
    """The lock of all processes and threads that write the database at `path`."""

    def __init__(self, path: str) -> None:
        self._first, self._second = f"{path}-gate", f"{path}-turn"
        self._front = threading.Lock()
        self._mine = threading.local()

    def enter(self, seconds: float) -> None:
        """Take the lock for this thread. Raises OSError; TimeoutError if that takes too long."""
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
        """Release the lock; does nothing in a thread that does not hold it."""
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
