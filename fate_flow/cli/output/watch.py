"""Follow a job until it ends: poll, compare with the last state, show the changes.

Each poll asks `job/explain` once and makes a `JobView`; if tasks have reported metrics since, also `job/metrics`. If
the server does not answer or is too busy, the poll is repeated for a minute, since the job runs on without it. Nothing
here changes the job.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from fate_flow.cli.connection.client import CallFailed, Client, NoAnswer
from fate_flow.cli.console.display import one_line, show, tell
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.console.wording import (
    RESTARTING,
    duration,
    job_title,
    party_name,
    reason_of,
    short_moment,
    status_of,
    without_seconds,
)
from fate_flow.cli.output.curves import Curve, Curves, new_points
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus, TaskStatus
from fate_flow.core.text.phrases import ordinal

LOOK_SECONDS, FIRST_LOOK_SECONDS = 0.5, 0.1
_SHARE = 0.1                  # of the time for which a job was watched
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
    status: str                    # `restarting`: it has not ended here, and its task starts again
    message: str = ""

    @property
    def is_final(self) -> bool:
        return self.status in _TASK_ENDED


@dataclass(frozen=True)
class JobView:
    """The state of a job at one moment."""

    job_id: str
    status: str
    message: str = ""              # why it ended
    waits_for: str = ""
    tasks: tuple[PartyTask, ...] = ()
    name: str = ""
    created: int = 0               # in milliseconds
    newest_metric: int = 0         # its number at the server
    curves: tuple[Curve, ...] = ()

    @classmethod
    def of(cls, job_id: str, data: Mapping[str, Any]) -> Self:
        """Return the view of an answer of `job/explain`."""
        tasks = tuple(_party_tasks(data.get("tasks") or ()))
        status = str(status_of(data) or "")
        waits_for = "" if status in _ENDED else why_it_waits(data)
        newest, name = int(data.get("newest_metric") or 0), one_line(data.get("name") or "")
        created = int(data.get("create_time") or 0)
        return cls(job_id, status, reason_of(data), waits_for, tasks, name, created, newest)

    @property
    def title(self) -> str:
        return job_title(self.job_id, self.name)

    @property
    def is_final(self) -> bool:
        return self.status in _ENDED

    @property
    def is_success(self) -> bool:
        return self.status == JobStatus.SUCCESS.value


class Screen(Protocol):
    """A display of a job's progress."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exc: object) -> None: ...
    def show(self, view: JobView) -> None: ...
    def tell(self, text: str) -> None: ...


def follow(client: Client, job_id: str, screen: Screen) -> None:
    """Show the job until it ends; exit with code 1 unless it succeeded. Ctrl-C exits with 130; the job runs on."""
    try:
        last = watch(client, job_id, screen)
    except KeyboardInterrupt:
        tell(f"job {job_id} runs on; flow job watch -j {job_id} shows it again, flow job stop -j {job_id} ends it")
        raise SystemExit(INTERRUPTED) from None
    why = f": {last.message}" if last.message and not last.is_success else ""
    tell(f"{last.title}: {last.status}{why}")
    if not last.is_success:
        tell(f"flow job explain -j {job_id} says more, flow job log -j {job_id} -o . downloads the logs")
        raise SystemExit(1)


def show_submitted(answer: ServerReply, is_watched: bool) -> None:
    """Print the answer of a submit. If a person watches an accepted job, print only what the display does not show."""
    if not (is_watched and answer.is_success and sys.stdout.isatty()):
        show(answer)
        return
    tell(f"job {answer.envelope.get('jobId')} is submitted")
    for warning in (answer.data.get("warnings") if isinstance(answer.data, Mapping) else None) or ():
        tell(f"warning: {warning}")


def follow_submitted(client: Client, answer: ServerReply, screen: Screen) -> None:
    """Like `follow`, but print errors only on stderr: stdout already has the answer of the submit, one document."""
    try:
        follow(client, str(answer.envelope.get("jobId")), screen)
    except CallFailed as error:
        tell(f"Error: {error.message}")
        raise SystemExit(error.exit_code) from error


def watch(client: Client, job_id: str, screen: Screen) -> JobView:
    """Show the job until it ends; return its final state. Raise CallFailed if the server cannot give its state."""
    curves, begun = Curves(client, job_id), time.monotonic()
    with screen:
        while True:
            view = _fetch(client, job_id, screen)
            view = replace(view, curves=curves.up_to(view.newest_metric))
            screen.show(view)
            if view.is_final:
                return view
            client.pause(pause_after(time.monotonic() - begun))


def pause_after(seconds: float) -> float:
    """Return the pause before the next look at a job that was watched for so long: short for a short job."""
    return min(LOOK_SECONDS, max(FIRST_LOOK_SECONDS, _SHARE * seconds))


def changes(before: JobView | None, after: JobView) -> Iterator[str]:
    """Yield a line for each change; the end of the job comes after the ends of its tasks."""
    known = {(task.component, task.party): task for task in before.tasks} if before else {}
    of_job = list(_job_changes(before, after))
    of_tasks = [
        line for task in after.tasks
        for line in _task_changes(after.title, known.get((task.component, task.party)), task)
    ]  # fmt: skip
    points = list(new_points(after.title, before.curves if before else None, after.curves))
    yield from points + of_tasks + of_job if after.is_final else of_job + of_tasks + points


def _job_changes(before: JobView | None, after: JobView) -> Iterator[str]:
    if before is None or before.status != after.status:
        created = "" if before else short_moment(after.created)
        job = f"{after.title}, created {created}" if created else after.title
        moved = f"{before.status} -> {after.status}" if before else after.status
        yield f"{job}: {moved}" + (f": {after.waits_for}" if after.waits_for else "")
    elif without_seconds(before.waits_for) != without_seconds(after.waits_for):
        yield f"{after.title}: {after.status}" + (f": {after.waits_for}" if after.waits_for else "")


def unchanged(view: JobView, seconds: int) -> str:
    """Return the reminder for a time without changes: what runs, or what the job waits for."""
    running: dict[str, list[str]] = {}
    for task in view.tasks:
        if task.status == TaskStatus.RUNNING.value:
            running.setdefault(task.component, []).append(task.party)
    at_work = "; ".join(f"{name} runs at {', '.join(parties)}" for name, parties in running.items())
    what = view.waits_for or at_work
    time = f"{seconds} s" if seconds < 60 else duration(seconds * 1000)
    return f"{view.title}: still {view.status} after {time}" + (f": {what}" if what else "")


def why_it_waits(data: Mapping[str, Any]) -> str:
    """Return what the job waits for, from the answer of `job/explain`."""
    place = data.get("place_in_queue")
    fallback = f"{ordinal(place)} in the queue" if isinstance(place, int) and place > 0 else ""
    return one_line(data.get("wait_reason") or fallback)


def _fetch(client: Client, job_id: str, screen: Screen) -> JobView:
    """Return the state of the job; retry for `PATIENCE_SECONDS` if the server does not answer."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    is_reported = False
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
        if not is_reported:
            screen.tell(f"{trouble.message}; trying again for a minute")
        is_reported = True
        client.pause(LOOK_SECONDS)


def _party_tasks(tasks: Any) -> Iterator[PartyTask]:
    for task in tasks:
        for party in task.get("parties") or ():
            yield PartyTask(
                str(task.get("component_name")), party_name(party), int(task.get("task_version") or 0),
                _status_there(party, task), reason_of(party),
            )


def _status_there(party: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    status = str(party.get("status") or "")
    return RESTARTING if status_of(task) == RESTARTING and status not in _TASK_ENDED else status


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
