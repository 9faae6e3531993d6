"""What clients ask of a job that exists, here or at its initiator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.errors import BadRequest, Conflict, JobNotFound
from fate_flow.core.model.grammar import check_component_name, shown
from fate_flow.core.model.job import Command, CommandKind, Hold, Job, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.rerun import RerunRequest
from fate_flow.jobspec.parameters import Change
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.ends import release
from fate_flow.services.participant.parameters import Revised
from fate_flow.services.use_cases.units import Units

STOPS = {"canceled": Reason.STOPPED_BY_USER, "failed": Reason.TASK_FAILED, "timeout": Reason.JOB_TIMEOUT}
"""The reason of a stop that is asked for with this status."""
_WHOLE_PIPELINE = "pipeline"      # FATE's word for no component in particular


class Jobs:
    """Jobs that this party knows."""

    def __init__(self, units: Units, initiator: Coordinator) -> None:
        self._units, self._initiator = units, initiator

    def stop(self, job_id: str, status: str = "canceled", *, now: bool = False) -> str:
        """Ask for the end of a job, here or at its initiator: what was done, as text.

        `now` leaves its workers no time to finish, also when an earlier stop did. An initiator that cannot be told
        now will be. Raises JobNotFound."""
        reason = STOPS.get(status)
        if reason is None:
            raise BadRequest(f"stop_status: {status!r} is not one of {', '.join(sorted(STOPS))}")
        return self._units.carry_out(lambda unit: self._stop(unit, job_id, status, reason, now))

    def _stop(self, unit: UnitOfWork, job_id: str, status: str, reason: Reason, now: bool) -> str:
        rows = unit.tx.jobs_here(job_id)
        if not rows:
            raise JobNotFound("can not found job")
        own = next((row for row in rows if row.is_initiator), None)
        shown = own or rows[0]
        if shown.is_final:          # 0 all the same: FATE answers so, and what was asked for is true
            return f"job {job_id} is over already: it ended as {shown.status.value}; nothing was stopped"
        if own is not None:
            message = f"stopped by a user at party {self._units.context.party_id}"
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
        self._units.carry_out(lambda unit: self._initiator.rerun(unit, job_id, request), is_repeatable=False)

    def resume(self, job_id: str) -> None:
        """Have a canceled job go on where it was. Raises JobNotFound, Conflict for a job that is not canceled."""
        self._units.carry_out(
            lambda unit: self._initiator.rerun(unit, job_id, RerunRequest(), only=JobStatus.CANCELED),
            is_repeatable=False
        )

    def preview_change(self, job_id: str, change: Change) -> Revised:
        """What a job would be with other parameters; nothing is written. Raises as `Coordinator.preview_change`."""
        context = self._units.context
        return context.read(
            lambda tx: self._initiator.preview_change(UnitOfWork(context, tx, context.clock()), job_id, change)
        )

    def change_parameters(self, job_id: str, change: Change, base: int) -> Revised:
        """The job has them from now on, at all parties. Raises as `Coordinator.change_parameters`."""
        return self._units.carry_out(
            lambda unit: self._initiator.change_parameters(unit, job_id, change, base), is_repeatable=False
        )

    def set_priority(self, job_id: str, priority: int) -> None:
        """Raises JobNotFound where this is not its initiator, Conflict for a job that does not wait."""
        self._units.carry_out(lambda unit: self._initiator.set_priority(unit, job_id, priority))

    def hold(self, job_id: str, message: str, by: str) -> None:
        """No reservation round for a waiting job. Raises JobNotFound, Conflict for a job that does not wait."""
        self._units.carry_out(lambda unit: self._initiator.hold(unit, job_id, Hold(message, by, unit.now, unit.steady)))

    def release(self, job_id: str, by: str) -> None:
        """Raises JobNotFound, Conflict for a job that nobody holds."""
        self._units.carry_out(lambda unit: self._initiator.let_go(unit, job_id, by), is_repeatable=False)

    def describe(self, key: JobKey, notes: str) -> None:
        """Notes on a job, as this party keeps them. Raises JobNotFound."""

        def describe(unit: UnitOfWork) -> None:
            # Looked for first: a write that finds no row would leave its statement in the log of a job that is none.
            if unit.tx.job(key) is None or not unit.tx.describe(key, notes):
                raise JobNotFound(f"can not found {key}")

        self._units.carry_out(describe)

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

        return self._units.carry_out(give_back, is_repeatable=False)


def read_rerun_request(body: Mapping[str, Any]) -> RerunRequest:
    """What a client wants of a rerun. Raises BadRequest."""
    force, component = body.get("force"), body.get("component_name")
    if force is not None and not isinstance(force, bool):
        raise BadRequest(f"force: {shown(force)} is neither true nor false")
    if component in (None, "", _WHOLE_PIPELINE):
        return RerunRequest(force=bool(force))
    return RerunRequest(check_component_name(component), bool(force))
