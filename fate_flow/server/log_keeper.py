"""Bounds for the log files of a home that nobody rotates while he writes them.

Those are `console.log`, to which all processes of a server have one descriptor, and the files of components, which
follow a file that was renamed but must not rename it themselves, since several of them write there.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from fate_flow.core.model.job import TaskKey
from fate_flow.records.operator_log.files import LogBounds, LogFiles
from fate_flow.records.operator_log.operator_log import SERVER_FOLDER
from fate_flow.settings.settings import Settings

log = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
_END_SECONDS = 5.0
_CONSOLE = "console.log"
_OF_PROCESSES = ("_std.log", "_err.log")
"""How the names of stdout and stderr of workers end: runners bound these (`engines/local/output.py`), and readers of
them go by position."""


class LogKeeper:
    """Looks at these files every few seconds, in a thread of its own."""

    def __init__(
        self, settings: Settings, at_work: Callable[[], Collection[TaskKey]], close: Callable[[], None]
    ) -> None:
        """`at_work`: the shares that have workers; it and `close`, at the end, are called in the thread."""
        self._settings, self._at_work, self._close = settings, at_work, close
        self._files = LogFiles(settings.log_dir, bounds_of(settings))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="log keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(_END_SECONDS)

    def look(self) -> None:
        """Bound what has grown too large."""
        bound_console(self._settings)
        at = time.time()
        for key in self._at_work():
            party = self._settings.log_dir / key.job_id / key.party.role / key.party.party_id
            for folder in (party, party / key.name):
                for path in _logs_in(folder):
                    self._files.bound_followed(str(path.relative_to(self._settings.log_dir)), at)

    def _work(self) -> None:
        while True:
            try:
                self.look()
            except Exception:
                log.exception("the sizes of log files could not be looked at")
            if self._is_over.wait(LOOK_SECONDS):
                break
        self._close()


def bound_console(settings: Settings) -> bool:
    """Copy away and empty `console.log` when it has grown too large; whether that was done.

    Only where this process writes there with O_APPEND, as `bin/service.sh` and `bin/cluster` start it: with any other
    descriptor the next line would be where the last one was, behind a hole."""
    logs = settings.home / "logs"
    path = f"{SERVER_FOLDER}/{_CONSOLE}"
    if not _appends_to(logs / path):
        return False
    return LogFiles(logs, bounds_of(settings)).bound_in_place(path, time.time())


def bounds_of(settings: Settings) -> LogBounds:
    return LogBounds(settings.log_limits.file_max_bytes, settings.log_limits.folder_max_bytes)


def _appends_to(path: Path) -> bool:
    """Whether stdout and stderr, as far as they lead to this file, are opened to append, and one of them does."""
    leading = []
    with suppress(OSError):
        found = path.stat()
        for number in (1, 2):
            ours = os.fstat(number)
            if (ours.st_dev, ours.st_ino) == (found.st_dev, found.st_ino):
                leading.append(bool(fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND))
    return bool(leading) and all(leading)


def _logs_in(folder: Path) -> list[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
        return [folder / name for name in names if name.endswith(".log") and not name.endswith(_OF_PROCESSES)]
    return []
