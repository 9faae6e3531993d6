"""The handler of `logging.getLogger("fate_flow...")`: it writes fate_flow_stat.log and the level files beside it.

A record may have `job_id`, `role`, `party_id` and `task_id` in its `extra`; they follow the message. Warnings and
errors about a job also go to that job's fate_flow_schedule.log, as in 1.6: an operator opens this file first.
"""

from __future__ import annotations

import logging
import traceback

from fate_flow.records.operator_log.events import Log
from fate_flow.records.operator_log.format import Level, many_lines, one_line
from fate_flow.records.operator_log.operator_log import OperatorLog, is_job_folder

_EXTRAS = {"job_id": "job", "task_id": "task", "role": "role", "party_id": "party"}


class ServerLogHandler(logging.Handler):
    """Writes records in the format of 1.6, with tracebacks."""

    def __init__(self, log: OperatorLog, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(record)
        except Exception:  # noqa: BLE001  # a message that does not fit its arguments must not stop the caller
            self.handleError(record)

    def flush(self) -> None:
        self._log.flush()

    def _write(self, record: logging.LogRecord) -> None:
        level = _level(record.levelno)
        job_id = str(getattr(record, "job_id", ""))
        for log in (Log.STAT, Log.JOB) if level >= Level.WARNING and is_job_folder(job_id) else (Log.STAT,):
            self._log.write_record(
                log, level, record.created, f"{record.process}:{record.thread}", one_line(record.filename),
                record.lineno, _message(record), job_id)


def _level(number: int) -> Level:
    """Return the highest of the four levels that is not above the number."""
    return max((level for level in Level if level <= number), default=Level.DEBUG)


def _message(record: logging.LogRecord) -> str:
    text = one_line(record.getMessage())
    extras = [(word, getattr(record, name, None)) for name, word in _EXTRAS.items()]
    about = ", ".join([f"{word} {one_line(str(value))}" for word, value in extras if value is not None])
    if about:
        text = f"{text} ({about})"
    for part in (_traceback(record), record.stack_info):
        if part:
            text = f"{text}\n{many_lines(part)}"
    return text


def _traceback(record: logging.LogRecord) -> str:
    if record.exc_info and record.exc_info[0] is not None:
        return "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
    return record.exc_text or ""
