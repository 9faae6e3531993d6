"""Following a job until it ends: ask, compare with what was known, show.

A look asks `job/explain` once and becomes a `JobView`. A server that is gone, or too busy, is asked again for a
minute, since the job runs on without it; nothing that is done here touches the job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from fate_flow.cli.answer import Answer
from fate_flow.cli.client import CallFailed, Client, NoAnswer
from fate_flow.cli.display import one_line, tell
from fate_flow.core.reasons import Reason
from fate_flow.core.status import JOB_END, TASK_END, JobStatus
from fate_flow.core.text import ordinal

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
INTERRUPTED = 130

_ENDED = frozenset(status.value for status in JOB_END)
_TASK_ENDED = frozenset(status.value for status in TASK_END)


@dataclass(frozen=True)
class PartyTask:
    """One component at one party."""

    component: str
    party: str                     # guest-9999
    version: int
    status: str
    message: str = ""

    @property
    def is_final(self) -> bool:
        return self.status in _TASK_ENDED


@dataclass(frozen=True)
class JobView:
    """A job at one moment."""

    job_id: str
    status: str
    message: str = ""              # how it ended
    waits_for: str = ""
    tasks: tuple[PartyTask, ...] = ()

    @classmethod
    def of(cls, job_id: str, data: Mapping[str, Any]) -> Self:
        """What `job/explain` answered."""
        tasks = tuple(_party_tasks(data.get("tasks") or ()))
        status = str(data.get("status", ""))
        is_waiting = status in (JobStatus.WAITING.value, JobStatus.READY.value)
        return cls(job_id, status, reason_of(data), why_it_waits(data) if is_waiting else "", tasks)

    @property
    def is_final(self) -> bool:
        return self.status in _ENDED

    @property
    def is_success(self) -> bool:
        return self.status == JobStatus.SUCCESS.value


class Screen(Protocol):
    """Where a job is shown."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def show(self, view: JobView) -> None: ...
    def tell(self, text: str) -> None: ...


def follow(client: Client, job_id: str, screen: Screen) -> None:
    """Returns when the job has succeeded; ends the command when it has not, or at Ctrl-C, which the job survives."""
    try:
        last = watch(client, job_id, screen)
    except KeyboardInterrupt:
        tell(f"job {job_id} runs on; flow job watch -j {job_id} shows it again, flow job stop -j {job_id} ends it")
        raise SystemExit(INTERRUPTED) from None
    tell(f"job {job_id}: {last.status}" + (f": {last.message}" if last.message and not last.is_success else ""))
    if not last.is_success:
        tell(f"flow job explain -j {job_id} tells more, flow job log -j {job_id} -o . fetches the logs")
        raise SystemExit(1)


def follow_submitted(client: Client, answer: Answer, screen: Screen) -> None:
    """As `follow`, for a job whose submit has been answered on stdout, where nothing may follow."""
    try:
        follow(client, str(answer.envelope.get("jobId")), screen)
    except CallFailed as error:
        tell(f"Error: {error.message}")
        raise SystemExit(error.exit_code) from error


def watch(client: Client, job_id: str, screen: Screen) -> JobView:
    """Shows the job until it has ended; its last state. Raises CallFailed when the server cannot say how it is."""
    with screen:
        while True:
            view = _look(client, job_id, screen)
            screen.show(view)
            if view.is_final:
                return view
            client.pause(LOOK_SECONDS)


def changes(before: JobView | None, after: JobView) -> Iterator[str]:
    """A line for each thing that is different now."""
    job = f"job {after.job_id}"
    if before is None or before.status != after.status:
        moved = f"{before.status} -> {after.status}" if before else after.status
        yield f"{job}: {moved}" + (f": {after.waits_for}" if after.waits_for else "")
    elif after.waits_for and before.waits_for != after.waits_for:
        yield f"{job}: {after.status}: {after.waits_for}"
    known = {(task.component, task.party): task for task in before.tasks} if before else {}
    for task in after.tasks:
        yield from _task_changes(job, known.get((task.component, task.party)), task)


def why_it_waits(data: Mapping[str, Any]) -> str:
    """In words, from what `job/explain` answered."""
    place = data.get("place_in_queue")
    fallback = f"{ordinal(place)} in the queue" if isinstance(place, int) and place > 0 else ""
    return one_line(data.get("wait_reason") or fallback)


def reason_of(data: Mapping[str, Any]) -> str:
    """Why a job or a task ended: the reason's code and the message."""
    reason = data.get("reason")
    parts = ("" if reason == Reason.DONE.value else reason, data.get("message"))
    return ": ".join(one_line(part) for part in parts if part)


def party_name(value: object) -> str:
    """guest-9999"""
    if isinstance(value, Mapping):
        return f"{value.get('role')}-{value.get('party_id')}"
    return str(value)


def _look(client: Client, job_id: str, screen: Screen) -> JobView:
    """How the job is now; waits for a server that does not answer, as long as that may take."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    is_told = False
    while True:
        try:
            answer = client.post("job/explain", {"job_id": job_id})
            if answer.is_success and isinstance(answer.data, Mapping):
                return JobView.of(job_id, answer.data)
            trouble = CallFailed(answer.message, answer.envelope)
            may_pass = answer.status >= 500
        except NoAnswer as error:
            trouble, may_pass = error, True
        if not may_pass or time.monotonic() > deadline:
            raise trouble
        if not is_told:
            screen.tell(f"{trouble.message}; trying again for a minute")
        is_told = True
        client.pause(LOOK_SECONDS)


def _party_tasks(tasks: Any) -> Iterator[PartyTask]:
    for task in tasks:
        for party in task.get("parties") or ():
            yield PartyTask(
                str(task.get("component_name")), party_name(party), int(task.get("task_version") or 0),
                str(party.get("status") or ""), reason_of(party),
            )


def _task_changes(job: str, before: PartyTask | None, after: PartyTask) -> Iterator[str]:
    name = f"{job} task {after.component} {after.party}"
    status = after.status
    if after.is_final and after.message and status not in ("success", "pass"):
        status = f"{status}: {after.message}"
    if before is None:
        if after.status != "waiting":
            yield f"{name}: {status}"
    elif before.version != after.version:
        yield f"{name}: {before.status} -> {status} (version {after.version})"
    elif before.status != after.status:
        yield f"{name}: {before.status} -> {status}"
