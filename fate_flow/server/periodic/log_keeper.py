"""Limit the size of the log files that their writers cannot rotate themselves.

These are `console.log`, to which all processes of a server share a descriptor, and the files of components: several
components write to one file, so none of them may rename it, but they follow a renamed file.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from fate_flow.core.model.job import TaskKey
from fate_flow.records.operator_log.files import LogBounds, LogFiles
from fate_flow.records.operator_log.operator_log import SERVER_FOLDER
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.settings.settings import Settings

LOOK_SECONDS = 10.0
_CONSOLE = "console.log"
_OF_PROCESSES = ("_std.log", "_err.log")
"""The ends of the names of workers' stdout and stderr: runners limit these files (`engines/local/output.py`), and
readers need stable positions in them."""


class LogKeeper(PeriodicWork):
    """A thread that checks these files every few seconds."""

    def __init__(
        self, settings: Settings, at_work: Callable[[], Collection[TaskKey]], close: Callable[[], None]
    ) -> None:
        """`at_work` returns the shares with workers; the thread calls it, and `close` at its end."""
        super().__init__("log keeper", "the sizes of log files could not be checked", close, again=LOOK_SECONDS)
        self._settings, self._at_work = settings, at_work
        self._files = LogFiles(settings.log_dir, bounds_of(settings))

    def step(self) -> float:
        self.look()
        return LOOK_SECONDS

    def look(self) -> None:
        """Rotate the files that have become too large."""
        bound_console(self._settings)
        at = time.time()
        for key in self._at_work():
            party = self._settings.log_dir / key.job_id / key.party.role / key.party.party_id
            for folder in (party, party / key.name):
                for path in _logs_in(folder):
                    self._files.bound_followed(str(path.relative_to(self._settings.log_dir)), at)


def bound_console(settings: Settings) -> bool:
    """Copy `console.log` and empty it if it has become too large; return whether that was done.

    This needs a descriptor with O_APPEND, as `bin/service.sh` and `bin/cluster` open it: with any other descriptor, the
    next line would be written at the old position, after a hole."""
    logs = settings.home / "logs"
    path = f"{SERVER_FOLDER}/{_CONSOLE}"
    if not _appends_to(logs / path):
        return False
    return LogFiles(logs, bounds_of(settings)).bound_in_place(path, time.time())


def bounds_of(settings: Settings) -> LogBounds:
    return LogBounds(settings.log_limits.file_max_bytes, settings.log_limits.folder_max_bytes)


def _appends_to(path: Path) -> bool:
    """Return whether stdout or stderr is this file, and each one that is has O_APPEND."""
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
