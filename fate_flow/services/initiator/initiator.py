"""The coordinator: it takes submits, carries out plans, and handles answers and reports.

Every method runs in the unit of work that it is given. A command to the own party is carried out at once, by the
same code and with the same log lines as at any other party. A command to another party goes to the outbox, and its
answer comes back as an event.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import Answer, Command, Hold, Job, Report, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import Plan
from fate_flow.core.planning.plan import plan_job
from fate_flow.core.planning.queue import Place
from fate_flow.core.wire.v1.envelope import document_of, to_json
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest
from fate_flow.core.wire.v1.job_answers import free_cores_in, places_in
from fate_flow.core.wire.v1.paths import endpoint_of
from fate_flow.jobspec.parameters import Change
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.disclosure import command_for
from fate_flow.services.context.documents import ParsedJob
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator import lost_parties, reports, user_requests
from fate_flow.services.initiator.answers import Answers, is_to_ask_later
from fate_flow.services.initiator.job_view import view_of
from fate_flow.services.initiator.known_capacity import KnownCapacity
from fate_flow.services.initiator.plan_actions import PlanActions
from fate_flow.services.initiator.round_actions import ReservationRounds
from fate_flow.services.initiator.submission import check_own, take_submit
from fate_flow.services.participant.ends import end_job_here
from fate_flow.services.participant.next_run import rerun_as_asked
from fate_flow.services.participant.parameters import Revised, change_parameters, preview_change
from fate_flow.services.participant.participant import Participant

_MOST_STEPS = 64
"""The most plans for one job in one transaction. A job with many passed tasks needs more, and goes on in the next."""


class Coordinator:
    """The use cases of the party that decides for a job."""

    def __init__(self, party: Participant, owner: str = "") -> None:
        """`owner`: the process that begins reservation rounds; empty if this one begins none."""
        self._party = party
        self._capacity = KnownCapacity()
        self._actions = PlanActions(self._dispatch, ReservationRounds(owner, self._capacity))
        self._answers = Answers(self._dispatch, self._actions)

    # ------------------------------------------------------------------ plans

    def advance(self, unit: UnitOfWork, job_id: str, may_begin_round: bool = False) -> None:
        """Plan and carry out the next actions of this job, until there are none for now.

        Raises OperationFailed if a plan changes nothing and would be made again for ever."""
        last: Plan = ()
        for _ in range(_MOST_STEPS):
            job = unit.tx.job_here(job_id)
            if job is None:
                _settle_seats(unit, job_id)
                return
            plan = _plan(unit, job, may_begin_round)
            if not plan:
                return
            if plan == last:
                raise OperationFailed(f"the plan of job {job_id} does not settle: {plan[0]}")
            for action in plan:
                self._actions.carry_out(unit, job, action)
            last = plan
            may_begin_round = False  # one round only: if it ends at once, the queue decides about the next
        unit.wake_at(unit.steady, job_id)

    def _dispatch(self, unit: UnitOfWork, command: Command) -> None:
        """Carry out a command to the own party at once; send one to another party through the outbox."""
        own = unit.context.party_id
        if command.to.party_id not in (own, "0"):
            unit.send(command_for(unit.spec(command.job_id), command))
            return
        endpoint = f"/v1{endpoint_of(command)}"
        unit.note(Event.OWN_REQUEST, job_id=command.job_id, url=f"{unit.context.url}{endpoint}")
        answer = self._party.handle(unit, command, own)
        body = document_of(answer)
        unit.context.record.http_response(command.job_id, endpoint, to_json(body), body)
        self.on_answer(unit, command, answer)

    # ------------------------------------------------------------------ from users

    def take_submit(
        self, unit: UnitOfWork, job_id: str, parsed: ParsedJob, request_id: str, whole: Collection[str] | None = None,
        trace: str = "", by: str = "",
    ) -> str:  # fmt: skip
        """Take a job, and return its id; if the request id was used before, return the job id that it got then.

        `whole`: ids of the parties that get the whole document; None: all do; `by`: the client that has signed.
        Raises BadDocument if this party cannot initiate the job; Refused if this party itself cannot take part;
        Conflict if the request id was used for other content."""
        return take_submit(unit, self._party, self._dispatch, job_id, parsed, request_id, whole, trace, by)

    def check_own(self, unit: UnitOfWork, spec: JobSpec) -> None:
        """Check that this party may initiate the job and has a route to all its parties. Raises BadDocument."""
        check_own(unit, spec)

    def rerun(self, unit: UnitOfWork, job_id: str, request: RerunRequest, only: JobStatus | None = None) -> None:
        """Run an ended job again; `only`: only if it has ended with this status.

        Raises JobNotFound; BadRequest for an unknown component; Conflict if the job cannot run again or need not."""
        user_requests.begin_rerun(unit, self._actions, job_id, request, only)
        self.advance(unit, job_id)

    def preview_change(self, unit: UnitOfWork, job_id: str, change: Change) -> Revised:
        """Return the job as it would be with other parameters, and write nothing.

        Raises JobNotFound; Conflict or OperationFailed if its parameters cannot be changed now or here; BadRequest if
        the change is not possible."""
        return preview_change(unit, user_requests.that_may_begin_again(unit, job_id, "change"), change)

    def change_parameters(self, unit: UnitOfWork, job_id: str, change: Change, base: int) -> Revised:
        """Change the parameters; `base` is that of the preview. Raises the same errors as the preview, and Refused."""
        job = user_requests.that_may_begin_again(unit, job_id, "change")
        unit.touch(job_id)
        return change_parameters(unit, job, change, base, lambda command: self._dispatch(unit, command))

    def request_stop(
        self, unit: UnitOfWork, job_id: str, reason: Reason, message: str, by_user: bool, caused_by: str
    ) -> bool:
        """Request the end of the job; False if it has ended already. Raises JobNotFound."""
        return user_requests.request_stop(unit, job_id, reason, message, by_user, caused_by)

    def request_force_stop(self, unit: UnitOfWork, job_id: str) -> None:
        """Request that draining workers of this job are killed. Call it after the stop was requested."""
        user_requests.request_force_stop(unit, job_id)

    def set_priority(self, unit: UnitOfWork, job_id: str, priority: int) -> None:
        """Set the priority of a waiting job. Raises JobNotFound; Conflict if the job does not wait."""
        user_requests.set_priority(unit, job_id, priority)

    def hold(self, unit: UnitOfWork, job_id: str, hold: Hold) -> None:
        """Put a waiting job on hold: no reservation round until it is released. Raises JobNotFound; Conflict if the job
        does not wait."""
        user_requests.hold_job(unit, job_id, hold)

    def let_go(self, unit: UnitOfWork, job_id: str, by: str) -> None:
        """Release a job from its hold. Raises JobNotFound; Conflict if the job is not on hold."""
        user_requests.let_go(unit, job_id, by)

    def ask_again(self, unit: UnitOfWork, party_id: str, job_id: str = "") -> None:
        """Let the queue ask a party again that may be ready now: for the head that waits for it, and for this job."""
        user_requests.ask_again(unit, party_id, job_id)

    # ------------------------------------------------------------------ from other parties

    def on_answer(self, unit: UnitOfWork, command: Command, answer: Answer) -> None:
        """Handle the answer of another party, or of the own one, to a command."""
        self._answers.take(unit, command, answer)

    def must_ask_later(self, unit: UnitOfWork, command: Command, answer: Answer) -> bool:
        """Return whether the party cannot take the command yet, so that it must be sent again."""
        return is_to_ask_later(unit, command, answer)

    def take_report(self, unit: UnitOfWork, report: Report) -> bool:
        """Take a party's report on its share; False if it is out of date: another version, incarnation or order."""
        return reports.take_report(unit, report)

    def take_report_of(self, unit: UnitOfWork, body: Mapping[str, Any], caller: str) -> None:
        """Take a report that came with the answer to a heartbeat, like one that the party sends itself."""
        reports.take_report_of(unit, body, caller)

    def uncollected(self, unit: UnitOfWork) -> set[TaskKey]:
        """Return the shares that run at plain v1 parties."""
        return reports.uncollected(unit)

    def give_up(self, unit: UnitOfWork, command: Command) -> bool:
        """Drop a command that was not answered for very long; return False if its job is not over here.

        A seat that was to learn the end of its job becomes unconfirmed, and is told when its party answers again."""
        return lost_parties.give_up(unit, command)

    def tell_again(self, unit: UnitOfWork, party_id: str) -> None:
        """Tell a party that answers again the ends of jobs that it never confirmed."""
        lost_parties.tell_again(unit, party_id)

    # ------------------------------------------------------------------ capacity of other parties

    @property
    def free(self) -> dict[Place, int]:
        """The free cores in the last answers of other parties."""
        return self._capacity.free

    def note_free(self, party_id: str, data: object) -> None:
        """Note the free cores that an answer of a party states."""
        self._capacity.note(party_id, free_cores_in(data), {tag: one.free for tag, one in places_in(data).items()})

    def known_free(self, unit: UnitOfWork) -> dict[Place, int]:
        """Return the free cores, as far as they are known, with those of this party."""
        return self._capacity.with_own(unit)

    def take_capacity_notice(self, unit: UnitOfWork, notice: CapacityNotice) -> None:
        """Take the notice that a party has capacity for a waiting job, so that the queue looks at the job at once."""
        self._capacity.take_notice(unit, notice)


def _plan(unit: UnitOfWork, job: Job, may_begin_round: bool) -> Plan:
    spec = unit.spec(job.job_id)
    if spec is None:
        return ()
    # Tasks are not read while the job waits in the queue: there is nothing to decide about them.
    queues = job.status in (JobStatus.READY, JobStatus.WAITING)
    return plan_job(view_of(unit, job, spec, () if queues else unit.tx.tasks(job.job_id), may_begin_round))


def _settle_seats(unit: UnitOfWork, job_id: str) -> None:
    """End the rows of another party's job that were told to end and have drained."""
    for job in unit.tx.jobs_here(job_id):
        if job.status is JobStatus.STOPPING and job.stop_by and job.reason is not None:
            end_job_here(unit, job, job.reason, job.message)
            rerun_as_asked(unit, job)
