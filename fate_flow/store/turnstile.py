"""Writers of one SQLite file, one after the other in the order they came.

SQLite itself makes a writer that finds the file locked sleep and look again, up to 100 ms later: under load the one
that writes all the time, the scheduler, then shuts the others out for seconds. Here they wait in the kernel.

Two `flock`s, so that who has just written cannot take the next turn before one that waits: the first in the queue holds
the gate until its turn comes. Both go with their process, however it ends. SQLite's own lock stays the truth: who does
not come through here, a shell for instance, is waited for as ever.
"""

from __future__ import annotations

import fcntl
import os
import threading


class Turnstile:
    """For all processes and threads that write the database at `path`."""

    def __init__(self, path: str) -> None:
        self._gate, self._turn = f"{path}-gate", f"{path}-turn"
        self._mine = threading.local()

    def enter(self) -> None:
        """Returns when it is this thread's turn. Raises OSError."""
        gate = _locked(self._gate)
        try:
            self._mine.turn = _locked(self._turn)
        finally:
            os.close(gate)

    def leave(self) -> None:
        """Lets the next one in; nothing to do for a thread that did not enter."""
        turn = getattr(self._mine, "turn", None)
        if turn is not None:
            self._mine.turn = None
            os.close(turn)


def _locked(path: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
