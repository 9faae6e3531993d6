"""The record of one party: checks each event as the log files do, and keeps what says that a status has changed."""

from __future__ import annotations

from collections.abc import Mapping

from fate_flow.core.model.job import TaskKey
from fate_flow.records.operator_log.events import Event

Fact = tuple[str, ...]


class SimRecord:
    """What was written since it was forgotten last: the end of a transaction."""

    def __init__(self) -> None:
        self.facts: set[Fact] = set()
        self.taken_back = 0        # holds that ran out
        self._asked = ""

    def emit(self, event: Event, /, *, stacklevel: int = 1, **fields: object) -> None:
        if fields.keys() != event.fields:
            event.message(fields)       # raises, and says what is wrong
        if event is Event.DETECT_RETURN_ASKED:
            self.taken_back += 1
        if event in _KEPT:
            self._keep(event, fields)

    def _keep(self, event: Event, fields: Mapping[str, object]) -> None:
        if event is Event.JOB_STATUS_ASKED:
            self._asked = _word(fields["status"])
        elif event is Event.JOB_STATUS_WRITTEN:
            self.facts.add(("job", str(fields["job_id"]), self._asked))
        elif event is Event.TASK_STATUS_WRITTEN:
            info = fields["info"]
            assert isinstance(info, Mapping)
            for key, status in info.items():
                self.facts.add((str(key), str(fields["task_id"]), str(fields["task_version"]), str(status)))
        else:
            task = (str(fields["task_id"]), str(fields["task_version"]))
            self.facts.add(("status", *task, _word(fields["status"])))

    def has_job(self, job_id: str, status: str) -> bool:
        return ("job", job_id, status) in self.facts

    def has_task(self, column: str, key: TaskKey, status: str) -> bool:
        return (column, key.task_id, str(key.version), status) in self.facts

    def forget(self) -> None:
        self.facts.clear()

    def http_response(self, job_id: str, endpoint: str, text: str, body: object, *, stacklevel: int = 1) -> None: ...

    def access(self, address: str, method: str, path: str, status: int, user: str = "-", trace: str = "") -> None: ...

    def flush(self) -> None: ...


_KEPT = frozenset(
    {Event.JOB_STATUS_ASKED, Event.JOB_STATUS_WRITTEN, Event.TASK_STATUS_WRITTEN, Event.TASK_STATUS_SYNC}
)


def _word(status: object) -> str:
    return str(getattr(status, "value", status))
