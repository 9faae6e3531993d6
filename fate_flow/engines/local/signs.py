"""Signs of life of runners whose folder several machines share.

The runner of a worker rewrites the file `sign` in its folder every two seconds. A server of another machine cannot look
for the runner's process, and compares no clocks: it counts on its own monotonic clock how long it has seen the same
content. A worker without a new sign for LOST_SECONDS is lost. A runner that could not write its sign for half of that
time ends its worker, so that no other attempt runs beside it: its machine is cut off from the shared folder.

A thread of the runner shows the sign until the end of the worker is recorded: to kill many processes, to remove large
folders and to find space for the end on a full disk may take longer than LOST_SECONDS.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SIGN = "sign"
SIGN_SECONDS = 2.0
LOST_SECONDS = 30.0
_OVERDUE_SECONDS = LOST_SECONDS / 2
_KILL_SECONDS = LOST_SECONDS - 5


class ShownSign:
    """The sign that a runner shows."""

    def __init__(self, folder: Path, is_wanted: bool, now: float) -> None:
        self._path = folder / SIGN
        self._is_wanted = is_wanted
        self._shown = now
        self._count = 0

    def show(self, now: float) -> None:
        """Rewrite the file, with the same length: this works on a full disk, too."""
        if not self._is_wanted or self.is_overdue(now):      # whoever looks may have given it up: it stays so
            return
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.pwrite(descriptor, b"%020d" % (self._count + 1), 0)
            finally:
                os.close(descriptor)
            self._count += 1
            self._shown = now

    @contextmanager
    def shown_every(self, seconds: float) -> Iterator[None]:
        """Show it by a thread. This process must not fork meanwhile."""
        is_over = threading.Event()

        def repeat() -> None:
            while not is_over.wait(seconds):
                self.show(time.monotonic())

        if self._is_wanted:
            threading.Thread(target=repeat, daemon=True).start()
        try:
            yield
        finally:
            is_over.set()

    def is_overdue(self, now: float) -> bool:
        """Return whether no sign could be shown for so long that others may count the worker as lost."""
        return self._is_wanted and now - self._shown >= _OVERDUE_SECONDS

    @property
    def kill_at(self) -> float:
        """Return when the worker is to be killed, whatever its grace: soon after that, others count it as lost."""
        return self._shown + _KILL_SECONDS if self._is_wanted else math.inf


class SeenSigns:
    """The signs that a server has seen, and since when, by its own clock. May be shared by threads."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: dict[Path, tuple[bytes, float]] = {}

    def are_missing(self, folder: Path) -> bool:
        """Look at the sign of this folder; return whether it has not changed for too long."""
        content, now = self._read(folder), self._monotonic()
        seen = self._seen.get(folder)
        if seen is None or seen[0] != content:
            self._seen[folder] = content, now
            return False
        return now - seen[1] >= LOST_SECONDS

    def forget(self, folder: Path) -> None:
        """Forget the folder of a worker that is over."""
        self._seen.pop(folder, None)

    def _read(self, folder: Path) -> bytes:
        try:
            return (folder / SIGN).read_bytes()
        except OSError:
            return b""
