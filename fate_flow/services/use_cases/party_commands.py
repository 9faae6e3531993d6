"""Requests of other parties: commands to this party as participant or as initiator, and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from fate_flow.core.access.authority import TO_INITIATORS, Said, objection, party_id_of
from fate_flow.core.model.errors import NOT_EFFECTIVE, BadRequest, FlowError, StorageFailed
from fate_flow.core.model.job import ANY_RUN, Answer, Command, CommandKind, Job
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus
from fate_flow.core.wire.v1.heartbeat import HeartbeatReply
from fate_flow.core.wire.v1.initiator_bodies import read_capacity, read_rerun, read_stop_request, seat_in
from fate_flow.core.wire.v1.job_answers import places_in
from fate_flow.core.wire.v1.queries import preview_data
from fate_flow.core.wire.v1.reports import NOT_WELL_FORMED, read_report
from fate_flow.core.wire.v1.retcodes import retcode_of
from fate_flow.services.context.disclosure import answer_to
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.recording import record_received
from fate_flow.services.context.tracing import begin_command
from fate_flow.services.context.unit_of_work import UnitOfWork, binding_of
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.initiator.known_capacity import awaits_capacity
from fate_flow.services.participant.admission import read_early, why_not_granted
from fate_flow.services.participant.call_back import Reach, refused
from fate_flow.services.participant.heartbeats import Heartbeats
from fate_flow.services.participant.participant import Participant
from fate_flow.services.participant.standing import ask_standing, standing_of
from fate_flow.services.participant.stream_calls import StreamCalls, not_opened
from fate_flow.services.use_cases.jobs import STOPS
from fate_flow.services.use_cases.units import Units
from fate_flow.store.contract.transaction import Transaction

_ENDS_NOTHING = frozenset(
    {
        CommandKind.CREATE, CommandKind.CHECK, CommandKind.APPLY, CommandKind.RETURN, CommandKind.START,
        CommandKind.UPDATE, CommandKind.ALIGN, CommandKind.TASK_START, CommandKind.TASK_COLLECT,
    }
)  # fmt: skip
_WAITS = (CommandKind.STATUS, JobStatus.WAITING.value)
"""Commands that end no share of a job, so that this party's scheduler has nothing to do about the job. What else they
lead to wakes it: commands to other parties, and cores that came free."""


class PartyCommands:
    """Commands and heartbeats of other parties."""

    def __init__(
        self, units: Units, party: Participant, initiator: Coordinator, reach: Reach, streams: StreamCalls
    ) -> None:  # fmt: skip
        """`reach` tests whether this party can reach another one that asks to be called back; `streams`, whether it can
        open the streams of a job."""
        self.reach = reach
        self._streams = streams
        self._units, self._party, self._initiator = units, party, initiator
        self._heartbeats = Heartbeats(units.context)

    def carry_out(self, commands: Sequence[Command], caller: str) -> list[Answer]:
        """Carry out commands of another party, in their order, in one transaction."""
        early = read_early(self._units.context, commands)
        answered = refused(commands, caller, self.reach)
        new = {place: spec for place, spec in early.creates.items() if place not in answered}
        answered |= not_opened(commands, self._to_open(commands, new, caller), self._streams)

        def act(unit: UnitOfWork) -> list[Answer]:
            unit.read_early = early.specs
            answers = [self._next(unit, one, caller, answered.get(place)) for place, one in enumerate(commands)]
            return [record_received(unit, *one) for one in zip(commands, repeat(caller), answers)]

        return self._units.carry_out(act)

    def preview(self, command: Command, caller: str) -> Answer:
        """Return the answer that another party would get to this `create`, and write nothing."""
        for answer in refused([command], caller, self.reach).values():
            return replace(answer, data=preview_data())
        context = self._units.context
        early = read_early(context, [command])

        def preview(tx: Transaction) -> Answer:
            unit = UnitOfWork(context, tx, context.clock(), read_early=early.specs)
            return self._party.preview(unit, command, caller)

        answer = context.read(preview)
        if answer.is_ok and (answers := not_opened([command], early.creates, self._streams)):
            return replace(answers[0], data=preview_data())
        return answer

    def _to_open(
        self, commands: Sequence[Command], creates: Mapping[int, JobSpec], caller: str
    ) -> dict[int, JobSpec]:  # fmt: skip
        """Return those of these creates whose streams are tried: of a job that is new here, and whose initiator sends
        it and was granted what it needs. Nobody else learns whom this server reaches, or lets it call anybody."""
        context = self._units.context

        def choose(tx: Transaction) -> dict[int, JobSpec]:
            unit = UnitOfWork(context, tx, context.clock())
            return {
                place: spec for place, spec in creates.items()
                if party_id_of(spec.initiator, context.party_id) == caller
                and not tx.jobs_here(commands[place].job_id) and not why_not_granted(unit, spec)
            }

        return context.read(choose) if creates else {}

    def heartbeat(self, caller: str, jobs: Sequence[tuple[str, int]]) -> HeartbeatReply:
        """Answer the heartbeat of an initiator, which names the jobs that run here as far as it knows."""
        reply, doubtful = self._heartbeats.answer(caller, jobs), self._heartbeats.missing(caller, jobs)
        if doubtful:
            self._units.carry_out(lambda unit: ask_standing(unit, doubtful))
        return reply

    def _next(self, unit: UnitOfWork, command: Command, caller: str, known: Answer | None) -> Answer:
        begin_command(unit)
        return known or self._one(unit, command, caller)

    def _one(self, unit: UnitOfWork, command: Command, caller: str) -> Answer:
        if command.kind in TO_INITIATORS:
            answer = self._asked_as_initiator(unit, command, caller)
            return answer_to(self._spec_of_own(unit, command.job_id), caller, answer)
        answer = self._party.handle(unit, command, caller)
        if command.kind not in _ENDS_NOTHING and (command.kind, command.argument) != _WAITS:
            unit.touch(command.job_id)      # a row that is draining may end now
        return answer

    def _spec_of_own(self, unit: UnitOfWork, job_id: str) -> JobSpec | None:
        return None if unit.tx.job_here(job_id) is None else unit.spec(job_id)

    def _asked_as_initiator(self, unit: UnitOfWork, command: Command, caller: str) -> Answer:
        job = unit.tx.job_here(command.job_id)
        said = Said(command.kind, caller, self._units.context.party_id, seat_in(command))
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
        if job is not None:     # only a hint: the answer to the next check says whether the party is ready
            self._initiator.ask_again(unit, caller, job.job_id)
        return Answer()

    def _report(self, unit: UnitOfWork, command: Command) -> Answer:
        report = read_report(command.body)
        if report is None:
            return Answer(101, NOT_WELL_FORMED)
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
        asked, message = read_stop_request(command.body, command.argument), f"asked by party {caller}"
        if asked.reason is not None:
            reason, message = asked.reason, f"{message}: {asked.message}"
        is_user = reason in (Reason.STOPPED_BY_USER, Reason.PARTY_REVOKED)
        seat = next((str(party) for party in job.parties if party.party_id == caller), "")
        self._initiator.request_stop(unit, command.job_id, reason, message, is_user, seat)
        if asked.now:
            self._initiator.request_force_stop(unit, command.job_id)
        return standing_of(job) if job.is_final else Answer()

    def _ask_rerun(self, unit: UnitOfWork, command: Command, job: Job | None) -> Answer:
        """Rerun a job for another party, as FATE servers ask on behalf of their clients."""
        if job is None:
            return Answer(102, f"can not found job {command.job_id}")
        try:
            with unit.part():
                self._initiator.rerun(unit, command.job_id, read_rerun(command.body))
        except StorageFailed:
            raise
        except FlowError as error:
            return Answer(retcode_of(error), error.message)
        return Answer()

    def _capacity_notice(self, unit: UnitOfWork, command: Command, caller: str, job: Job | None) -> Answer:
        """Take the notice that a party has capacity for a waiting job; retcode 10 if the job has no use for it."""
        try:
            cores = read_capacity(command.body)
        except BadRequest as error:
            return Answer(retcode_of(error), error.message)
        if job is None or command.run not in (job.run, ANY_RUN) or not awaits_capacity(unit, job, caller):
            return Answer(NOT_EFFECTIVE, f"job {command.job_id} does not wait for capacity at party {caller}")
        free = tuple((tag, one.free) for tag, one in places_in(command.body).items())
        unit.pending = unit.pending.with_notice(CapacityNotice(job.job_id, caller, cores, free))
        return Answer()
