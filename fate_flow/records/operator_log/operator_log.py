"""The log files that operators of FATE read: callers pass events; this module knows files, format and order.

`events.py` is the table of all events. A record costs one `write` per file. Lines of the database log, by far the most,
are held in the process until the transaction ends (`flush`), 50 of them wait, or another line is written. So the order
over all files is the order in time. A killed process loses at most the lines that it held.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from fate_flow.records.operator_log.events import Event, Log
from fate_flow.records.operator_log.files import LogBounds, LogFiles
from fate_flow.records.operator_log.format import Level, one_line, origin_here, record, source_here

SERVER_FOLDER = "fate_flow"

_JOB_FOLDER = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}")
_DATABASE_LEVEL = Level.DEBUG


class OperatorLog:
    """The operators' log of one party's server. It is safe with threads and forks, and never fails for its callers."""

    def __init__(
        self, root: Path, *, level: str = "DEBUG", log_sql: bool = True, bounds: LogBounds | None = None,
        clock: Callable[[], float] = time.time, server_root: Path | None = None,
    ) -> None:  # fmt: skip
        """`root` has the folders of jobs, and that of the server unless this is elsewhere, below `server_root`."""
        self._files = LogFiles(root, bounds)
        # An absolute path is one of its own for LogFiles.
        self._before_server = f"{server_root}/" if server_root not in (None, root) else ""
        self._level = Level[level]
        self._clock = clock
        self._writes_database = log_sql and self._level <= _DATABASE_LEVEL
        self._database_paths = self._server_paths(Log.DATABASE, _DATABASE_LEVEL)

    def emit(self, event: Event, /, *, stacklevel: int = 1, **fields: object) -> None:
        """Write the line of an event. Raises TypeError if the fields are not those of its row in the table."""
        message = event.message(fields)
        self._write(event.log, event.level, fields.get("job_id"), message, stacklevel + 1)

    def http_response(self, job_id: str, endpoint: str, text: str, body: object, *, stacklevel: int = 1) -> None:
        """Write the two lines of an answered request: its raw text, and its parsed body."""
        self.emit(Event.HTTP_RESPONSE_TEXT, job_id=job_id, text=text, stacklevel=stacklevel + 1)
        self.emit(Event.HTTP_RESPONSE, job_id=job_id, endpoint=endpoint, body=body, stacklevel=stacklevel + 1)

    def sql(self, job_id: str, statement: str, *, stacklevel: int = 1) -> None:
        """Write the update that is about to be executed, with its values; without a job, into the server's file."""
        self._write(Log.SQL, Level.INFO, job_id, one_line(statement), stacklevel + 1)

    def access(
        self, address: str, method: str, path: str, status: int, user: str = "-", trace: str = "", *, http: str = "1.1"
    ) -> None:
        """Write the line of one request that was served, as werkzeug prints it, and then its trace; `user`: the client
        that signed it."""
        when = time.strftime("%d/%b/%Y %H:%M:%S", time.localtime(self._clock()))
        message = f'{address} - {user} [{when}] "{method} {path} HTTP/{http}" {status} - {trace}'.rstrip()
        self._write(Log.ACCESS, Level.INFO, None, one_line(message), 2)

    def database(self, statement: str, params: Sequence[object] | None = None, *, stacklevel: int = 1) -> None:
        """Hold one statement for the database log; call `flush` when the transaction ends."""
        if not self._writes_database:
            return
        at = self._clock()
        source, line = source_here(stacklevel)
        message = f"({_shown(statement)}, {list(params or ())!r})"
        data = record(_DATABASE_LEVEL.name, at, origin_here(), source, line, message)
        self._files.hold(self._database_paths, data, at)

    def write_record(
        self, log: Log, level: Level, at: float, origin: str, source: str, line: int, message: str, job_id: str = "",
    ) -> None:
        """Write a line whose parts the caller knows; the message must be safe already (`format.one_line`)."""
        if level < self._level:
            return
        data = record(level.name, at, origin, source, line, message)
        self._files.append(self._paths(log, level, job_id), data, at)

    def flush(self) -> None:
        """Write held records: at the end of a transaction, and before the process goes idle."""
        self._files.flush()

    def close(self) -> None:
        """Flush and close the files; a later record opens them again."""
        self._files.close()

    def _write(self, log: Log, level: Level, job_id: object, message: str, depth: int) -> None:
        if level < self._level:
            return
        at = self._clock()
        source, line = source_here(depth)
        data = record(level.name, at, origin_here(), source, line, message)
        self._files.append(self._paths(log, level, job_id), data, at)

    def _paths(self, log: Log, level: Level, job_id: object) -> tuple[str, ...]:
        if not (log.is_jobs and is_job_folder(job_id)):      # no job, or an id that is not valid as a folder
            return self._server_paths(log, level)
        of_job = tuple([f"{job_id}/{name}" for name in _file_names(log, level)])
        return of_job + self._server_paths(log, level) if log.is_servers else of_job

    def _server_paths(self, log: Log, level: Level) -> tuple[str, ...]:
        found, before = server_paths(log, level, self._level), self._before_server
        return tuple([before + path for path in found]) if before else found


def _shown(statement: str) -> str:
    """Return the statement as Python shows it, without line breaks. The long ones are asked for again and again."""
    if len(statement) < _LONG_STATEMENT:
        return repr(statement)
    known = _shown_statements.get(statement)
    if known is None:
        if len(_shown_statements) >= _MOST_STATEMENTS:
            _shown_statements.clear()
        known = _shown_statements[statement] = repr(statement)
    return known


_LONG_STATEMENT = 128          # characters; those with names of their own, such as savepoints, are shorter
_MOST_STATEMENTS = 2_000
_shown_statements: dict[str, str] = {}


def is_job_folder(job_id: object) -> bool:
    """Return whether the job may have a folder with this name below the root."""
    return isinstance(job_id, str) and _JOB_FOLDER.fullmatch(job_id) is not None and job_id != SERVER_FOLDER


def server_paths(log: Log, level: Level, lowest: Level = Level.DEBUG) -> tuple[str, ...]:
    """Return the server's files for a record; there are no level files below `lowest`."""
    known = _server_paths.get((log, level, lowest))
    if known is None:
        names = _file_names(log, level) + (_level_files(level, lowest) if log.has_level_files else ())
        known = _server_paths[log, level, lowest] = tuple(f"{SERVER_FOLDER}/{name}" for name in names)
    return known


_server_paths: dict[tuple[Log, Level, Level], tuple[str, ...]] = {}


def _file_names(log: Log, level: Level) -> tuple[str, ...]:
    own = f"{log.stem}.log"
    return (own, f"{log.stem}_error.log") if level >= Level.ERROR else (own,)


def _level_files(level: Level, lowest: Level) -> tuple[str, ...]:
    return tuple(f"{each.name}.log" for each in Level if lowest <= each <= level)

