"""Used nonces, a name in a folder for each: neither another process of this server nor a restarted server accepts one
again.

All names that a process makes are those of one file, as long as the file system allows: a new file for each nonce would
need an inode, and ext4 looks for a free one several times as long as it takes to add a name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Lock

from fate_flow.core.model.errors import StorageFailed

_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY
_LOOKED_AT = 16          # files to check with each new one: no request waits for a check of tens of thousands


class Nonces:
    """The nonces of signatures that are valid for `window_ms` before and after their time, in their own folder."""

    def __init__(self, folder: Path, window_ms: int) -> None:
        self._folder = folder
        self._window_ms = window_ms
        self._names: Iterator[str] = iter(())
        self._sweeping = Lock()
        self._last = folder / "none"         # that this process has made

    def is_new(self, nonce: str, at: int, now: int) -> bool:
        """Record the nonce; return False if it was used before.

        `at`: the time in the signature, in milliseconds. Raise StorageFailed."""
        try:
            is_new = self._is_made(self._path(nonce, at))
            self._sweep(now)
        except OSError as error:
            raise StorageFailed(f"{self._folder}: cannot be written: {error.strerror}") from error
        return is_new

    def is_used(self, nonce: str, at: int) -> bool:
        """Return whether this nonce was recorded, and is not too old to be kept. Raise StorageFailed."""
        path = self._path(nonce, at)
        try:
            path.stat()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageFailed(f"{self._folder}: cannot be read: {error.strerror}") from error
        return True

    def _path(self, nonce: str, at: int) -> Path:
        return self._folder / f"{at}-{sha256(nonce.encode('utf-8', 'surrogateescape')).hexdigest()}"

    def _is_made(self, path: Path) -> bool:
        """Make the name; return False if it exists."""
        try:
            if not _is_linked(self._last, path):
                self._make(path)
        except FileExistsError:
            return False
        self._last = path
        return True

    def _make(self, path: Path) -> None:
        """Make a file in the folder, which is made, too, if it is not there. Raise FileExistsError."""
        try:
            os.close(os.open(path, _NEW, 0o600))
        except FileNotFoundError:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, _NEW, 0o600))

    def _sweep(self, now: int) -> None:
        """Remove old files among the next few: their requests are refused for their age anyway."""
        if not self._sweeping.acquire(blocking=False):
            return
        try:
            names = list(islice(self._names, _LOOKED_AT))
            if len(names) < _LOOKED_AT:
                self._names = _names_in(self._folder)
        finally:
            self._sweeping.release()
        for name in names:
            if int(name.partition("-")[0]) < now - 2 * self._window_ms:
                (self._folder / name).unlink(missing_ok=True)


def _names_in(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name


def _is_linked(file: Path, path: Path) -> bool:
    """Give a file this name, too; return False if that cannot be. Raise FileExistsError."""
    try:
        os.link(file, path)
    except FileExistsError:
        raise
    except OSError:         # it was removed, or has as many names as it may have; or this file system knows no links
        return False
    return True
