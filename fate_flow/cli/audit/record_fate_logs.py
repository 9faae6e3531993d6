"""What is recorded about a job as lines of FATE's log files, in FATE's words.

A line is made of one entry: its time is that of the entry, and in the place of process and thread it has the log and
the index of the entry. Lines of which the record has no entry, such as those of rounds of the scheduler, are not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fate_flow.core.model.status import JOB_END, JobStatus
from fate_flow.core.record.sentences import command_of, sentence_of
from fate_flow.core.record.shown import ShownEntry
from fate_flow.records.operator_log.events import Event
from fate_flow.records.operator_log.format import record

_ENDS = frozenset(status.value for status in JOB_END)
Fields = Mapping[str, object]
_Line = tuple[Event, Fields]


def as_fate_logs(entries: Sequence[ShownEntry], own: str) -> Iterator[str]:
    """Yield the lines, in the order of writing. `own`: the party whose record it is."""
    asked: dict[str, str] = {}           # what each message has asked for, by its number
    for one in entries:
        if one.kind == "sent":
            asked[str(one.said.get("number"))] = command_of(one.said)
        for event, fields in _lines(one, own, asked):
            origin = f"{one.log}:{one.index if one.epoch else '-'}"
            text = record(event.level.name, one.at / 1000, origin, "record", max(one.index, 0), event.message(fields))
            yield text.decode("utf-8", "replace").rstrip("\n")


def _lines(one: ShownEntry, own: str, asked: Mapping[str, str]) -> Iterator[_Line]:
    said, job = one.said, {"job_id": str(one.said.get("job", ""))}
    match one.kind:
        case "status":
            yield from _status(said, job, one)
        case "sent":
            yield Event.HTTP_REQUEST, {**job, "url": f"party {one.other}: {command_of(said)}"}
        case "answered":
            endpoint = asked.get(str(said.get("number")), "a message")
            yield Event.HTTP_RESPONSE, {**job, "endpoint": endpoint, "body": {"retcode": said.get("retcode")}}
        case "received":
            text = f"answered party {one.other}: {command_of(said)} {said.get('retcode')}"
            yield Event.SERVED, {**job, "text": text}
        case "act" if said.get("what") == "submitted":
            yield Event.SUBMITTED, {**job, "model_id": ""}
        case _:
            yield Event.JOB_NOTE, {**job, "text": f"party {own}: {sentence_of(one)}"}


def _status(said: Mapping[str, Any], job: Fields, one: ShownEntry) -> Iterator[_Line]:
    role, _, party_id = str(said.get("party", "")).partition(" ")
    place = {**job, "role": role, "party_id": party_id}
    task = {**job, "task_id": f"{job['job_id']}_{said.get('task', '')}", "task_version": said.get("version", 0)}
    new = str(said.get("new", ""))
    match said.get("level"):
        case "job":
            yield from _job(new, job, place)
        case "task":
            yield Event.TASK_STATUS_ASKED, task
            yield Event.TASK_STATUS_WRITTEN, {**task, "info": {"status": new}}
        case "party task":
            yield Event.TASK_STATUS_ASKED, task
            yield Event.TASK_STATUS_WRITTEN, {**task, "info": {"party_status": new}}
        case "worker" if new == "running":
            yield Event.EXECUTOR_STARTED, {**task, "role": role, "party_id": party_id, "outcome": "success"}
        case _:
            yield Event.JOB_NOTE, {**job, "text": sentence_of(one)}


def _job(new: str, job: Fields, place: Fields) -> Iterator[_Line]:
    if new == JobStatus.RUNNING.value:
        yield Event.PARTY_START_ASKED, place
    yield Event.JOB_STATUS_ASKED, {**job, "status": new}
    yield Event.JOB_STATUS_WRITTEN, job
    if new == JobStatus.RUNNING.value:
        yield Event.PARTY_STARTED, place
    elif new in _ENDS:
        yield Event.JOB_FINISHED, {**job, "status": new}
