"""Requests of clients about an existing job, carried out here or at its initiator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.errors import BadRequest, Conflict, JobNotFound
from fate_flow.core.model.job import Command, CommandKind, Hold, Job, JobKey
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import JobStatus
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest, StopRequest, read_rerun
from fate_flow.jobspec.parameters import Change
from fate_flow.services.context.recording import record_act
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.ends import release
from fate_flow.services.participant.parameters import Revised
from fate_flow.services.use_cases.units import Units
from fate_flow.services.use_cases.who_asked import note_who_asked

STOPS = {"canceled": Reason.STOPPED_BY_USER, "failed": Reason.TASK_FAILED, "timeout": Reason.JOB_TIMEOUT}
"""The reason of a stop, by the requested status."""


class Jobs:
    """Jobs that this party knows."""

    def __init__(self, units: Units, initiator: Coordinator) -> None:
        self._units, self._initiator = units, initiator

    def stop(self, job_id: str, status: str = "canceled", *, now: bool = False, by: str = "") -> str:
        """Ask for the end of a job, here or at its initiator; return text about what was done.

        `now` leaves its workers no time to finish, even if an earlier stop did. If the initiator cannot be reached,
        the request is sent again until it answers. Raises JobNotFound; BadRequest for an unknown status."""
        reason = STOPS.get(status)
        if reason is None:
            raise BadRequest(f"stop_status: {status!r} is not one of {', '.join(sorted(STOPS))}")
        return self._units.carry_out(lambda unit: self._stop(unit, job_id, status, reason, now, by))

    def _stop(self, unit: UnitOfWork, job_id: str, status: str, reason: Reason, now: bool, by: str) -> str:
        rows = unit.tx.jobs_here(job_id)
        if not rows:
            raise JobNotFound("can not found job")
        own = next((row for row in rows if row.is_initiator), None)
        shown = own or rows[0]
        if shown.is_final:          # retcode 0, as in FATE: the job is over, as was asked
            return f"job {job_id} is over already: it ended as {shown.status.value}; nothing was stopped"
        note_who_asked(unit, job_id, f"stop as {status}{' at once' if now else ''} requested", by)
        if own is not None:
            message = f"stopped by a user at party {self._units.context.party_id}"
            is_user = reason is Reason.STOPPED_BY_USER
            self._initiator.request_stop(unit, job_id, reason, message, is_user, str(own.party))
            if now:
                self._initiator.request_force_stop(unit, job_id)
        else:
            body = StopRequest(now).as_body()
            ask = Command(CommandKind.ASK_STOP, job_id, rows[0].initiator, rows[0].run, argument=status, body=body)
            unit.send(ask)
        return "stop job on this party success; stop job on all party success"

    def rerun(self, job_id: str, body: Mapping[str, Any], by: str = "") -> None:
        """Run an ended job again; `component_name` and `force` in the body select the tasks.

        Raises JobNotFound, BadRequest; Conflict if the job is not over or has nothing left to do."""
        request = read_rerun(body)

        def rerun(unit: UnitOfWork) -> None:
            self._initiator.rerun(unit, job_id, request)
            note_who_asked(unit, job_id, "rerun requested", by)

        self._units.carry_out(rerun, is_repeatable=False)

    def note_rerun_elsewhere(self, job_id: str, by: str) -> None:
        """Note that a client had the initiator, another party, run the job again."""
        self._units.carry_out(lambda unit: note_who_asked(unit, job_id, "rerun requested", by))

    def resume(self, job_id: str, by: str = "") -> None:
        """Continue a canceled job where it was stopped. Raises JobNotFound; Conflict if it is not canceled."""

        def resume(unit: UnitOfWork) -> None:
            self._initiator.rerun(unit, job_id, RerunRequest(), only=JobStatus.CANCELED)
            note_who_asked(unit, job_id, "resumed", by)

        self._units.carry_out(resume, is_repeatable=False)

    def preview_change(self, job_id: str, change: Change) -> Revised:
        """Return the job as it would be with other parameters, and write nothing.

        Raises the same errors as `Coordinator.preview_change`."""
        context = self._units.context
        return context.read(
            lambda tx: self._initiator.preview_change(UnitOfWork(context, tx, context.clock()), job_id, change)
        )

    def change_parameters(self, job_id: str, change: Change, base: int, by: str = "") -> Revised:
        """Change the parameters of a job at all parties. Raises the same errors as `Coordinator.change_parameters`."""

        def revise(unit: UnitOfWork) -> Revised:
            revised = self._initiator.change_parameters(unit, job_id, change, base)
            note_who_asked(unit, job_id, "parameters changed", by)
            return revised

        return self._units.carry_out(revise, is_repeatable=False)

    def set_priority(self, job_id: str, priority: int, by: str = "") -> None:
        """Set the priority of a waiting job. Raises JobNotFound if this party is not its initiator; Conflict if it
        does not wait."""

        def set_priority(unit: UnitOfWork) -> None:
            self._initiator.set_priority(unit, job_id, priority)
            note_who_asked(unit, job_id, f"priority {priority} requested", by)

        self._units.carry_out(set_priority)

    def hold(self, job_id: str, message: str, by: str) -> None:
        """Put a waiting job on hold: no reservation round. Raises JobNotFound; Conflict if the job does not wait."""

        def hold(unit: UnitOfWork) -> None:
            self._initiator.hold(unit, job_id, Hold(message, by, unit.now, unit.steady))
            record_act(unit, "hold requested", by, job_id, message)

        self._units.carry_out(hold)

    def release(self, job_id: str, by: str) -> None:
        """Release a job from its hold. Raises JobNotFound; Conflict if the job is not on hold."""

        def let_go(unit: UnitOfWork) -> None:
            self._initiator.let_go(unit, job_id, by)
            record_act(unit, "release from the hold requested", by, job_id)

        self._units.carry_out(let_go, is_repeatable=False)

    def describe(self, key: JobKey, notes: str, by: str = "") -> None:
        """Store this party's notes on a job. Raises JobNotFound."""

        def describe(unit: UnitOfWork) -> None:
            # The row is read first, because the statement of a write without a row would create a job's log folder.
            if unit.tx.job(key) is None or not unit.tx.describe(key, notes):
                raise JobNotFound(f"can not found {key}")
            record_act(unit, "notes changed", by, key.job_id, f"notes at {key.party}: {notes}")

        self._units.carry_out(describe)

    def return_resources(self, job_id: str, by: str = "") -> list[tuple[Job, bool]]:
        """Release what this party holds for a job that does not run; return each seat and whether it held something.

        Raises JobNotFound; Conflict if the job runs, because its end releases what it holds."""

        def give_back(unit: UnitOfWork) -> list[tuple[Job, bool]]:
            rows = unit.tx.jobs_here(job_id)
            if not rows:
                raise JobNotFound(f"can not found job {job_id}")
            if any(row.holds and row.status in (JobStatus.RUNNING, JobStatus.STOPPING) for row in rows):
                raise Conflict(
                    f"job {job_id} is running, and its end gives back what it holds: wait for that, or stop it "
                    f"(flow job stop -j {job_id})"
                )
            note_who_asked(unit, job_id, "release of what it holds requested", by)
            return [(row, release(unit, row)) for row in rows]

        return self._units.carry_out(give_back, is_repeatable=False)
