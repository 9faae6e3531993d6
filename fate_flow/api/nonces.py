"""What was used once: a file for each, so that neither another process of this server takes it again nor one after a
restart."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

from fate_flow.core.errors import StorageFailed


class Nonces:
    """Those of signatures that hold for `window_ms` before and after their time, in a folder of their own."""

    def __init__(self, folder: Path, window_ms: int) -> None:
        self._folder = folder
        self._window_ms = window_ms
        self._swept = 0

    def is_new(self, nonce: str, at: int, now: int) -> bool:
        """False when it was used before; `at`: the time in the signature, milliseconds. Raises StorageFailed."""
        name = f"{at}-{sha256(nonce.encode('utf-8', 'surrogateescape')).hexdigest()}"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sweep(now)
            return _is_made(self._folder / name)
        except OSError as error:
            raise StorageFailed(f"{self._folder}: nothing can be noted there: {error.strerror}") from error

    def _sweep(self, now: int) -> None:
        """What would be refused for its age anyhow is forgotten, once a window."""
        if abs(now - self._swept) < self._window_ms:
            return
        self._swept = now
        for path in self._folder.iterdir():
            if int(path.name.partition("-")[0]) < now - 2 * self._window_ms:
                path.unlink(missing_ok=True)


def _is_made(path: Path) -> bool:
    """False for a file that is there."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True
