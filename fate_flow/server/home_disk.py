"""The free space of the disks that a server writes to, the line in the log when it becomes scarce, and the space that
is kept for what has to be recorded then."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fate_flow.core.quotas.disk_space import DiskSpace, LeastFree
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.services.context.recent import Recent

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
_UNKNOWN = DiskSpace(0, 0)


class HomeDisk:
    """Says how much is free, at most a second ago. May be shared by threads."""

    def __init__(
        self, home: Path, least: LeastFree, clock: Callable[[], float] = time.monotonic, others: Sequence[Path] = (),
    ) -> None:  # fmt: skip
        """`others`: folders that may be on other disks, and need not exist yet."""
        self._home = home
        self._others = others
        self._least = least
        self._recent = Recent(self._look, clock)

    def __call__(self) -> DiskSpace:
        """Return the state of the disk with the home, unless another one has too little left: then, of that. Nothing
        has to stay free of a disk that cannot be asked."""
        return self._recent.read()

    def _look(self) -> DiskSpace:
        try:
            found = os.statvfs(self._home)
        except OSError as error:
            LOG.warning("the free space below %s cannot be read: %s", self._home, error.strerror)
            return _UNKNOWN
        home = self._space(found)
        if home.is_short():
            return home
        short = (one for one in self._look_at_others() if one.is_short())
        return replace(min(short, key=lambda one: one.free - one.least, default=home), total=home.total)

    def _look_at_others(self) -> Iterable[DiskSpace]:
        for folder in self._others:
            with suppress(OSError):          # it does not exist yet; the server says so if it never comes
                yield replace(self._space(os.statvfs(folder)), folder=str(folder))

    def _space(self, found: os.statvfs_result) -> DiskSpace:
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


class DiskReserve:
    """Space on the disk with the database that nothing else takes: a file, which is removed when the database finds no
    space any more. So a stop, a revocation or a refusal can be written, and recorded, on a full disk."""

    def __init__(self, file: Path | None, size: int, least: LeastFree) -> None:
        """`file`: beside the database; None: that is on no disk of this machine. `size`: in bytes; 0: none. `least`:
        what has to stay free of its disk besides."""
        self._file, self._size, self._least = file, size, least
        self._has_said = False

    def keep(self) -> None:
        """Make the file if it is not there, and the disk has space enough for it and for everything else."""
        if self._file is None:
            return
        try:
            if self._is_there(self._file):
                return
            self._file.unlink(missing_ok=True)
            found = os.statvfs(self._file.parent)
            free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
            if self._size and free > 2 * self._size + self._least.of(total):
                self._make(self._file)
                self._has_said = False
        except OSError as error:                     # tried again at the next look
            if not self._has_said:
                LOG.warning("no space can be kept for the record: %s", os_error_text(error))
            self._has_said = True

    def give_back(self) -> bool:
        """Remove the file; return whether there is space now, also if another process has just removed it."""
        if self._file is None or not self._size:
            return False
        try:
            self._file.unlink()
        except FileNotFoundError:
            return self._free() > self._size // 4
        except OSError:
            return False
        LOG.error(
            "the disk with the database is full: the %d MiB that are kept for stops, revocations and refusals are "
            "given back to it; free some space", self._size >> 20,
        )  # fmt: skip
        return True

    def _is_there(self, file: Path) -> bool:
        """Return whether the file has its size, and takes as much of the disk: one of a backup may have holes."""
        if not file.exists():
            return not self._size
        found = file.stat()
        return found.st_size == self._size and found.st_blocks * 512 >= self._size

    def _make(self, file: Path) -> None:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._size)
        except OSError:
            file.unlink(missing_ok=True)             # a part of it keeps nothing
            raise
        finally:
            os.close(descriptor)

    def _free(self) -> int:
        assert self._file is not None
        found = os.statvfs(self._file.parent)
        return found.f_bavail * found.f_frsize
