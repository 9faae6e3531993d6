"""What the initiator does: takes a submit, carries out plans, handles answers and reports.

Every method runs inside the unit of work it is given. A command to the own party is carried out at once, by the
same code and with the same records as at any other party; a command to another one goes to the outbox, and its answer
comes back as an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import Answer, Command, Hold, Job, Report, TaskKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import Plan
from fate_flow.core.planning.plan import plan_job
from fate_flow.core.planning.rerun import RerunRequest
from fate_flow.jobspec.parameters import Change
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator import lost_parties, reports, user_requests
from fate_flow.services.initiator.answers import Answers, is_to_ask_later
from fate_flow.services.initiator.endpoints import body_of, endpoint_of, to_json
from fate_flow.services.initiator.job_view import view_of
from fate_flow.services.initiator.known_capacity import KnownCapacity
from fate_flow.services.initiator.plan_actions import PlanActions
from fate_flow.services.initiator.round_actions import ReservationRounds
from fate_flow.services.initiator.submission import check_own, take_submit
from fate_flow.services.participant.ends import end_job_here
from fate_flow.services.participant.next_run import rerun_as_asked
from fate_flow.services.participant.parameters import Revised, change_parameters, preview_change
from fate_flow.services.participant.participant import Participant
from fate_flow.store.values import Document

_MOST_STEPS = 64
"""Of one job in one transaction; a job of many passed tasks takes more, and goes on in the next one."""


class Coordinator:
    """The use cases of the party that decides for a job."""

    def __init__(self, party: Participant, owner: str = "") -> None:
        """`owner`: the process whose reservation rounds these are; empty where none are begun."""
        self._party = party
        self._capacity = KnownCapacity()
        self._actions = PlanActions(self._dispatch, ReservationRounds(owner, self._capacity))
        self._answers = Answers(self._dispatch, self._actions)

    # ------------------------------------------------------------------ plans

    def advance(self, unit: UnitOfWork, job_id: str, may_begin_round: bool = False) -> None:
        """Carry out what is to happen next about this job until nothing is left to do at once.

        Raises OperationFailed for a plan that changes nothing and would be made again for ever."""
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
            may_begin_round = False  # one reservation round; when it ends at once, the next one is the queue's to give
        unit.wake_at(unit.steady)

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

    # ------------------------------------------------------------------ from users

    def submit(self, unit: UnitOfWork, job_id: str, document: Document, request_id: str) -> str:
        """Take a job: its id, or the one that this request id got before.

        Raises BadDocument for a document that is wrong, Refused when this party itself cannot take part, Conflict when
        the request id was used for other content."""
        return take_submit(unit, self._party, self._dispatch, job_id, document, request_id)

    def check_own(self, unit: UnitOfWork, spec: JobSpec) -> None:
        """Raises BadDocument for a job that this party may not initiate, or with a party it knows no way to."""
        check_own(unit, spec)

    def rerun(self, unit: UnitOfWork, job_id: str, request: RerunRequest, only: JobStatus | None = None) -> None:
        """Have an ended job begin again; `only`: when it has ended so.

        Raises JobNotFound, BadRequest for a component that it has not, Conflict for a job that may not or need not."""
        user_requests.begin_rerun(unit, self._actions, job_id, request, only)
        self.advance(unit, job_id)

    def preview_change(self, unit: UnitOfWork, job_id: str, change: Change) -> Revised:
        """What a job would be with other parameters; nothing is written.

        Raises JobNotFound; Conflict, OperationFailed for a job whose parameters cannot be changed now or here;
        BadRequest for what cannot be changed, or not so."""
        return preview_change(unit, user_requests.that_may_begin_again(unit, job_id, "change"), change)

    def change_parameters(self, unit: UnitOfWork, job_id: str, change: Change, base: int) -> Revised:
        """The job has them from now on; `base` is that of the preview. Raises as that, and Refused."""
        job = user_requests.that_may_begin_again(unit, job_id, "change")
        unit.touch(job_id)
        return change_parameters(unit, job, change, base, lambda command: self._dispatch(unit, command))

    def request_stop(
        self, unit: UnitOfWork, job_id: str, reason: Reason, message: str, by_user: bool, caused_by: str
    ) -> bool:
        """Ask that the job ends; False when it has ended already. Raises JobNotFound."""
        return user_requests.request_stop(unit, job_id, reason, message, by_user, caused_by)

    def request_force_stop(self, unit: UnitOfWork, job_id: str) -> None:
        """What drains for the end of this job is to be killed now. To be called once its stop is asked for."""
        user_requests.request_force_stop(unit, job_id)

    def set_priority(self, unit: UnitOfWork, job_id: str, priority: int) -> None:
        """Where a waiting job stands from now on. Raises JobNotFound, Conflict for one that does not wait."""
        user_requests.set_priority(unit, job_id, priority)

    def hold(self, unit: UnitOfWork, job_id: str, hold: Hold) -> None:
        """No reservation round for a waiting job until it is released. Raises JobNotFound, Conflict for one that does
        not wait."""
        user_requests.hold_job(unit, job_id, hold)

    def let_go(self, unit: UnitOfWork, job_id: str, by: str) -> None:
        """Raises JobNotFound, Conflict for a job that nobody holds."""
        user_requests.let_go(unit, job_id, by)

    def ask_again(self, unit: UnitOfWork, party_id: str, job_id: str = "") -> None:
        """A party may be ready now for what it was not ready for: the first that waits for it, and this job."""
        user_requests.ask_again(unit, party_id, job_id)

    # ------------------------------------------------------------------ from other parties

    def on_answer(self, unit: UnitOfWork, command: Command, answer: Answer) -> None:
        """What another party, or the own one, said to a command of ours."""
        self._answers.take(unit, command, answer)

    def must_ask_later(self, unit: UnitOfWork, command: Command, answer: Answer) -> bool:
        """Whether the party cannot take the command yet, and is to be asked the same again."""
        return is_to_ask_later(unit, command, answer)

    def take_report(self, unit: UnitOfWork, report: Report) -> bool:
        """A party says how its share stands. False when that is out of date: another version, incarnation or order."""
        return reports.take_report(unit, report)

    def take_report_of(self, unit: UnitOfWork, body: Mapping[str, Any], caller: str) -> None:
        """A report that came with the answer to a heartbeat: taken as one that this party sends itself."""
        reports.take_report_of(unit, body, caller)

    def uncollected(self, unit: UnitOfWork) -> set[TaskKey]:
        """What parties that speak plain v1 were told to run and have not ended."""
        return reports.uncollected(unit)

    def give_up(self, unit: UnitOfWork, command: Command) -> bool:
        """Drop a command that nobody has answered for very long; False while the job it is about is not over here.

        A seat that was to learn the end of its job stays unconfirmed, and is told when its party answers again."""
        return lost_parties.give_up(unit, command)

    def tell_again(self, unit: UnitOfWork, party_id: str) -> None:
        """A party answers that has never said that it knows how these jobs ended."""
        lost_parties.tell_again(unit, party_id)

    # ------------------------------------------------------------------ capacity of other parties

    @property
    def free(self) -> dict[str, int]:
        """By other party: the cores that its last answer said are free."""
        return self._capacity.free

    def known_free(self, unit: UnitOfWork) -> dict[str, int]:
        """By party: the cores that are free there, as far as they are known."""
        return self._capacity.with_own(unit)

    def take_capacity_notice(self, unit: UnitOfWork, notice: CapacityNotice) -> None:
        """A party has capacity for a job that waits for it: the queue looks at it at once."""
        self._capacity.take_notice(unit, notice)


def _plan(unit: UnitOfWork, job: Job, may_begin_round: bool) -> Plan:
    spec = unit.spec(job.job_id)
    if spec is None:
        return ()
    # Tasks are not read while the job only queues: nothing about them is to be decided.
    queues = job.status in (JobStatus.READY, JobStatus.WAITING)
    return plan_job(view_of(unit, job, spec, () if queues else unit.tx.tasks(job.job_id), may_begin_round))


def _settle_seats(unit: UnitOfWork, job_id: str) -> None:
    """Rows of a job that somebody else decides: one that was told its end takes it when it has drained."""
    for job in unit.tx.jobs_here(job_id):
        if job.status is JobStatus.STOPPING and job.stop_by and job.reason is not None:
            end_job_here(unit, job, job.reason, job.message)
            rerun_as_asked(unit, job)
