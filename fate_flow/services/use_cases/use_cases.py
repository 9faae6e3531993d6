"""The use cases: what the HTTP routes ask for, each in one unit of work, and the scheduler woken afterwards.

A request handler holds no state and waits on its own server for one thing only: `submit` waits until every party has
accepted, which takes other parties' threads and this server's scheduler, never another handler of this server. How
many may wait at once, validations that ask other parties among them, is bounded, so that there are always threads left
for what others ask.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from fate_flow.core.access.authority import TO_INITIATORS, JobBinding, Said, objection
from fate_flow.core.access.permission import EVERYTHING, Thing
from fate_flow.core.model.approval import SHORT_DIGEST, Approval, Consent, is_digest_of
from fate_flow.core.model.errors import (
    BadRequest,
    Busy,
    Conflict,
    FlowError,
    JobNotFound,
    NotFound,
    OperationFailed,
    PeerUnreachable,
    StorageFailed,
    StorageUnavailable,
)
from fate_flow.core.model.grammar import check_component_name, shown
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import ANY_RUN, NOT_EFFECTIVE, Answer, Command, CommandKind, Hold, Job, JobKey
from fate_flow.core.model.peer import HeartbeatReply
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.rerun import RerunRequest
from fate_flow.jobspec.parameters import Change
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.services.context.unit_of_work import CapacityNotice, UnitOfWork, binding_of, read_spec, unit_of_work
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.initiator.known_capacity import awaits_capacity, count_in
from fate_flow.services.initiator.unanswered import unanswered_text
from fate_flow.services.participant.admission import accept, check_early, document_in
from fate_flow.services.participant.call_back import Reach, reaches_all, refused
from fate_flow.services.participant.ends import release
from fate_flow.services.participant.heartbeats import Heartbeats
from fate_flow.services.participant.parameters import Revised
from fate_flow.services.participant.participant import Participant
from fate_flow.services.participant.standing import ask_standing, standing_of
from fate_flow.services.upkeep.results import Cleaned, check_over, clean_job, drop_disabled_tables
from fate_flow.services.workers.reports import read_report
from fate_flow.store.values import Connector, Document, Scope, Submission, TableMeta

Wake = Callable[[Sequence[str], bool, bool, str, Sequence[CapacityNotice]], None]
"""Wakes the scheduler: ids of jobs that changed, whether the outbox has something new, whether the queue has to be
looked at, since it is longer or cores came free here, which party knows that by an answer, and what others said of
theirs."""

T = TypeVar("T")

STOPS = {"canceled": Reason.STOPPED_BY_USER, "failed": Reason.TASK_FAILED, "timeout": Reason.JOB_TIMEOUT}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1
_WHOLE_PIPELINE = "pipeline"      # FATE's word for no component in particular


class UseCases:
    """The use cases that other servers and clients reach over HTTP."""

    def __init__(
        self, context: Context, wake: Wake, waiting_submits: int, submit_timeout: float,
        monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
        reach: Reach = reaches_all,
    ) -> None:  # fmt: skip
        """`reach`: whether this party can report to another one, where that asks to be called back."""
        self.context = context
        self.reach = reach
        self._monotonic, self._sleep = monotonic, sleep
        self._wake = wake
        self._party = Participant()
        self._initiator = Coordinator(self._party)
        self._heartbeats = Heartbeats(context)
        self._slots = threading.Semaphore(waiting_submits)
        self._submit_timeout = submit_timeout

    @contextmanager
    def _unit(self) -> Iterator[UnitOfWork]:
        with unit_of_work(self.context) as unit:
            yield unit
        concerns_queue = unit.is_queue_longer or bool(unit.freed)
        if unit.dirty or unit.outgoing or concerns_queue or unit.capacity_notices:
            self._wake(
                tuple(unit.dirty), bool(unit.outgoing), concerns_queue, unit.informed_party, unit.capacity_notices
            )

    def _carry_out(self, act: Callable[[UnitOfWork], T], is_repeatable: bool = True) -> T:
        """What `act` answers; `is_repeatable` as `Retry` has it. Raises StorageFailed."""

        def once() -> T:
            with self._unit() as unit:
                return act(unit)

        return self.context.retry(once, is_repeatable)

    # ------------------------------------------------------------------ from other parties

    def carry_out(self, commands: Sequence[Command], caller: str) -> list[Answer]:
        """Commands of another party, in their order, in one transaction."""
        for command in commands:
            if command.kind is CommandKind.CREATE:
                with suppress(BadRequest):
                    check_early(self.context, document_in(command.body))
        answered = refused(commands, caller, self.reach)
        return self._carry_out(lambda unit: [
            answered.get(place) or self._one(unit, command, caller) for place, command in enumerate(commands)
        ])

    def _one(self, unit: UnitOfWork, command: Command, caller: str) -> Answer:
        if command.kind in TO_INITIATORS:
            return self._asked_as_initiator(unit, command, caller)
        answer = self._party.handle(unit, command, caller)
        unit.touch(command.job_id)
        return answer

    def _asked_as_initiator(self, unit: UnitOfWork, command: Command, caller: str) -> Answer:
        job = unit.tx.job_here(command.job_id)
        said = Said(command.kind, caller, self.context.party_id, _seat_in(command))
        if why := objection(said, None if job is None else binding_of(job)):
            return Answer(108, why)
        match command.kind:
            case CommandKind.REPORT:
                return self._report(unit, command)
            case CommandKind.ASK_STOP:
                return self._ask_stop(unit, command, caller, job)
            case CommandKind.ASK_RERUN:
                return self._ask_rerun(unit, command, job)
            case CommandKind.CAPACITY:
                return self._capacity_notice(unit, command, caller, job)
            case CommandKind.STANDING:
                return standing_of(job)
        if job is not None:     # no more than a hint: whether the party is ready, its answer to the next check says
            self._initiator.ask_again(unit, caller, job.job_id)
        return Answer()

    def _report(self, unit: UnitOfWork, command: Command) -> Answer:
        report = read_report(command.body)
        if report is None:
            return Answer(101, "party_status: the report is not well formed")
        self._initiator.take_report(unit, report)
        return Answer()

    def _ask_stop(self, unit: UnitOfWork, command: Command, caller: str, job: Job | None) -> Answer:
        if job is None:
            return replace(standing_of(job), retmsg=f"can not found job {command.job_id}")
        if command.run < job.run:
            message = f"job {job.job_id} is in run {job.run}, not {command.run}: that one is over"
            return replace(standing_of(job), retmsg=message)
        reason = STOPS.get(command.argument)
        if reason is None:
            return Answer(101, f"stop_status: {command.argument!r} is not one of {', '.join(sorted(STOPS))}")
        is_user = reason is Reason.STOPPED_BY_USER
        seat = next((str(party) for party in job.parties if party.party_id == caller), "")
        self._initiator.request_stop(unit, command.job_id, reason, f"asked by party {caller}", is_user, seat)
        if command.body.get("now") is True:
            self._initiator.request_force_stop(unit, command.job_id)
        return standing_of(job) if job.is_final else Answer()

    def _ask_rerun(self, unit: UnitOfWork, command: Command, job: Job | None) -> Answer:
        """As a FATE server asks for its client."""
        if job is None:
            return Answer(102, f"can not found job {command.job_id}")
        try:
            with unit.part():
                self._initiator.rerun(unit, command.job_id, read_rerun_request(command.body))
        except StorageFailed:
            raise
        except FlowError as error:
            return Answer(error.retcode, error.message)
        return Answer()

    def _capacity_notice(self, unit: UnitOfWork, command: Command, caller: str, job: Job | None) -> Answer:
        """A party that had no capacity for a job has some; 10 when the job has no use for it."""
        cores = count_in(command.body, "free_cores")
        if cores is None:
            return Answer(101, f"free_cores: {shown(command.body.get('free_cores'))} is not a number of cores")
        if job is None or command.run not in (job.run, ANY_RUN) or not awaits_capacity(unit, job, caller):
            return Answer(NOT_EFFECTIVE, f"job {command.job_id} does not wait for capacity at party {caller}")
        unit.capacity_notices.append(CapacityNotice(job.job_id, caller, cores))
        return Answer()

    def heartbeat(self, caller: str, jobs: Sequence[tuple[str, int]]) -> HeartbeatReply:
        """A sign of life of an initiator, which believes that these jobs run here."""
        reply, doubtful = self._heartbeats.answer(caller, jobs), self._heartbeats.missing(caller, jobs)
        if doubtful:
            self._carry_out(lambda unit: ask_standing(unit, doubtful))
        return reply

    # ------------------------------------------------------------------ from clients

    def submit(self, job_id: str, document: Document, request_id: str = "") -> str:
        """Take a job and wait until every party has accepted it: its id.

        Raises BadDocument, Refused naming the party, Busy, Conflict for a request id that was used for something else.
        A refused submit leaves nothing at any party, and its request id is free again."""
        with self.waiting():
            check_early(self.context, document)
            known = self._carry_out(lambda unit: self._take(unit, job_id, document, request_id or job_id))
            decided = self._await_decision(known)
            if decided.retcode and known == job_id:
                self._forget(known)
        if decided.retcode:
            error = OperationFailed(decided.retmsg)
            error.retcode = decided.retcode
            raise error
        self.context.record.emit(Event.SUBMITTED, job_id=known, model_id="")
        return known

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """One of the few handlers that may wait for other parties at the same time. Raises Busy."""
        if not self._slots.acquire(blocking=False):
            raise Busy("too many submits are waiting for other parties to accept; try again in a second")
        try:
            yield
        finally:
            self._slots.release()

    def _take(self, unit: UnitOfWork, job_id: str, document: Document, request_id: str) -> str:
        is_begun_anew = unit.tx.job_here(job_id) is not None     # what was committed after all needs no second push
        known = self._initiator.submit(unit, job_id, document, request_id)
        if known == job_id and not is_begun_anew:
            unit.note(Event.SUBMIT_ASKED, job_id=known, body=_summary(document))
            self._initiator.advance(unit, known)
        return known

    def _await_decision(self, job_id: str) -> Submission:
        deadline = self._monotonic() + self._submit_timeout
        pause = _FIRST_PAUSE
        while True:
            # The job is stored: a database that has gone since then says nothing about whether it is accepted.
            with suppress(StorageUnavailable):
                decided = self._submission(job_id)
                if decided is None:
                    message = f"job {job_id} was refused; who submitted it first with this request id has been told why"
                    raise OperationFailed(message)
                if decided.retcode is not None:
                    return decided
            if self._monotonic() > deadline:
                given_up = self._give_up(job_id)
                if isinstance(given_up, Submission):
                    return given_up
                raise PeerUnreachable(f"{given_up}: job {job_id}")
            self._sleep(pause)
            pause = min(pause * 1.6, _LONGEST_PAUSE)

    def _submission(self, job_id: str) -> Submission | None:
        return self.context.read(lambda tx: tx.submission_of(job_id))

    def _forget(self, job_id: str) -> None:
        # What stays because the database is gone goes at the next start; the refusal is what the client has to hear.
        with suppress(StorageFailed):
            self.context.write(lambda tx: tx.forget_submission(job_id), is_repeatable=True)

    def _give_up(self, job_id: str) -> Submission | str:
        """The decision that came just in time; who did not answer when the submit was given up."""

        def give_up(unit: UnitOfWork) -> Submission | str:
            decided = unit.tx.submission_of(job_id)
            if decided is None or decided.retcode is None:
                unit.tx.forget_submission(job_id)
                decided = unit.tx.submission_of(job_id)     # there still: accepted since it was read (MySQL only)
            if decided is not None:
                return decided
            # Decided and forgotten since it was looked for: there is nothing left to give up.
            why = unanswered_text(unit.tx, job_id, f"within {self._submit_timeout:g} s")
            with suppress(JobNotFound):
                self._initiator.request_stop(unit, job_id, Reason.PARTY_REFUSED, why, False, caused_by="")
            return why

        return self._carry_out(give_up)

    def validate(self, document: Document) -> JobSpec:
        """The checks of a submit, without one. Raises BadDocument."""
        return read_spec(self.context, document)

    def stop(self, job_id: str, status: str = "canceled", *, now: bool = False) -> str:
        """Ask for the end of a job, here or at its initiator: what was done, as text.

        `now` leaves its workers no time to finish, also when an earlier stop did. An initiator that cannot be told
        now will be. Raises JobNotFound."""
        reason = STOPS.get(status)
        if reason is None:
            raise BadRequest(f"stop_status: {status!r} is not one of {', '.join(sorted(STOPS))}")
        return self._carry_out(lambda unit: self._stop(unit, job_id, status, reason, now))

    def _stop(self, unit: UnitOfWork, job_id: str, status: str, reason: Reason, now: bool) -> str:
        rows = unit.tx.jobs_here(job_id)
        if not rows:
            raise JobNotFound("can not found job")
        own = next((row for row in rows if row.is_initiator), None)
        shown = own or rows[0]
        if shown.is_final:          # 0 all the same: FATE answers so, and what was asked for is true
            return f"job {job_id} is over already: it ended as {shown.status.value}; nothing was stopped"
        if own is not None:
            message = f"stopped by a user at party {self.context.party_id}"
            is_user = reason is Reason.STOPPED_BY_USER
            self._initiator.request_stop(unit, job_id, reason, message, is_user, str(own.party))
            if now:
                self._initiator.request_force_stop(unit, job_id)
        else:
            body = {"now": True} if now else {}
            ask = Command(CommandKind.ASK_STOP, job_id, rows[0].initiator, rows[0].run, argument=status, body=body)
            unit.send(ask)
        return "stop job on this party success; stop job on all party success"

    def rerun(self, job_id: str, body: Mapping[str, Any]) -> None:
        """Have an ended job begin again: `component_name` and `force` in the body say what of it.

        Raises JobNotFound, BadRequest; Conflict for a job that is not over or has nothing left to do."""
        request = read_rerun_request(body)
        self._carry_out(lambda unit: self._initiator.rerun(unit, job_id, request), is_repeatable=False)

    def resume(self, job_id: str) -> None:
        """Have a canceled job go on where it was. Raises JobNotFound, Conflict for a job that is not canceled."""
        self._carry_out(
            lambda unit: self._initiator.rerun(unit, job_id, RerunRequest(), only=JobStatus.CANCELED),
            is_repeatable=False
        )

    def preview_change(self, job_id: str, change: Change) -> Revised:
        """What a job would be with other parameters; nothing is written. Raises as `Coordinator.preview_change`."""
        context = self.context
        return context.read(
            lambda tx: self._initiator.preview_change(UnitOfWork(context, tx, context.clock()), job_id, change)
        )

    def change_parameters(self, job_id: str, change: Change, base: int) -> Revised:
        """The job has them from now on, at all parties. Raises as `Coordinator.change_parameters`."""
        return self._carry_out(
            lambda unit: self._initiator.change_parameters(unit, job_id, change, base), is_repeatable=False
        )

    def set_priority(self, job_id: str, priority: int) -> None:
        """Raises JobNotFound where this is not its initiator, Conflict for a job that does not wait."""
        self._carry_out(lambda unit: self._initiator.set_priority(unit, job_id, priority))

    def hold(self, job_id: str, message: str, by: str) -> None:
        """No reservation round for a waiting job. Raises JobNotFound, Conflict for a job that does not wait."""
        self._carry_out(lambda unit: self._initiator.hold(unit, job_id, Hold(message, by, unit.now, unit.steady)))

    def release(self, job_id: str, by: str) -> None:
        """Raises JobNotFound, Conflict for a job that nobody holds."""
        self._carry_out(lambda unit: self._initiator.let_go(unit, job_id, by), is_repeatable=False)

    def hold_intake(self, message: str, by: str) -> None:
        """This party reserves nothing for any job that does not hold something already."""

        def hold(unit: UnitOfWork) -> None:
            found = Hold(message, by, unit.now, unit.steady)
            unit.tx.hold_intake(found)
            text = f"party {self.context.party_id} takes no new reservations: {found.text}"
            unit.note(Event.DETECT_NOTE, text=text)

        self._carry_out(hold)

    def release_intake(self, by: str) -> None:
        """Jobs that wait for this party are asked for again at once. Raises Conflict when it was not held."""

        def release(unit: UnitOfWork) -> None:
            if not unit.tx.release_intake():
                raise Conflict(f"party {self.context.party_id} is not on hold")
            unit.note(Event.DETECT_NOTE, text=f"party {self.context.party_id} takes reservations: released by {by}")
            self._initiator.ask_again(unit, self.context.party_id)
            for job in unit.tx.others_waiting():
                if not job.is_plain_v1:
                    unit.send(Command(CommandKind.LOOK_AGAIN, job.job_id, job.initiator, job.run))

        self._carry_out(release, is_repeatable=False)

    def approve(
        self, job_id: str, reason: str, by: str, revision: int | None = None, digest: str = ""
    ) -> JobBinding:
        """This party takes part in a job of another; `revision` and `digest`: as that was looked at. What was approved.

        Raises JobNotFound, Conflict when nobody has to approve it, or it has another document by now."""
        return self._decide(job_id, Approval.APPROVED, by, reason, revision, digest)

    def reject(self, job_id: str, reason: str, by: str) -> None:
        """This party takes no part in it: the job ends, and says why. Raises as `approve`."""
        self._decide(job_id, Approval.REJECTED, by, reason)

    def _decide(
        self, job_id: str, approval: Approval, by: str, reason: str, revision: int | None = None, digest: str = ""
    ) -> JobBinding:
        def decide(unit: UnitOfWork) -> JobBinding:
            rows, bound = unit.tx.jobs_here(job_id), unit.binding(job_id)
            if not rows or bound is None:
                raise JobNotFound(f"can not found job {job_id} on party {self.context.party_id}")
            if revision not in (None, bound.revision):
                raise Conflict(f"job {job_id} has parameters of revision {bound.revision} by now: look at it again")
            if digest and not is_digest_of(digest, bound.digest):
                short = bound.digest[:SHORT_DIGEST]
                raise Conflict(f"job {job_id} has another document by now ({short}): look at it again")
            consent = Consent(approval, by, reason, unit.now, bound.digest)
            for row in rows:
                _check_decidable(row, consent)
                if not unit.tx.decide_consent(row.key, consent):
                    raise Conflict(f"{row.key} has moved on: look at it again")
                party, message = row.party, consent.text
                unit.moves(
                    HistoryLevel.JOB, job_id, row.status, row.status, party=party, message=message, caused_by=str(party)
                )
            unit.note(Event.JOB_NOTE, job_id=job_id, text=f"job {job_id} was {consent.text}")
            if rows[0].status is JobStatus.WAITING and not rows[0].is_plain_v1:
                unit.send(Command(CommandKind.LOOK_AGAIN, job_id, rows[0].initiator, rows[0].run))
            return bound

        return self._carry_out(decide)

    def grant(self, party_id: str, things: Sequence[Thing]) -> None:
        """Jobs of this party may use these here from now on."""

        def grant(unit: UnitOfWork) -> None:
            unit.tx.grant(party_id, things)
            self._note_permission(unit, f"party {party_id} was granted", things)

        self._carry_out(grant)

    def revoke(self, party_id: str, things: Sequence[Thing]) -> None:
        """No worker that needs it starts any more; what runs goes on. Raises Conflict for what was not granted."""

        def revoke(unit: UnitOfWork) -> None:
            granted = unit.tx.granted(party_id)
            lacking = [thing for thing in things if thing not in granted and thing not in EVERYTHING.values()]
            if lacking:
                raise Conflict(f"party {party_id} was not granted {lacking[0]}; flow privilege query shows what it was")
            kinds = {thing.kind for thing in things if thing in EVERYTHING.values()}
            unit.tx.revoke(party_id, [one for one in granted if one in things or one.kind in kinds])
            self._note_permission(unit, f"party {party_id} is no longer granted", things)

        self._carry_out(revoke, is_repeatable=False)

    def _note_permission(self, unit: UnitOfWork, message: str, things: Sequence[Thing]) -> None:
        unit.note(Event.DETECT_NOTE, text=f"{message}: {', '.join(map(str, things))}")

    def clean_queue(self) -> dict[str, int]:
        """Cancel every waiting job of this initiator: 0 for each that was told to end."""

        def clean(unit: UnitOfWork) -> dict[str, int]:
            found = {}
            for job in unit.tx.waiting_jobs():
                self._initiator.request_stop(
                    unit, job.job_id, Reason.QUEUE_CLEANED, "the queue was cleaned", True, str(job.party)
                )
                found[job.job_id] = 0
            return found

        return self._carry_out(clean)

    def return_resources(self, job_id: str) -> list[tuple[Job, bool]]:
        """Give back what this party holds for a job that does not run: each seat and whether something came back.

        Raises JobNotFound; Conflict while the job runs, since its end returns what it holds."""

        def give_back(unit: UnitOfWork) -> list[tuple[Job, bool]]:
            rows = unit.tx.jobs_here(job_id)
            if not rows:
                raise JobNotFound(f"can not found job {job_id}")
            if any(row.holds and row.status in (JobStatus.RUNNING, JobStatus.STOPPING) for row in rows):
                raise Conflict(
                    f"job {job_id} is running, and its end gives back what it holds: wait for that, or stop it "
                    f"(flow job stop -j {job_id})"
                )
            return [(row, release(unit, row)) for row in rows]

        return self._carry_out(give_back, is_repeatable=False)

    def examine(self, document: Document) -> JobSpec:
        """All that this server can check of a submit by itself; nothing is stored.

        Raises BadDocument for a document that is wrong, FlowError (103) when this party can never give the cores."""
        spec = read_spec(self.context, document)
        check_early(self.context, document)

        def check(unit: UnitOfWork) -> None:
            self._initiator.check_own(unit, spec)
            accept(unit, spec)

        self._carry_out(check)
        return spec

    def preview(self, command: Command, caller: str) -> Answer:
        """What another party would be answered to this `create`; nothing is written."""
        for answer in refused([command], caller, self.reach).values():
            return replace(answer, data={"previewed": True})
        context = self.context
        return context.read(lambda tx: self._party.preview(UnitOfWork(context, tx, context.clock()), command, caller))

    def drop_table(self, namespace: str, name: str) -> None:
        """The table is gone, row and file. Raises NotFound."""

        def drop(unit: UnitOfWork) -> None:
            table = _table(unit, namespace, name)
            unit.tx.drop_table(namespace, name)
            unit.after_commit(lambda: self.context.files.drop_table(table))

        self._carry_out(drop, is_repeatable=False)

    def save_connector(self, connector: Connector) -> None:
        """Clients may name it from now on; one of this name is replaced."""

        def save(unit: UnitOfWork) -> None:
            unit.tx.save_connector(connector, unit.now)
            unit.note(Event.DETECT_NOTE, text=f"connector {connector.name}: {connector.engine} {dict(connector.info)}")

        self._carry_out(save)

    def describe(self, key: JobKey, notes: str) -> None:
        """Notes on a job, as this party keeps them. Raises JobNotFound."""

        def describe(unit: UnitOfWork) -> None:
            # Looked for first: a write that finds no row would leave its statement in the log of a job that is none.
            if unit.tx.job(key) is None or not unit.tx.describe(key, notes):
                raise JobNotFound(f"can not found {key}")

        self._carry_out(describe)

    def clean_job(self, scope: Scope) -> Cleaned:
        """What tasks of an ended job left here goes: the tables they made, what is known of them, metrics, summaries.

        Raises JobNotFound; OperationFailed for a job that is not over."""
        return self._carry_out(lambda unit: clean_job(unit, scope))

    def drop_metrics(self, scope: Scope) -> int:
        """The metrics of an ended job go: how many. Raises as `clean_job`."""

        def drop(unit: UnitOfWork) -> int:
            check_over(unit, scope.job_id)
            return unit.tx.drop_metrics(scope)

        return self._carry_out(drop)

    def drop_disabled_tables(self) -> tuple[TableMeta, ...]:
        """All tables that jobs may not read. Raises NotFound where there is none."""
        return self._carry_out(drop_disabled_tables, is_repeatable=False)

    def allow_table(self, namespace: str, name: str, is_allowed: bool) -> None:
        """Whether jobs may read the table from now on. Raises NotFound."""

        def allow(unit: UnitOfWork) -> None:
            table = _table(unit, namespace, name)
            unit.tx.save_table(replace(table, is_disabled=not is_allowed), table.create_time)

        self._carry_out(allow)


def _seat_in(command: Command) -> Party:
    """The seat that the command is about: of a report and of capacity that of the party that says it, as in the
    body."""
    role, party_id = command.body.get("role"), command.body.get("party_id")
    is_of_sender = command.kind in (CommandKind.REPORT, CommandKind.CAPACITY)
    return Party(str(role), str(party_id)) if is_of_sender else command.to


def _check_decidable(row: Job, consent: Consent) -> None:
    """Whether it is time for this consent. What was rejected is over, and can be approved for a rerun; what runs though
    nobody has approved its document was approved by an older release, and can be approved anew.

    Raises Conflict."""
    if row.consent is None:
        raise Conflict(f"{row.key} needs no approval here (approval in service_conf.yaml)")
    is_anew = (row.consent.approval, consent.approval) == (Approval.PENDING, Approval.APPROVED)
    is_under_way = row.holds or row.status is JobStatus.RUNNING
    if row.status is JobStatus.STOPPING or (is_under_way and not is_anew):
        raise Conflict(f"{row.key} has been approved and is under way: flow job stop ends it")
    is_for_rerun = row.consent.approval is Approval.REJECTED and consent.approval is Approval.APPROVED
    if row.is_final and not is_for_rerun:
        why = ": ".join(filter(None, (row.reason.value if row.reason else "", row.message)))
        raise Conflict(f"{row.key} has ended as {row.status.value} ({why}): nobody waits for an approval of it")


def read_rerun_request(body: Mapping[str, Any]) -> RerunRequest:
    """What a client wants of a rerun. Raises BadRequest."""
    force, component = body.get("force"), body.get("component_name")
    if force is not None and not isinstance(force, bool):
        raise BadRequest(f"force: {shown(force)} is neither true nor false")
    if component in (None, "", _WHOLE_PIPELINE):
        return RerunRequest(force=bool(force))
    return RerunRequest(check_component_name(component), bool(force))


def _table(unit: UnitOfWork, namespace: str, name: str) -> TableMeta:
    table = unit.tx.table(namespace, name)
    if table is None:
        raise NotFound(f"no find table: namespace {shown(namespace)}, table_name {shown(name)}")
    return table


def _summary(document: Document) -> str:
    text = json.dumps({"job_dsl": document.dsl, "job_runtime_conf": document.runtime_conf})
    return text if len(text) <= 20_000 else f"{text[:20_000]}..."

