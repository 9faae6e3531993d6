"""The free space of the disk with a party's home, and the line in the log when it becomes scarce."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from fate_flow.core.quotas.disk_space import DiskSpace, LeastFree

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
_FRESH_SECONDS = 1.0
_UNKNOWN = DiskSpace(0, 0)


class HomeDisk:
    """Says how much is free, at most a second ago. May be shared by threads."""

    def __init__(self, home: Path, least: LeastFree, clock: Callable[[], float] = time.monotonic) -> None:
        self._home = home
        self._least = least
        self._clock = clock
        self._known: tuple[float, DiskSpace] | None = None

    def __call__(self) -> DiskSpace:
        """Return the state of the disk; nothing has to stay free of one that cannot be asked."""
        now, known = self._clock(), self._known
        if known is None or not 0 <= now - known[0] < _FRESH_SECONDS:
            known = self._known = (now, self._look())
        return known[1]

    def _look(self) -> DiskSpace:
        try:
            found = os.statvfs(self._home)
        except OSError as error:
            LOG.warning("the free space below %s cannot be read: %s", self._home, error.strerror)
            return _UNKNOWN
        free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
        return DiskSpace(free, self._least.of(total), total)


class DiskWatch:
    """Writes a line when the disk becomes scarce, and one when it is so no longer."""

    def __init__(self, own_party_id: str, disk: Callable[[], DiskSpace]) -> None:
        self._own = own_party_id
        self._disk = disk
        self._was_short = False

    def look(self) -> None:
        space = self._disk()
        is_short = space.is_short()
        if is_short and not self._was_short:
            LOG.error("%s", space.text_for_clients(self._own))
        elif self._was_short and not is_short:
            LOG.warning("party %s takes new jobs, uploads and messages again: enough of its disk is free", self._own)
        self._was_short = is_short
