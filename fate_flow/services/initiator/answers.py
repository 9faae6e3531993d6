"""Taking the answers of parties to commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fate_flow.core.model.errors import NOT_EFFECTIVE
from fate_flow.core.model.history import HistoryLevel
from fate_flow.core.model.job import Answer, Command, CommandKind, Job, Seat
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus, SeatStatus
from fate_flow.core.planning.actions import Action, InviteAgain, MakeAnew, MoveSeat, NameUnconfirmed, NoteApproval
from fate_flow.core.planning.party_return import plan_missing_shares
from fate_flow.core.planning.replies import handle_reply, must_ask_later
from fate_flow.core.wire.v1.extensions import offers_extensions
from fate_flow.core.wire.v1.job_answers import lease_in, not_run_in, places_in, refused_cores_in, short_at_in
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.disclosure import as_given_to
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator import reports
from fate_flow.services.initiator.job_view import view_of
from fate_flow.services.initiator.plain_v1_hosts import failed_report, handle_join_reply, is_before_rerun, refusal_of
from fate_flow.services.initiator.plan_actions import Dispatch, PlanActions
from fate_flow.services.initiator.seats import lease_seat, note_seat
from fate_flow.services.initiator.submission import capped, create_body

_ANSWERED_BY_TASK = frozenset(
    {
        CommandKind.TASK_START,
        CommandKind.TASK_STOP,
        CommandKind.TASK_STATUS,
        CommandKind.TASK_CREATE,
        CommandKind.TASK_COLLECT,
    }
)


class Answers:
    """Takes the answers of parties, also of the own one, to commands of this initiator."""

    def __init__(self, dispatch: Dispatch, actions: PlanActions) -> None:
        self._dispatch = dispatch
        self._actions = actions
        self.handlers: Mapping[type, Callable[[UnitOfWork, Job, Any, Mapping[str, Any]], None]] = {
            MoveSeat: _move_seat,
            NoteApproval: _note_approval,
            NameUnconfirmed: _name_unconfirmed,
            MakeAnew: self._make_anew,
            InviteAgain: self._invite_again,
        }
        """Handlers of actions that only follow from answers, or need their data; all others are those of plans."""

    def take(self, unit: UnitOfWork, command: Command, answer: Answer) -> None:
        job_id = command.job_id
        unit.touch(job_id)
        if command.kind in _ANSWERED_BY_TASK:
            _take_task_answer(unit, command, answer)
            return
        seat = _seat_of(unit, command)
        if seat is None:
            return
        data = answer.data if isinstance(answer.data, Mapping) else {}
        outcome = handle_reply(seat, command, answer.retcode, answer.retmsg, data)
        job = unit.tx.job_here(job_id)
        if job is None:
            return
        has_joined = command.kind is CommandKind.CREATE and answer.is_ok and bool(outcome.actions)
        if has_joined and not offers_extensions(data):
            outcome = handle_join_reply(unit, seat, command, outcome, not_run_in(data))
        for action in outcome.actions:
            self._carry_out(unit, job, action, data)
        for body in outcome.reports:
            reports.take_body(unit, body, command.to)
        if outcome.stop is not None:
            unit.tx.request_stop(job.key, outcome.stop, outcome.message, unit.now, False, str(command.to))

    def _carry_out(self, unit: UnitOfWork, job: Job, action: Action, data: Mapping[str, Any]) -> None:
        handler = self.handlers.get(type(action))
        if handler is None:
            self._actions.carry_out(unit, job, action)
        else:
            handler(unit, job, action, data)

    def _make_anew(self, unit: UnitOfWork, job: Job, action: MakeAnew, _: Mapping[str, Any]) -> None:
        """Run tasks again in the run that begins, because a party has not kept its shares of them."""
        spec = unit.spec(job.job_id)
        assert spec is not None, "it was parsed when it was taken"
        text = f"job {job.job_id}: {action.seat.party} has not kept {', '.join(action.names)}: made again"
        unit.note(Event.JOB_WARNING, job_id=job.job_id, text=text)
        for one in plan_missing_shares(view_of(unit, job, spec, unit.tx.tasks(job.job_id)), action.names):
            self._actions.carry_out(unit, job, one)

    def _invite_again(self, unit: UnitOfWork, job: Job, action: InviteAgain, _: Mapping[str, Any]) -> None:
        document, spec = unit.tx.document(job.job_id), unit.spec(job.job_id)
        if document is None or spec is None:
            return
        party = action.seat.party
        incarnations = {task.key.name: task.incarnation for task in unit.tx.tasks(job.job_id)}
        document = as_given_to(document, party.party_id)
        body = create_body(document, spec, job.job_id, incarnations, job.revision)
        self._dispatch(unit, Command(CommandKind.CREATE, job.job_id, party, job.run, body=body))
        waiting = JobStatus.WAITING.value
        self._dispatch(unit, Command(CommandKind.STATUS, job.job_id, party, job.run, argument=waiting))


def _move_seat(unit: UnitOfWork, _: Job, action: MoveSeat, data: Mapping[str, Any]) -> None:
    free = refused_cores_in(data)
    cores = -1 if free is None else free
    if unit.tx.move_seat(action.seat, action.new, action.message, cores, action.blocked_by, short_at_in(data)):
        note_seat(unit, action.seat, action.new, action.message or capped(data))
        asks = {tag: one.asked for tag, one in places_in(data).items()}
        if asks and asks != action.seat.asks:
            unit.tx.ask_for(action.seat, sum(asks.values()), asks)
    if action.new is SeatStatus.HELD:
        lease_seat(unit, action.seat, lease_in(data))


def _note_approval(unit: UnitOfWork, _: Job, action: NoteApproval, __: Mapping[str, Any]) -> None:
    seat = action.seat
    if unit.tx.note_approval(seat, action.text) and action.text:
        party = seat.party
        unit.moves(
            HistoryLevel.SEAT, seat.job_id, seat.status, seat.status, party=party, message=action.text,
            caused_by=str(party)
        )


def _name_unconfirmed(unit: UnitOfWork, job: Job, action: NameUnconfirmed, _: Mapping[str, Any]) -> None:
    unit.tx.name_unconfirmed(job.key, action.party)
    text = f"job {job.job_id} is {job.status.value}; {action.party} had ended it by itself as {action.ended_as}"
    unit.note(Event.JOB_WARNING, job_id=job.job_id, text=text)


def _seat_of(unit: UnitOfWork, command: Command) -> Seat | None:
    return next((seat for seat in unit.tx.seats(command.job_id) if seat.party == command.to), None)


def is_to_ask_later(unit: UnitOfWork, command: Command, answer: Answer) -> bool:
    """Return whether the party cannot take the command yet, so that it must be sent again."""
    if answer.retcode != NOT_EFFECTIVE:
        return False
    seat = _seat_of(unit, command)
    return seat is not None and must_ask_later(seat, command, answer.retcode, answer.data)


def _take_task_answer(unit: UnitOfWork, command: Command, answer: Answer) -> None:
    if answer.is_ok:
        if isinstance(answer.data, Mapping):
            reports.take_body(unit, answer.data, command.to)
        return
    refusal, job = refusal_of(command, answer), unit.tx.job_here(command.job_id)
    if not refusal:
        return
    message = f"{command.to} {refusal}"
    if job is not None and is_before_rerun(command, job):
        unit.tx.request_stop(job.key, Reason.PARTY_REFUSED, message, unit.now, False, str(command.to))
    else:
        reports.take_report(unit, failed_report(command, message, unit.now))
