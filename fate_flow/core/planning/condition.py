"""Text about what a running or stopping job waits for now: parties that do not answer, tasks that start again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fate_flow.core.model.job import Job, Seat, Task, TaskKey
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.policy import RESTARTS
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.partial import Rows, is_given_up, taking_part
from fate_flow.core.planning.party_return import LOSSES, will_come_back
from fate_flow.core.planning.plan_tasks import begins_again
from fate_flow.core.planning.view import JobView
from fate_flow.core.text.phrases import counted

RESTARTING = "restarting"
"""The `status_detail` of a task that is stopped to start again, or whose next version has not begun yet; also of a job
whose tasks are all stopped to start again."""

_MOST_NAMED = 3            # of the tasks that start again, in the text about a job

_DETAILS = re.compile(r": | \(")
"""Where the reason of an engine begins, or what to do about it."""

_AT_WORK = (TaskStatus.RUNNING, TaskStatus.STOPPING)
_NOT_RUNNING = TASK_BROKEN | {TaskStatus.STOPPING}
_ENGAGED = frozenset({SeatStatus.STARTED, SeatStatus.STOPPING, SeatStatus.DRAINING})


@dataclass(frozen=True)
class Restart:
    """A task that will start again."""

    name: str
    version: int                       # the next version
    waits_for: tuple[Party, ...] = ()  # parties whose shares of the last version have not ended
    milliseconds: int = 0              # until it may start, if all shares have ended
    starter: Party | None = None       # the party that starts it, if another one decides

    @property
    def text(self) -> str:
        begins = f"begins again as version {self.version}"
        until = []
        if self.waits_for:
            who = ", ".join(map(str, self.waits_for))
            until.append(f"{who} {'has' if len(self.waits_for) == 1 else 'have'} stopped")
        if self.starter is not None:
            until.append(f"{self.starter} starts it")
        if until:
            return f"{begins} when {' and '.join(until)}"
        return f"{begins} in {self.milliseconds / 1000:.0f} s" if self.milliseconds else begins


@dataclass(frozen=True)
class Condition:
    """What a job waits for: `troubles` as text by party, `restarts` by task, `ends` for the end of the job.

    `broken` is for a party that is not the initiator: text by own share that stops or ended badly, as long as the
    initiator has not said what follows."""

    troubles: Mapping[Party, str]
    restarts: Mapping[str, Restart]
    ends: str = ""
    is_restarting: bool = False
    broken: Mapping[TaskKey, str] = field(default_factory=dict)
    waiting: Mapping[TaskKey, str] = field(default_factory=dict)      # shares without a place to run yet, as text

    @property
    def text(self) -> str:
        broken = (f"{key.name}: {text}" for key, text in self.broken.items())
        restarts = [f"{one.name} {one.text}" for one in self.restarts.values()]
        more = len(restarts) - _MOST_NAMED
        if more > 0:
            restarts[_MOST_NAMED:] = [f"{counted(more, 'other task begins', 'other tasks begin')} again"]
        said = [*self.troubles.values(), self.ends, *self.waiting.values(), *broken, *restarts]
        return "; ".join(dict.fromkeys(filter(None, said)))


def condition_of(view: JobView, troubles: Mapping[str, PeerTrouble], limit: int) -> Condition:
    """Return the condition of a job at its initiator; `limit`: milliseconds after which a party is given up."""
    restarts = {one.name: one for one in pending_restarts(view)}
    said = troubles_of(view.job, view.seats, troubles, view.now, limit)
    ends, waiting = _what_its_end_waits_for(view), waiting_shares(view.tasks, view.now)
    is_restarting = view.job.is_restarting and view.job.status is JobStatus.RUNNING     # not if it was stopped since
    return Condition(said, restarts, ends, is_restarting, waiting=waiting)


def condition_in_list(
    job: Job, seats: Iterable[Seat], tasks: Iterable[Task], troubles: Mapping[str, PeerTrouble], now: int, limit: int
) -> Condition:
    """Return the condition of a job at its initiator, or at another party, without its document.

    `tasks`: those of the newest versions that stop, wait for a place, or wait to begin again. It is the same as what
    `condition_of` returns, except that a task begins again if that was known when it was stopped, and that the text
    about the end of the job does not name its status if the job may wait for the return of a lost party."""
    if not job.is_initiator:
        return condition_of_copy(job, tasks, troubles, now)
    seats, shares = tuple(seats), tuple(tasks)
    gone = {seat.party for seat in seats if is_given_up(job, seat)}
    by_name: dict[str, list[Task]] = {}
    for share in shares:
        if share.key.party not in gone:
            by_name.setdefault(share.key.name, []).append(share)
    rows = ((of_task[0], tuple(of_task)) for of_task in by_name.values())
    restarts = {one.name: one for one in _restarts(job, rows, lambda lead: lead.begins_again, now)}
    return Condition(
        troubles_of(job, seats, troubles, now, limit), restarts, _what_an_end_waits_for(job, seats, shares, now),
        job.is_restarting and job.status is JobStatus.RUNNING, waiting=waiting_shares(shares, now),
    )  # fmt: skip


@dataclass(frozen=True)
class TaskCondition:
    """Whether a task is restarting, and what its newest version waits for, as text."""

    is_restarting: bool
    text: str


def condition_of_task(
    job: Job, shares: Sequence[Task], troubles: Mapping[str, PeerTrouble], now: int
) -> TaskCondition:
    """Return the condition of one task without the document of its job; `shares`: of its newest version."""
    if job.status not in (JobStatus.RUNNING, JobStatus.STOPPING) or not shares:
        return TaskCondition(False, "")
    of_job = condition_in_list(job, (), shares, {}, now, 0)
    restart = of_job.restarts.get(shares[0].key.name)
    at_work = (one.key.party for one in shares if one.status in _AT_WORK and not one.is_over_here)
    silent = (
        troubles[party.party_id].explain(party, job.party, now) for party in at_work if party.party_id in troubles
    )
    said = [*silent, *of_job.waiting.values(), *of_job.broken.values(), restart.text if restart is not None else ""]
    return TaskCondition(restart is not None, "; ".join(dict.fromkeys(filter(None, said))))


def condition_of_copy(job: Job, tasks: Iterable[Task], troubles: Mapping[str, PeerTrouble], now: int) -> Condition:
    """Return the condition of a job at a party that is not its initiator.

    `tasks`: the newest versions of this party's shares. If a share stops or has broken here, only the initiator knows
    what follows, until it stops the share to start the task again, or sends the end of the task or its next version."""
    trouble = troubles.get(job.initiator.party_id)
    said = {} if trouble is None else {job.initiator: trouble.explain(job.initiator, job.party, now)}
    if job.status is not JobStatus.RUNNING:
        return Condition(said, {})
    shares = tuple(tasks)
    restarts = {
        one.key.name: Restart(one.key.name, one.key.version, starter=job.initiator)
        for one in shares if _is_made_to_begin_again(job, one)
    }  # fmt: skip
    for name in dict.fromkeys(one.key.name for one in shares if _is_stopped_to_begin_again(one)):
        of_task = [one for one in shares if one.key.name == name]
        still = tuple(sorted(one.key.party for one in of_task if not one.is_over_here))
        restarts[name] = Restart(name, of_task[0].key.version + 1, still, starter=job.initiator)
    broken = {
        one.key: f"the share of {one.key.party} {text}; {job.initiator} decides what follows"
        for one in shares if one.key.name not in restarts and (text := _how_it_breaks(one))
    }  # fmt: skip
    return Condition(said, restarts, broken=broken, waiting=waiting_shares(shares, now))


def waiting_shares(tasks: Iterable[Task], now: int) -> dict[TaskKey, str]:
    """Return text about each share that was started and waits at its party for a place to run."""
    return {one.key: f"{one.key.party}: {waiting_text(one, now)}" for one in tasks if one.waits_for_a_place}


def waiting_text(share: Task, now: int) -> str:
    """Return what a share waits for, and for how long it has: `waits in Slurm for 2 nodes since 40 s: Resources`."""
    end = _DETAILS.search(share.waits)
    at = end.start() if end else len(share.waits)
    return f"{share.waits[:at]} since {max(0, now - share.waits_since) // 1000} s{share.waits[at:]}"


def _is_made_to_begin_again(job: Job, share: Task) -> bool:
    """Return whether the version was created while the job ran; a rerun creates its versions before the job starts."""
    is_next = share.status is TaskStatus.WAITING and share.key.version > 0
    return is_next and 0 < job.start_time <= share.create_time


def _is_stopped_to_begin_again(share: Task) -> bool:
    """Return whether the initiator stopped the share to start the task again, and has not sent its end since."""
    return share.status is TaskStatus.RUNNING and share.policy in RESTARTS and share.party_status in _NOT_RUNNING


def _how_it_breaks(share: Task) -> str:
    """Return text that says how the share breaks; empty if it does not, or if the job goes on without this party."""
    if share.status is not TaskStatus.RUNNING or share.reason is Reason.PARTY_MISSING:
        return ""
    if share.party_status is TaskStatus.STOPPING:
        return "is being stopped"
    return f"has ended as {share.party_status.value}" if share.party_status in TASK_BROKEN else ""


def troubles_of(
    job: Job, seats: Iterable[Seat], troubles: Mapping[str, PeerTrouble], now: int, limit: int
) -> dict[Party, str]:
    """Return text about connection troubles, by party at which the job runs."""
    most = limit if job.status is JobStatus.RUNNING and job.reason is None else None
    engaged = [seat for seat in seats if seat.status in _ENGAGED and seat.party.party_id in troubles]
    return {
        seat.party: troubles[seat.party.party_id].explain(
            seat.party, job.party, now, most if seat.status is SeatStatus.STARTED and not seat.silent_since else None
        )
        for seat in engaged
    }


def pending_restarts(view: JobView) -> Iterator[Restart]:
    """Yield the tasks of a running job that are stopped to start again, or whose next version is not due yet."""
    by_name = view.rows_by_name
    shares = ((rows[0], taking_part(view, rows)) for rows in by_name.values())
    return _restarts(view.job, shares, lambda lead: begins_again(view, by_name[lead.key.name], lead.policy), view.now)


def _restarts(
    job: Job, tasks: Iterable[tuple[Task, Rows]], is_again: Callable[[Task], bool], now: int
) -> Iterator[Restart]:
    """Yield the same of a row of each task, and its shares that take part. `is_again`: whether one that stops begins
    again."""
    if job.status is not JobStatus.RUNNING or job.reason is not None:
        return
    for lead, rows in tasks:
        if lead.status is TaskStatus.STOPPING and is_again(lead):
            still = tuple(row.key.party for row in rows if not row.is_over_here)
            yield Restart(lead.key.name, lead.key.version + 1, still)
        elif lead.status is TaskStatus.WAITING and lead.key.version and lead.retry_at > now:
            yield Restart(lead.key.name, lead.key.version, milliseconds=lead.retry_at - now)


def _what_its_end_waits_for(view: JobView) -> str:
    is_failed = view.job.target is JobStatus.FAILED
    follows = "waits for the return of the lost party" if is_failed and will_come_back(view) else ""
    return _end_text(view.job, view.seats, view.tasks, view.now, follows)


def _what_an_end_waits_for(job: Job, seats: Iterable[Seat], tasks: Iterable[Task], now: int) -> str:
    """Return the same, if it is not known whether the job waits for the return of the lost party."""
    may_return = job.target is JobStatus.FAILED and job.reason in LOSSES
    return _end_text(job, seats, tasks, now, "its run ends" if may_return else "")


def _end_text(job: Job, seats: Iterable[Seat], tasks: Iterable[Task], now: int, follows: str) -> str:
    """Return what the end of a job waits for; `follows`: what the job does then, empty: it ends."""
    if job.status is not JobStatus.STOPPING or job.target is None:
        return ""
    busy = {row.key.party for row in tasks if row.party_status in _AT_WORK}
    still = [seat.party for seat in seats if seat.status is SeatStatus.STOPPING or seat.party in busy]
    if not still:
        return ""
    who, has = ", ".join(map(str, still)), "has" if len(still) == 1 else "have"
    seconds = max(0, job.stop_by - now) // 1000
    return f"{follows or f'ends as {job.target.value}'} when {who} {has} stopped, in {seconds} s at the latest"
