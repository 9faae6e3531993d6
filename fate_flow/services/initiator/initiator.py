"""What the initiator does: takes a submit, carries out plans, judges answers and reports.

Every method runs inside the unit of work it is given. A command to the own party is carried out at once, by the
same code and with the same records as at any other party; a command to another one goes to the outbox, and its answer
comes back as an event.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from fate_flow.core.access.authority import Said, objection
from fate_flow.core.model.errors import BadDocument, Conflict, JobNotFound, OperationFailed, Refused
from fate_flow.core.model.grammar import MAX_VERSION
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import NOT_EFFECTIVE, Answer, Command, CommandKind, Hold, Job, Report, Seat, Task, TaskKey
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.model.resources import request_of
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import JOB_END, TASK_END, JobStatus, SeatStatus, TaskStatus
from fate_flow.core.planning.actions import (
    Action,
    AllRejoined,
    Arm,
    BeginAgain,
    BeginRound,
    Disarm,
    EndRound,
    ForceStop,
    Forget,
    InviteAgain,
    LoseShares,
    MakeAnew,
    MoveJob,
    MoveSeat,
    MoveTask,
    NameUnconfirmed,
    NewVersion,
    NoteApproval,
    Plan,
    Progress,
    Rejoin,
    RenewReservation,
    RequeueJob,
    Restarted,
    RestartJob,
    Send,
)
from fate_flow.core.planning.party_return import LOSSES, plan_missing_shares
from fate_flow.core.planning.plan import plan_job
from fate_flow.core.planning.queue import Asked, Waiting, pausing, queue_key, where_it_takes
from fate_flow.core.planning.replies import handle_reply, must_ask_later
from fate_flow.core.planning.rerun import RerunRequest, plan_rerun, why_nothing
from fate_flow.core.planning.view import JobView
from fate_flow.jobspec.effective import capped_text
from fate_flow.jobspec.fate_v1.model_name import with_model
from fate_flow.jobspec.parameters import Change
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.unit_of_work import CapacityNotice, UnitOfWork, binding_of, digest_of, read_spec
from fate_flow.services.initiator.plain_v1_hosts import failed_report, handle_join_reply, is_before_rerun, refusal_of
from fate_flow.services.participant.admission import EXTENSIONS
from fate_flow.services.participant.body_fields import move_job
from fate_flow.services.participant.call_back import CALL_BACK
from fate_flow.services.participant.ends import clean_up, cut_off, end_job_here, has_workers, reason_for_shares, release
from fate_flow.services.participant.next_run import begin_again, requeue_job, rerun_as_asked
from fate_flow.services.participant.parameters import Revised, change_parameters, preview_change
from fate_flow.services.participant.participant import Participant
from fate_flow.services.workers.ending import finish_party_task
from fate_flow.services.workers.failed_workers import take_count
from fate_flow.services.workers.moves import move_federated, note_share, note_task, note_version
from fate_flow.services.workers.outputs import settle_outputs
from fate_flow.services.workers.reports import read_report, within_its_say
from fate_flow.store.contract.changes import SUBMIT_FAILED
from fate_flow.store.values import Document, Submission

_LONGEST_LEASE = 1e9      # seconds; what is longer, or no number at all, is none
_MOST_STEPS = 64
"""Of one job in one transaction; a job of many passed tasks takes more, and goes on in the next one."""


class Coordinator:
    """The use cases of the party that decides for a job."""

    def __init__(self, party: Participant, owner: str = "") -> None:
        self._party = party
        self._owner = owner
        self.free: dict[str, int] = {}          # by other party: the cores that its last answer said are free
        # by job: the reservation round, and who has capacity though it refuses
        self._overtaken: dict[str, tuple[int, str]] = {}

    # ------------------------------------------------------------------ submit

    def submit(self, unit: UnitOfWork, job_id: str, document: Document, request_id: str) -> str:
        """Take a job: its id, or the one that this request id got before.

        Raises BadDocument for a document that is wrong, Refused when this party itself cannot take part, Conflict when
        the request id was used for other content."""
        digest = digest_of(document)
        known = unit.tx.begin_submission(Submission(request_id, job_id, digest), unit.now)
        if known is not None:
            if known.digest != digest:
                raise Conflict(f"request id {request_id} was used for other content, by job {known.job_id}")
            return known.job_id
        spec = read_spec(unit.context, document)
        self.check_own(unit, spec)
        # Sent and stored with every default filled in, so that a party with other defaults reads the same job.
        complete = replace(document, runtime_conf=with_model(spec.conf, spec.roles, job_id))
        self._take_seat(unit, job_id, complete, spec)
        unit.touch(job_id)
        return job_id

    def check_own(self, unit: UnitOfWork, spec: JobSpec) -> None:
        """Raises BadDocument for a job that this party may not initiate, or with a party it knows no way to."""
        own = unit.context.party_id
        initiator = spec.initiator
        if initiator.party_id != own and initiator.role != "local":
            raise BadDocument(
                "job_runtime_conf.initiator.party_id",
                f"this server is party {own}; submit the job at party {initiator.party_id}, its initiator",
            )
        missing = sorted({p.party_id for p in spec.parties} - unit.context.routes - {own, "0"})
        if missing:
            raise BadDocument(
                "job_runtime_conf.role", f"party {missing[0]} has no route here (routes in service_conf.yaml)"
            )

    def _take_seat(self, unit: UnitOfWork, job_id: str, document: Document, spec: JobSpec) -> None:
        incarnations = {name: unit.context.fresh_id() for name in spec.tasks}
        body = create_body(document, spec, job_id, incarnations)
        own = Command(CommandKind.CREATE, job_id, spec.initiator, body=body)
        answer = self._party.handle(unit, own, unit.context.party_id)
        if not answer.is_ok:
            error = Refused(f"{spec.initiator}: {answer.retmsg}")
            error.retcode = 103
            raise error
        unit.tx.add_seats(_seats(unit, job_id, spec))
        why = _capped(answer.data)
        if why:
            unit.moves(HistoryLevel.SEAT, job_id, None, SeatStatus.JOINED, party=spec.initiator, message=why)
        for name in spec.tasks:
            note_version(unit, TaskKey(job_id, name, 0, spec.initiator), str(spec.initiator))
        for party in spec.parties:
            if party != spec.initiator:
                self._hold_rows(unit, job_id, party, spec, incarnations)
                self._dispatch(unit, Command(CommandKind.CREATE, job_id, party, body=body))

    def _hold_rows(
        self, unit: UnitOfWork, job_id: str, party: Party, spec: JobSpec, incarnations: Mapping[str, str]
    ) -> None:
        """Rows for what runs at another party; a party with the same id keeps its own rows in this database."""
        job, document = unit.tx.job_here(job_id), unit.tx.document(job_id)
        assert job is not None, "the own seat was just taken"
        assert document is not None, "a job row has its document"
        if party.party_id == unit.context.party_id:
            return
        rows = [
            _holder(TaskKey(job_id, task.name, 0, party), incarnations[task.name], task.retry.retries, unit.now)
            for task in spec.tasks_of(party)
        ]
        unit.tx.add_tasks(rows, job, document)

    # ------------------------------------------------------------------ rerun

    def rerun(self, unit: UnitOfWork, job_id: str, request: RerunRequest, only: JobStatus | None = None) -> None:
        """Have an ended job begin again; `only`: when it has ended so.

        Raises JobNotFound, BadRequest for a component that it has not, Conflict for a job that may not or need not."""
        job = self._to_rerun(unit, job_id, only)
        spec = unit.spec(job_id)
        assert spec is not None, "it was parsed when it was taken"
        unit.note(Event.RERUN_ASKED, job_id=job_id, **_place(job.party))
        view = self._view(unit, job, spec, unit.tx.tasks(job_id))
        plan = plan_rerun(view, request, {name: unit.context.fresh_id() for name in spec.tasks})
        if not plan:
            unit.note(Event.RERUN_NOTHING, job_id=job_id)
            raise Conflict(f"job {job_id}: no task to rerun, {why_nothing(job, spec)}")
        self._note_kept(unit, view, plan)
        for action in plan:
            self._apply(unit, job, action)
        self.advance(unit, job_id)

    def preview_change(self, unit: UnitOfWork, job_id: str, change: Change) -> Revised:
        """What a job would be with other parameters; nothing is written.

        Raises JobNotFound; Conflict, OperationFailed for a job whose parameters cannot be changed now or here;
        BadRequest for what cannot be changed, or not so."""
        return preview_change(unit, self._that_may_begin_again(unit, job_id, "change"), change)

    def change_parameters(self, unit: UnitOfWork, job_id: str, change: Change, base: int) -> Revised:
        """The job has them from now on; `base` is that of the preview. Raises as that, and Refused."""
        job = self._that_may_begin_again(unit, job_id, "change")
        unit.touch(job_id)
        return change_parameters(unit, job, change, base, lambda command: self._dispatch(unit, command))

    def _to_rerun(self, unit: UnitOfWork, job_id: str, only: JobStatus | None) -> Job:
        """The job, when nothing here speaks against it. Raises JobNotFound, Conflict."""
        job = self._that_may_begin_again(unit, job_id, "rerun")
        if only is not None and job.status is not only:
            raise Conflict(f"job {job_id} is {job.status.value}: only a job that is {only.value} can be resumed")
        return job

    def _that_may_begin_again(self, unit: UnitOfWork, job_id: str, what: str) -> Job:
        """The job, when it is this initiator's and nothing of its last run is left. Raises JobNotFound, Conflict."""
        rows, job = unit.tx.jobs_here(job_id), unit.tx.job_here(job_id)
        if not rows:
            raise JobNotFound("can not found job")
        if job is None:
            first, own = rows[0].initiator, unit.context.party_id
            raise Conflict(f"this server is party {own}; {what} job {job_id} at party {first.party_id}, its initiator")
        document = unit.tx.document(job_id)
        if document is not None and document.tag == SUBMIT_FAILED:
            raise Conflict(f"job {job_id} was never accepted by every party: submit it again")
        if job.is_final and any(not row.is_final or has_workers(unit, row) for row in rows):
            raise Conflict(f"job {job_id} is {job.status.value}, and its last workers still end; {what} it in a moment")
        return job

    def _note_kept(self, unit: UnitOfWork, view: JobView, plan: Plan) -> None:
        anew = {action.name for action in plan if isinstance(action, NewVersion)}
        for task in view.tasks:
            key = task.key
            if key.name not in anew:
                unit.note(
                    Event.RERUN_TASK_PASSED, job_id=key.job_id, task_id=key.task_id, task_version=key.version,
                    status=task.status, **_place(key.party),
                )  # fmt: skip

    # ------------------------------------------------------------------ plan and apply

    def advance(self, unit: UnitOfWork, job_id: str, may_begin_round: bool = False) -> None:
        """Carry out what is to happen next about this job until nothing is left to do at once.

        Raises OperationFailed for a plan that changes nothing and would be made again for ever."""
        last: Plan = ()
        for _ in range(_MOST_STEPS):
            job = unit.tx.job_here(job_id)
            if job is None:
                self._settle_seats(unit, job_id)
                return
            plan = self._plan(unit, job, may_begin_round)
            if not plan:
                return
            if plan == last:
                raise OperationFailed(f"the plan of job {job_id} does not settle: {plan[0]}")
            for action in plan:
                self._apply(unit, job, action)
            last = plan
            may_begin_round = False  # one reservation round; when it ends at once, the next one is the queue's to give
        unit.alarms.append(unit.steady)

    def _plan(self, unit: UnitOfWork, job: Job, may_begin_round: bool) -> Plan:
        spec = unit.spec(job.job_id)
        if spec is None:
            return ()
        # Tasks are not read while the job only queues: nothing about them is to be decided.
        queues = job.status in (JobStatus.READY, JobStatus.WAITING)
        return plan_job(self._view(unit, job, spec, () if queues else unit.tx.tasks(job.job_id), may_begin_round))

    def _view(
        self, unit: UnitOfWork, job: Job, spec: JobSpec, tasks: tuple[Task, ...], may_begin_round: bool = False
    ) -> JobView:
        rules = unit.context.rules
        return JobView(
            job=job,
            spec=spec,
            seats=unit.tx.seats(job.job_id),
            tasks=tasks,
            now=unit.steady,
            fresh_id=unit.context.fresh_id(),
            failed_workers=unit.tx.failed_workers(job.job_id) if spec.max_failed_workers is not None else 0,
            may_begin_round=may_begin_round,
            drain_milliseconds=rules.drain,
            retry_milliseconds=rules.retry_wait,
            long_backoff_milliseconds=rules.long_backoff,
            has_workers=self._still_works(unit, job),
        )

    def _still_works(self, unit: UnitOfWork, job: Job) -> bool:
        is_ending = job.status is JobStatus.STOPPING and job.reason in LOSSES
        return is_ending and any(has_workers(unit, row) for row in unit.tx.jobs_here(job.job_id))

    def _settle_seats(self, unit: UnitOfWork, job_id: str) -> None:
        """Rows of a job that somebody else decides: one that was told its end takes it when it has drained."""
        for job in unit.tx.jobs_here(job_id):
            if job.status is JobStatus.STOPPING and job.stop_by and job.reason is not None:
                end_job_here(unit, job, job.reason, job.message)
                rerun_as_asked(unit, job)

    def _apply(self, unit: UnitOfWork, job: Job, action: Action) -> None:
        match action:
            case Send(command):
                self._dispatch(unit, command)
            case MoveSeat() | RenewReservation():
                self._change_seat(unit, job, action)
            case MoveJob():
                self._move(unit, job, action)
            case MoveTask():
                self._move_task(unit, job, action)
            case NewVersion():
                self._new_version(unit, job, action)
            case BeginRound() | EndRound():
                self._change_round(unit, job, action)
            case ForceStop() | Progress() | LoseShares() | Arm() | Disarm() | RestartJob() | Restarted():
                self._write(unit, job, action)
            case Forget():
                self._forget(unit, job)
            case BeginAgain() | Rejoin() | AllRejoined() | RequeueJob():
                self._wait_again(unit, job, action)

    def _wait_again(self, unit: UnitOfWork, job: Job, action: BeginAgain | Rejoin | AllRejoined | RequeueJob) -> None:
        job_id = job.job_id
        match action:
            case BeginAgain(wait_reason, is_loss):
                unit.note(Event.RERUN_SIGNAL_ASKED, job_id=job_id)
                unit.note(Event.RERUN_WAITING_ASKED, job_id=job_id)
                begin_again(unit, job, job.run + 1, wait_reason, is_loss=is_loss)
                unit.note(Event.RERUN_SIGNAL_SET, job_id=job_id, outcome="successfully")
            case Rejoin(seat):
                if not unit.tx.rejoin(seat):
                    raise OperationFailed(f"job {job_id}: the seat of {seat.party} is no longer of run {seat.run}")
                unit.moves(HistoryLevel.SEAT, job_id, seat.status, SeatStatus.JOINING, party=seat.party)
            case AllRejoined():
                unit.tx.all_rejoined(job.key, unit.steady if job.lost_since else 0)
                unit.is_queue_longer = True
                unit.note(Event.RERUN_WAITING_SET, job_id=job_id, outcome="successfully")
            case RequeueJob(wait_reason, retry_at):
                requeue_job(unit, job, wait_reason, retry_at)
                unit.alarms.append(retry_at)
                why = pausing(wait_reason, retry_at - unit.steady)
                unit.note(Event.JOB_NOTE, job_id=job_id, text=f"job {job_id} waits: {why}")

    def _lose_shares(self, unit: UnitOfWork, job: Job, action: LoseShares) -> None:
        text = f"job {job.job_id} goes on without {action.party}: {action.message}"
        unit.note(Event.JOB_WARNING, job_id=job.job_id, text=text)
        for task in unit.tx.tasks(job.job_id):
            if task.key.party == action.party:
                finish_party_task(unit, task, Reason.PARTY_UNREACHABLE, action.message)

    def _write(
        self, unit: UnitOfWork, job: Job,
        action: ForceStop | Progress | LoseShares | Arm | Disarm | RestartJob | Restarted
    ) -> None:
        if isinstance(action, Progress):
            unit.tx.set_progress(job.key, action.percent)
        elif isinstance(action, ForceStop):
            unit.tx.force_stop_sent(job.key, action.stop_by)
            unit.alarms.append(action.stop_by)
        elif isinstance(action, LoseShares):
            self._lose_shares(unit, job, action)
        else:
            self._apply_policy(unit, job, action)

    def _apply_policy(self, unit: UnitOfWork, job: Job, action: Arm | Disarm | RestartJob | Restarted) -> None:
        now = unit.tx.job(job.key) or job
        timers = dict(now.timers)
        match action:
            case Arm(key, at):
                unit.tx.set_timers(job.key, {**timers, key: timers.get(key, at)})
                unit.alarms.append(at)
            case Disarm(key):
                timers.pop(key, None)
                unit.tx.set_timers(job.key, timers)
            case RestartJob(message, caused_by):
                unit.tx.restart_job(job.key)
                unit.moves(
                    HistoryLevel.JOB, job.job_id, job.status, job.status, party=job.party, message=message,
                    caused_by=caused_by or str(job.party),
                )  # fmt: skip
                unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"job {job.job_id} begins again: {message}")
            case Restarted():
                unit.tx.restarted(job.key)


    def _dispatch(self, unit: UnitOfWork, command: Command) -> None:
        """To the own party at once, to another through the outbox."""
        own = unit.context.party_id
        if command.to.party_id not in (own, "0"):
            unit.send(command)
            return
        endpoint = f"/v1{endpoint_of(command)}"
        unit.note(Event.OWN_REQUEST, job_id=command.job_id, url=f"{unit.context.url}{endpoint}")
        answer = self._party.handle(unit, command, own)
        body = body_of(answer)
        unit.context.record.http_response(command.job_id, endpoint, to_json(body), body)
        self.on_answer(unit, command, answer)

    def _change_seat(self, unit: UnitOfWork, job: Job, action: MoveSeat | RenewReservation) -> None:
        if isinstance(action, RenewReservation):
            lease_seat(unit, action.seat, action.seat.lease)
        else:
            self._move_seat(unit, job, action.seat, action.new, action.message)

    def _move_seat(self, unit: UnitOfWork, job: Job, seat: Seat, new: SeatStatus, message: str) -> None:
        begins = (SeatStatus.STARTING, SeatStatus.STARTED)
        if new is SeatStatus.STARTING and not any(one.status in begins for one in unit.tx.seats(job.job_id)):
            unit.note(Event.RESOURCE_ANSWERED, job_id=job.job_id, operation="apply", outcome="successfully")
            unit.note(Event.START_ASKED, job_id=job.job_id, **_place(job.party))
        if unit.tx.move_seat(seat, new, message):
            _note_seat(unit, seat, new, message)

    def _move(self, unit: UnitOfWork, job: Job, move: MoveJob) -> None:
        if move.new in JOB_END:
            self._end(unit, job, move)
        else:
            move_job(unit, job, move, caused_by=_caused_by(job, move) if move.reason else "")
        if move.new is JobStatus.WAITING:
            unit.is_queue_longer = True
            unit.tx.decide_submission(job.job_id, 0, "success")

    def _end(self, unit: UnitOfWork, job: Job, move: MoveJob) -> None:
        assert move.reason is not None, "nothing ends without a reason"
        unit.note(Event.JOB_FINISHING, job_id=job.job_id, status=move.new)
        self._close_tasks(unit, job, move)
        release(unit, job)
        if move.missing:
            unit.tx.name_missing(job.key, move.missing)
        now = unit.tx.job(job.key) or job
        move_job(unit, now, replace(move, exit_code=now.exit_code), caused_by=_caused_by(job, move))
        unit.note(Event.JOB_FINISHED, job_id=job.job_id, status=move.new)
        if job.status is JobStatus.READY:
            unit.tx.decide_submission(job.job_id, 103, move.message or move.reason.value)
        clean_up(unit, job.job_id)

    def _close_tasks(self, unit: UnitOfWork, job: Job, move: MoveJob) -> None:
        """Rows that never came to anything end with the job, here and in what is held for others."""
        if move.reason is Reason.DONE and not move.missing:
            return
        reason = reason_for_shares(move.reason) if move.reason else Reason.STOPPED
        for task in unit.tx.tasks(job.job_id):
            if not task.is_over_here:
                finish_party_task(unit, task, reason, "", caused_by=_caused_by(job, move))
            if not task.is_final:
                move_federated(unit, job.job_id, cut_off(task, move.reason, move.message, _caused_by(job, move)))

    def _move_task(self, unit: UnitOfWork, job: Job, move: MoveTask) -> None:
        task_id = f"{job.job_id}_{move.name}"
        unit.note(
            Event.TASK_STATUS_SYNC, job_id=job.job_id, task_id=task_id, task_version=move.version, status=move.new
        )
        if unit.tx.move_task(job.job_id, move, unit.now):
            note_task(unit, job.job_id, move)
            settle_outputs(unit, job.job_id, move)

    def _new_version(self, unit: UnitOfWork, job: Job, action: NewVersion) -> None:
        document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
        assert document is not None, "a running job has its document"
        assert spec is not None, "and it could be read"
        task = spec.tasks[action.name]
        here = (unit.context.party_id, "0")
        rows = [
            Task(
                key=TaskKey(job.job_id, action.name, action.version, party),
                status=TaskStatus.WAITING,
                party_status=TaskStatus.WAITING,
                runs_here=party.party_id in here,
                incarnation=action.incarnation,
                module=task.module if party.party_id in here else "",
                auto_retries=action.auto_retries,
                tries=action.tries,
                retry_at=action.retry_at,
                create_time=unit.now,
            )
            for party in task.parties
        ]
        unit.tx.add_tasks(rows, job, document)
        unit.alarms.append(action.retry_at)
        note_version(unit, rows[0].key, action.why.caused_by or str(job.party), action.why.reason, action.why.message)
        task_id = rows[0].key.task_id
        unit.note(Event.TASK_VERSION_CREATED, job_id=job.job_id, task_id=task_id, task_version=action.version)

    def _change_round(self, unit: UnitOfWork, job: Job, action: BeginRound | EndRound) -> None:
        if isinstance(action, EndRound):
            self._end_round(unit, job, action)
        else:
            self._begin_round(unit, job)

    def _begin_round(self, unit: UnitOfWork, job: Job) -> None:
        if not unit.tx.begin_round(job.key, self._owner, unit.now):
            raise Conflict(f"job {job.job_id}: somebody else has begun its reservation round, or it waits no more")
        unit.note(Event.RESOURCE_ASKED, job_id=job.job_id, operation="apply")

    def _end_round(self, unit: UnitOfWork, job: Job, action: EndRound) -> None:
        conflicts = job.conflicts + 1 if action.was_conflict else job.conflicts
        retry_at = action.retry_at + _jitter(unit, conflicts)
        if not action.wait_reason and job.status is JobStatus.RUNNING:
            unit.note(Event.STARTED, job_id=job.job_id, **_place(job.party))     # as in 1.6, before the unlock
        if not unit.tx.end_round(
            job.key, self._owner, action.wait_reason, action.blocked_on, action.blocked_cores, retry_at, conflicts,
            action.blocked_by, action.rejoins,
        ):
            raise Conflict(f"job {job.job_id}: its turn is {job.ready_owner or 'nobody'}'s, not {self._owner}'s")
        overtaken = self._overtaken.pop(job.job_id, None)
        if action.wait_reason:
            # A party with two seats that had capacity for one: it has no more capacity now than before.
            unit.undo_free(action.blocked_on, job.job_id)
            unit.alarms.append(retry_at)
            unit.note(Event.RESOURCE_ANSWERED, job_id=job.job_id, operation="apply", outcome="failed")
            unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"job {job.job_id} waits: {action.wait_reason}")
            if overtaken == (job.round_number, action.blocked_on):
                unit.to_reconsider[job.job_id] = None
        elif job.status is JobStatus.RUNNING:
            self._count_passes(unit, job)
        unit.note(Event.READY_SIGNAL_RESET, job_id=job.job_id, done=True)

    def take_capacity_notice(self, unit: UnitOfWork, notice: CapacityNotice) -> None:
        """A party has capacity for a job that waits for it: the queue looks at it at once.

        The notice may overtake the refusal that it follows: then the reservation round has to end first."""
        job = unit.tx.job_here(notice.job_id)
        if job is None or not awaits_capacity(unit, job, notice.party_id):
            return
        self.free[notice.party_id] = notice.cores
        if not job.ready_owner:
            unit.to_reconsider[job.job_id] = None
        elif any(_is_refused(seat) or seat.status is SeatStatus.APPLYING for seat in _seats_at(unit, job, notice)):
            self._overtaken[job.job_id] = (job.round_number, notice.party_id)
        text = f"job {job.job_id}: party {notice.party_id} has capacity again, {notice.cores} cores are free"
        unit.note(Event.JOB_NOTE, job_id=job.job_id, text=text)

    def _count_passes(self, unit: UnitOfWork, job: Job) -> None:
        """The job has started: earlier ones that lack what it took have been passed."""
        heads = [head for head in unit.tx.queue_heads() if head.order < job.order]
        if not heads:
            return
        asked = asked_by(unit)
        started = Waiting(job.job_id, job.create_time, tuple(party.party_id for party in job.parties))
        took = asked(job.job_id)
        before = {party_id: cores + took.get(party_id, 0) for party_id, cores in self.known_free(unit).items()}
        for head in heads:
            if where_it_takes(started, head, before, asked):
                unit.tx.count_pass(head.job_id)

    def known_free(self, unit: UnitOfWork) -> dict[str, int]:
        """By party: the cores that are free there, as far as they are known."""
        engine = unit.tx.engine()
        return {**self.free, unit.context.party_id: engine.free_cores if engine is not None else 0}

    def _forget(self, unit: UnitOfWork, job: Job) -> None:
        job_id, context = job.job_id, unit.context
        unit.tx.forget_job(job_id)
        unit.after_commit(lambda: context.files.remove_job(job_id))

    # ------------------------------------------------------------------ answers and reports

    def on_answer(self, unit: UnitOfWork, command: Command, answer: Answer) -> None:
        """What another party, or the own one, said to a command of ours."""
        job_id = command.job_id
        unit.touch(job_id)
        if command.kind in _ANSWERED_BY_TASK:
            self._on_task_answer(unit, command, answer)
            return
        seat = next((seat for seat in unit.tx.seats(job_id) if seat.party == command.to), None)
        if seat is None:
            return
        data = answer.data if isinstance(answer.data, Mapping) else {}
        outcome = handle_reply(seat, command, answer.retcode, answer.retmsg, data)
        job = unit.tx.job_here(job_id)
        if job is None:
            return
        has_joined = command.kind is CommandKind.CREATE and answer.is_ok and bool(outcome.actions)
        if has_joined and not isinstance(data.get("extensions"), Mapping):
            outcome = handle_join_reply(unit, seat, command, outcome)
        for action in outcome.actions:
            self._apply_answer(unit, job, action, data)
        for body in outcome.reports:
            self._take_body(unit, body, command.to)
        if outcome.stop is not None:
            unit.tx.request_stop(job.key, outcome.stop, outcome.message, unit.now, False, str(command.to))

    def _apply_answer(self, unit: UnitOfWork, job: Job, action: Action, data: Mapping[str, Any]) -> None:
        if isinstance(action, MoveSeat):
            free = count_in(data, "free_cores")
            cores = -1 if free is None else free
            if unit.tx.move_seat(action.seat, action.new, action.message, cores, action.blocked_by):
                _note_seat(unit, action.seat, action.new, action.message or _capped(data))
            if action.new is SeatStatus.HELD:
                lease_seat(unit, action.seat, _lease_in(data))
        elif isinstance(action, NoteApproval):
            _note_approval(unit, action)
        elif isinstance(action, NameUnconfirmed):
            self._name_unconfirmed(unit, job, action)
        elif isinstance(action, MakeAnew):
            self._make_anew(unit, job, action)
        elif isinstance(action, InviteAgain):
            self._invite_again(unit, job, action.seat.party)
        else:
            self._apply(unit, job, action)

    def _make_anew(self, unit: UnitOfWork, job: Job, action: MakeAnew) -> None:
        """What the run that begins was to read, and a party has not kept."""
        spec = unit.spec(job.job_id)
        assert spec is not None, "it was parsed when it was taken"
        text = f"job {job.job_id}: {action.seat.party} has not kept {', '.join(action.names)}: made again"
        unit.note(Event.JOB_WARNING, job_id=job.job_id, text=text)
        for one in plan_missing_shares(self._view(unit, job, spec, unit.tx.tasks(job.job_id)), action.names):
            self._apply(unit, job, one)

    def _invite_again(self, unit: UnitOfWork, job: Job, party: Party) -> None:
        document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
        if document is None or spec is None:
            return
        incarnations = {task.key.name: task.incarnation for task in unit.tx.tasks(job.job_id)}
        body = create_body(document, spec, job.job_id, incarnations)
        if job.revision:
            body["revision"] = job.revision
        self._dispatch(unit, Command(CommandKind.CREATE, job.job_id, party, job.run, body=body))
        waiting = JobStatus.WAITING.value
        self._dispatch(unit, Command(CommandKind.STATUS, job.job_id, party, job.run, argument=waiting))

    def _name_unconfirmed(self, unit: UnitOfWork, job: Job, action: NameUnconfirmed) -> None:
        unit.tx.name_unconfirmed(job.key, action.party)
        text = f"job {job.job_id} is {job.status.value}; {action.party} had ended it by itself as {action.ended_as}"
        unit.note(Event.JOB_WARNING, job_id=job.job_id, text=text)

    def must_ask_later(self, unit: UnitOfWork, command: Command, answer: Answer) -> bool:
        """Whether the party cannot take the command yet, and is to be asked the same again."""
        if answer.retcode != NOT_EFFECTIVE:
            return False
        seat = next((seat for seat in unit.tx.seats(command.job_id) if seat.party == command.to), None)
        return seat is not None and must_ask_later(seat, command, answer.retcode, answer.data)

    def _on_task_answer(self, unit: UnitOfWork, command: Command, answer: Answer) -> None:
        if answer.is_ok:
            if isinstance(answer.data, Mapping):
                self._take_body(unit, answer.data, command.to)
            return
        refusal, job = refusal_of(command, answer), unit.tx.job_here(command.job_id)
        if not refusal:
            return
        message = f"{command.to} {refusal}"
        if job is not None and is_before_rerun(command, job):
            unit.tx.request_stop(job.key, Reason.PARTY_REFUSED, message, unit.now, False, str(command.to))
        else:
            self.take_report(unit, failed_report(command, message, unit.now))

    def take_report_of(self, unit: UnitOfWork, body: Mapping[str, Any], caller: str) -> None:
        """A report that came with the answer to a heartbeat: taken as one that this party sends itself."""
        report = read_report(body)
        job = unit.tx.job_here(report.task.job_id) if report is not None else None
        if report is None or job is None:
            return
        said = Said(CommandKind.REPORT, caller, unit.context.party_id, report.task.party)
        if not objection(said, binding_of(job)):
            self.take_report(unit, report)

    def _take_body(self, unit: UnitOfWork, body: Mapping[str, Any], party: Party) -> None:
        report = read_report(body)
        if report is not None and report.task.party == party:
            self.take_report(unit, report)

    def take_report(self, unit: UnitOfWork, report: Report) -> bool:
        """A party says how its share stands. False when that is out of date: another version, incarnation or order."""
        task = unit.tx.task(report.task)
        if task is None or task.runs_here:
            return False
        if report.incarnation and report.incarnation != task.incarnation:
            text = f"a report on {report.task} of another incarnation was refused"
            unit.note(Event.JOB_WARNING, job_id=report.task.job_id, text=text)
            return False
        unit.touch(report.task.job_id)
        report = self._within_its_say(unit, report)
        take_count(unit, report)
        if report.status in (TaskStatus.SUCCESS, TaskStatus.STOPPING) and task.party_status is TaskStatus.WAITING:
            # The report that it runs was overtaken or lost; this one implies it.
            start = report.start_time or unit.now
            if unit.tx.take_report(task, replace(report, status=TaskStatus.RUNNING, reason=None, start_time=start)):
                note_share(unit, task, TaskStatus.RUNNING, None, "")
            task = unit.tx.task(report.task) or task
        if unit.tx.take_report(task, _ended(report, unit.now)):
            note_share(unit, task, report.status, report.reason, report.message, report.caused_by)
            return True
        now = unit.tx.task(report.task)
        if now is None or now.party_status is task.party_status:
            return False
        return self.take_report(unit, report)      # another process of this server moved it meanwhile: decide anew

    def _within_its_say(self, unit: UnitOfWork, said: Report) -> Report:
        """What is taken of it; what is not is on record."""
        job = unit.tx.job_here(said.task.job_id)
        taken = within_its_say(said, job.parties if job is not None else ())
        for key, asked, found in (
            ("reason", said.reason and said.reason.value, taken.reason and taken.reason.value),
            ("caused_by", said.caused_by, taken.caused_by),
        ):
            if asked and asked != found:
                text = f"a report on {said.task}: {key} {asked} is not for a party to say, taken as {found or 'none'}"
                unit.note(Event.JOB_WARNING, job_id=said.task.job_id, text=text)
        return taken

    def uncollected(self, unit: UnitOfWork) -> set[TaskKey]:
        """What parties that speak plain v1 were told to run and have not ended."""
        found = set()
        for seat in unit.tx.plain_v1_seats():
            for task in unit.tx.tasks(seat.job_id):
                is_running = task.status in (TaskStatus.RUNNING, TaskStatus.STOPPING)
                if task.key.party == seat.party and is_running and not task.is_over_here:
                    found.add(task.key)
        return found

    # ------------------------------------------------------------------ parties that are gone for long

    def give_up(self, unit: UnitOfWork, command: Command) -> bool:
        """Drop a command that nobody has answered for very long; False while the job it is about is not over here.

        A seat that was to learn the end of its job stays unconfirmed, and is told when its party answers again."""
        # A request may come to nothing. A report may not: without it the job would wait for this party for ever.
        is_stop_request = command.kind is CommandKind.ASK_STOP
        if not is_stop_request and not all(row.is_final for row in unit.tx.jobs_here(command.job_id)):
            return False
        unit.tx.take_command(command.id)
        text = f"job {command.job_id}: '{command.kind.value}' was dropped, {command.to} has not answered for very long"
        unit.note(Event.DETECT_NOTE, text=text)
        is_end = command.kind is CommandKind.STATUS and command.argument != JobStatus.WAITING.value
        for seat in unit.tx.seats(command.job_id):
            leaving = (command.to, SeatStatus.LEAVING, command.run)
            if is_end and (seat.party, seat.status, seat.run) == leaving:
                why = "never confirmed the end of the job"
                if unit.tx.move_seat(seat, SeatStatus.UNCONFIRMED, why):
                    _note_seat(unit, seat, SeatStatus.UNCONFIRMED, why)
                self._never_confirmed(unit, command)
                unit.touch(command.job_id)
        return True

    def _never_confirmed(self, unit: UnitOfWork, command: Command) -> None:
        job = unit.tx.job_here(command.job_id)
        if job is not None:
            unit.tx.name_unconfirmed(job.key, command.to)

    def tell_again(self, unit: UnitOfWork, party_id: str) -> None:
        """A party answers that has never said that it knows how these jobs ended."""
        seats = [seat for seat in unit.tx.unconfirmed_seats() if seat.party.party_id == party_id]
        notice = {(one.job_id, one.to) for one in unit.tx.commands_after(0)} if seats else set()
        for seat in seats:
            job = unit.tx.job_here(seat.job_id)
            if job is not None and job.is_final and (seat.job_id, seat.party) not in notice:
                reason = job.reason.value if job.reason else None
                body: dict[str, Any] = {"reason": reason, "message": job.message, "caused_by": job.caused_by}
                if job.exit_code is not None:
                    body["exit_code"] = job.exit_code
                how = job.status.value
                unit.send(Command(CommandKind.STATUS, job.job_id, seat.party, seat.run, argument=how, body=body))

    # ------------------------------------------------------------------ requests

    def request_stop(
        self, unit: UnitOfWork, job_id: str, reason: Reason, message: str, by_user: bool, caused_by: str
    ) -> bool:
        """Ask that the job ends; False when it has ended already. Raises JobNotFound."""
        job = unit.tx.job_here(job_id)
        if job is None:
            raise JobNotFound(f"can not found job {job_id} as its initiator")
        unit.note(Event.STOP_REQUESTED, job_id=job_id, status=job_status_for(reason))
        unit.touch(job_id)
        if unit.tx.request_stop(job.key, reason, message, unit.now, by_user, caused_by):
            return True
        if by_user:
            unit.tx.forgo_return(job.key)
        return False

    def set_priority(self, unit: UnitOfWork, job_id: str, priority: int) -> None:
        """Where a waiting job stands from now on. Raises JobNotFound, Conflict for one that does not wait."""
        job = self._queued(unit, job_id)
        place = queue_key(job.enqueued, priority, unit.context.rules.queue_ageing)
        if not unit.tx.set_priority(job.key, priority, place):
            raise Conflict(f"job {job_id} is {job.status.value}: only a job that waits has a place in the queue")
        _note_word(unit, job, f"its priority is {priority}, was {job.priority}")
        unit.is_queue_longer = True

    def hold(self, unit: UnitOfWork, job_id: str, hold: Hold) -> None:
        """No reservation round for a waiting job until it is released. Raises JobNotFound, Conflict for one that does
        not wait."""
        job = self._queued(unit, job_id)
        if job.hold is not None:
            hold = replace(hold, since=job.hold.since)      # other words for the same hold
        begins = (SeatStatus.STARTING, SeatStatus.STARTED)
        if any(seat.status in begins for seat in unit.tx.seats(job_id)) or not unit.tx.hold_job(job.key, hold):
            status = "being started" if job.status is JobStatus.WAITING else job.status.value
            raise Conflict(f"job {job_id} is {status}: only a job that waits can be held; flow job stop ends it")
        _note_word(unit, job, hold.text)
        unit.touch(job_id)
        unit.is_queue_longer = True

    def let_go(self, unit: UnitOfWork, job_id: str, by: str) -> None:
        """Raises JobNotFound, Conflict for a job that nobody holds."""
        job = self._queued(unit, job_id)
        if not unit.tx.release_job(job.key, unit.steady):
            raise Conflict(f"job {job_id} is {job.status.value} and not on hold")
        _note_word(unit, job, f"released by {by}")
        unit.is_queue_longer = True

    def _queued(self, unit: UnitOfWork, job_id: str) -> Job:
        """Raises JobNotFound."""
        job = unit.tx.job_here(job_id)
        if job is None:
            raise JobNotFound(f"can not found job {job_id} as its initiator, whose queue it stands in")
        return job

    def ask_again(self, unit: UnitOfWork, party_id: str, job_id: str = "") -> None:
        """A party may be ready now for what it was not ready for: the first that waits for it, and this job."""
        job = unit.tx.job_here(job_id)
        due = {job_id} if job is not None and job.blocked_on == party_id else set()
        for one in sorted(due | {head.job_id for head in unit.tx.queue_heads() if head.blocked_on == party_id}):
            unit.tx.ask_again(one)
        unit.is_queue_longer = True

    def request_force_stop(self, unit: UnitOfWork, job_id: str) -> None:
        """What drains for the end of this job is to be killed now. To be called once its stop is asked for."""
        job = unit.tx.job_here(job_id)
        if job is not None and not job.is_final:
            unit.tx.request_force_stop(job.key)
            unit.touch(job_id)


_ANSWERED_BY_TASK = frozenset(
    {
        CommandKind.TASK_START,
        CommandKind.TASK_STOP,
        CommandKind.TASK_STATUS,
        CommandKind.TASK_CREATE,
        CommandKind.TASK_COLLECT,
    }
)


def _ended(report: Report, now: int) -> Report:
    """A final report needs an end; a plain v1 peer may send none."""
    if report.end_time or report.status not in TASK_END:
        return report
    return replace(report, end_time=now)


def _note_word(unit: UnitOfWork, job: Job, why: str) -> None:
    """What somebody has done about a job that goes on waiting: in its log and its history."""
    unit.note(Event.JOB_NOTE, job_id=job.job_id, text=f"job {job.job_id}: {why}")
    party = job.party
    unit.moves(HistoryLevel.JOB, job.job_id, job.status, job.status, party=party, message=why, caused_by=str(party))


def _note_seat(unit: UnitOfWork, seat: Seat, new: SeatStatus, message: str) -> None:
    unit.moves(HistoryLevel.SEAT, seat.job_id, seat.status, new, party=seat.party, message=message)


def _note_approval(unit: UnitOfWork, action: NoteApproval) -> None:
    seat = action.seat
    if unit.tx.note_approval(seat, action.text) and action.text:
        party = seat.party
        unit.moves(
            HistoryLevel.SEAT, seat.job_id, seat.status, seat.status, party=party, message=action.text,
            caused_by=str(party)
        )


def _capped(data: object) -> str:
    """What a party that accepts a job allows less of than was asked, for the history and for who submitted it."""
    return capped_text(data.get("effective") if isinstance(data, Mapping) else None)


def _caused_by(job: Job, move: MoveJob) -> str:
    return job.caused_by or move.caused_by or str(job.party)


def lease_seat(unit: UnitOfWork, seat: Seat, lease: int) -> None:
    """The party keeps what it holds for so many milliseconds; it is asked again after a third of them."""
    renew_at = unit.steady + lease // 3 if lease else 0
    unit.tx.lease_seat(seat, lease, renew_at)
    if lease:
        unit.alarms.append(renew_at)


def _lease_in(data: Mapping[str, Any]) -> int:
    """Milliseconds; 0 for a party that says none that can be kept, such as a plain v1 one."""
    seconds = data.get("lease_seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < _LONGEST_LEASE:
        return 0
    return max(3, int(seconds * 1000))


def awaits_capacity(unit: UnitOfWork, job: Job, party_id: str) -> bool:
    """Whether capacity at this party is what a job waits for, or what it is asking for in its reservation round."""
    if job.status is not JobStatus.WAITING or job.reason is not None or job.rerun_signal or job.hold is not None:
        return False
    if not job.ready_owner:
        return job.blocked_on == party_id
    seats = unit.tx.seats(job.job_id)
    asked = [seat for seat in seats if _is_refused(seat)] or seats
    return any(seat.party.party_id == party_id for seat in asked)


def _is_refused(seat: Seat) -> bool:
    """In the present reservation round."""
    return seat.status is SeatStatus.JOINED and seat.message != ""


def _seats_at(unit: UnitOfWork, job: Job, notice: CapacityNotice) -> list[Seat]:
    return [seat for seat in unit.tx.seats(job.job_id) if seat.party.party_id == notice.party_id]


def asked_by(unit: UnitOfWork) -> Asked:
    """The cores that the jobs of this initiator ask for, by party; each is read once."""

    @cache
    def asked(job_id: str) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        for seat in unit.tx.seats(job_id):
            found[seat.party.party_id] += seat.asked_cores
        return found

    return asked


def count_in(data: object, key: str) -> int | None:
    """A count that another party told, such as its free cores; None when it is not there or is none."""
    value = data.get(key) if isinstance(data, Mapping) else None
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_VERSION
    return value if is_count else None


def _jitter(unit: UnitOfWork, conflicts: int) -> int:
    """After a conflict two initiators must not meet again in step: up to a second more each time, capped."""
    if not conflicts:
        return 0
    return int(unit.context.fresh_id()[:6], 16) % (1000 * min(conflicts, 8))


def create_body(
    document: Document, spec: JobSpec, job_id: str, incarnations: Mapping[str, str]
) -> dict[str, Any]:
    """The body of `create` (party-api-v1, section 2), with our extensions announced."""
    return {
        "job_id": job_id,
        "name": document.name,
        "description": document.description,
        "dsl": document.dsl,
        "runtime_conf": document.runtime_conf,
        "train_runtime_conf": {},
        "roles": spec.roles,
        "initiator_role": spec.initiator.role,
        "initiator_party_id": spec.initiator.party_id,
        "extensions": EXTENSIONS,
        "incarnations": incarnations,
        CALL_BACK: True,
    }


def _seats(unit: UnitOfWork, job_id: str, spec: JobSpec) -> list[Seat]:
    nodes = unit.context.engine_size.nodes
    return [
        Seat(
            job_id,
            party,
            SeatStatus.JOINED if party == spec.initiator else SeatStatus.JOINING,
            asked_cores=request_of(party, spec.parameters[party], nodes).cores,
        )
        for party in spec.parties
    ]


def _holder(key: TaskKey, incarnation: str, auto_retries: int, now: int) -> Task:
    return Task(
        key, TaskStatus.WAITING, TaskStatus.WAITING, runs_here=False, incarnation=incarnation,
        auto_retries=auto_retries, create_time=now,
    )  # fmt: skip


def endpoint_of(command: Command) -> str:
    """The v1 path of a command, without the leading `/v1` (party-api-v1)."""
    role, party_id = command.to.role, command.to.party_id
    if command.kind is CommandKind.REPORT:
        body = command.body
        task = f"{command.job_id}/{command.task}/{command.job_id}_{command.task}/{command.version}"
        return f"/initiator/{task}/{body['role']}/{body['party_id']}/report"
    if command.kind is CommandKind.ASK_STOP:
        return f"/initiator/{command.job_id}/{role}/{party_id}/stop/{command.argument}"
    if command.kind is CommandKind.ASK_RERUN:
        return f"/initiator/{command.job_id}/{role}/{party_id}/rerun"
    if command.kind is CommandKind.CAPACITY:
        return f"/initiator/{command.job_id}/{command.body['role']}/{command.body['party_id']}/room"
    if command.kind is CommandKind.STANDING:
        return f"/initiator/{command.job_id}/{role}/{party_id}/standing"
    if command.kind is CommandKind.LOOK_AGAIN:
        return f"/initiator/{command.job_id}/{role}/{party_id}/ready"
    if command.task:
        word = command.kind.value.removeprefix("task ")
        tail = f"{word}/{command.argument}" if command.argument else word
        task = f"{command.job_id}/{command.task}/{command.job_id}_{command.task}/{command.version}"
        return f"/party/{task}/{role}/{party_id}/{tail}"
    tail = f"{command.kind.value}/{command.argument}" if command.argument else command.kind.value
    return f"/party/{command.job_id}/{role}/{party_id}/{tail}"


def body_of(answer: Answer) -> dict[str, Any]:
    """The v1 envelope of an answer; what is null is left out."""
    body: dict[str, Any] = {"retcode": answer.retcode, "retmsg": answer.retmsg}
    return body if answer.data is None else {**body, "data": answer.data}


def to_json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))


def _place(party: Party) -> dict[str, str]:
    return {"role": party.role, "party_id": party.party_id}
