"""Requests of operators about all waiting jobs of this party."""

from __future__ import annotations

from fate_flow.core.model.errors import Conflict
from fate_flow.core.model.job import Command, CommandKind, Hold
from fate_flow.core.model.reasons import Reason
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.recording import record_act
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.use_cases.units import Units
from fate_flow.services.use_cases.who_asked import note_who_asked


class Queue:
    """The waiting jobs, and whether this party takes new reservations."""

    def __init__(self, units: Units, initiator: Coordinator) -> None:
        self._units, self._initiator = units, initiator

    def hold_intake(self, message: str, by: str) -> None:
        """Put the party on hold: it reserves only for jobs that hold a reservation already."""

        def hold(unit: UnitOfWork) -> None:
            found = Hold(message, by, unit.now, unit.steady)
            unit.tx.hold_intake(found)
            record_act(unit, "hold of the party requested", by, text=message)
            text = f"party {self._units.context.party_id} takes no new reservations: {found.text}"
            unit.note(Event.DETECT_NOTE, text=text)

        self._units.carry_out(hold)

    def release_intake(self, by: str) -> None:
        """End the hold, and let waiting jobs ask again at once. Raises Conflict if the party is not on hold."""

        def release(unit: UnitOfWork) -> None:
            party_id = self._units.context.party_id
            if not unit.tx.release_intake():
                raise Conflict(f"party {party_id} is not on hold")
            record_act(unit, "release of the party requested", by)
            unit.note(Event.DETECT_NOTE, text=f"party {party_id} takes reservations: released by {by}")
            self._initiator.ask_again(unit, party_id)
            for job in unit.tx.others_waiting():
                if not job.is_plain_v1:
                    unit.send(Command(CommandKind.LOOK_AGAIN, job.job_id, job.initiator, job.run))

        self._units.carry_out(release, is_repeatable=False)

    def clean_queue(self, by: str = "") -> dict[str, int]:
        """Cancel every waiting job of this initiator; return 0 for each job id."""

        def clean(unit: UnitOfWork) -> dict[str, int]:
            found = {}
            for job in unit.tx.waiting_jobs():
                note_who_asked(unit, job.job_id, "cleaning of the queue requested", by)
                self._initiator.request_stop(
                    unit, job.job_id, Reason.QUEUE_CLEANED, "the queue was cleaned", True, str(job.party)
                )
                found[job.job_id] = 0
            return found

        return self._units.carry_out(clean)
