"""An operator revokes or removes another party, while the server runs or not: none of its keys counts any more.

The gateway and the senders notice that within a second, and end open connections. Jobs with the party end in the normal
way; commands for them that the party would have to confirm are given up at their deadline.
"""

from __future__ import annotations

from fate_flow.core.access.key_list import KeyState, PartyKeys
from fate_flow.core.model.errors import Conflict, NotFound
from fate_flow.core.model.job import Job
from fate_flow.core.model.reasons import Reason, job_status_for
from fate_flow.core.text.phrases import counted
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.ports import Context
from fate_flow.services.context.recording import record_act_in
from fate_flow.services.context.unit_of_work import unit_of_work
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant.ends import ask_for_end, close_tasks, end_job_here
from fate_flow.services.participant.participant import Participant
from fate_flow.store.contract.transaction import Transaction

_MOST_COPIES = 100_000
_REASON = Reason.PARTY_REVOKED


class Revocations:
    """The operator's use cases about other parties, for a process outside the server."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._initiator = Coordinator(Participant())

    def revoke(self, party_id: str, why: str, by: str) -> tuple[str, ...]:
        """Refuse a party from now on, and end all jobs with it; return their ids. May be repeated.

        Raises NotFound if no key list of the party is here; Conflict if it was removed."""
        message = f"party {party_id} was revoked at party {self._context.party_id}: {why}"
        if self._context.write(lambda tx: self._move(tx, party_id, why, by)):
            self._context.record.emit(Event.DETECT_NOTE, text=f"{message} (by {by})")
        ended = self._context.read(lambda tx: _jobs_with(tx, party_id))
        for job_id in ended:
            self._context.retry(lambda job_id=job_id: self._end(job_id, party_id, message))  # type: ignore[misc]
        return ended

    def remove(self, party_id: str, by: str) -> None:
        """Forget a party, but for a mark: it can only come back by an invitation or with a compared fingerprint.

        Raises NotFound if nothing of it is here; Conflict while jobs with it run."""

        def remove(tx: Transaction) -> None:
            keys = _keys_of(tx, party_id)
            if open_jobs := _jobs_with(tx, party_id):
                advice = ("try again when it is" if keys.state is KeyState.REVOKED
                          else "revoke the party first (fate_flow party revoke)")
                raise Conflict(
                    f"{counted(len(open_jobs), 'job')} with party {party_id} is not over, for example {open_jobs[0]}: "
                    + advice
                )
            if not tx.move_party_keys(party_id, keys.state, KeyState.REMOVED, by, self._context.clock()):
                raise Conflict(f"the key list of party {party_id} was changed just now: look at it first")
            tx.drop_joined_party(party_id)
            record_act_in(self._context, tx, f"party {party_id} removed", by, "")

        self._context.write(remove)
        self._context.record.emit(Event.DETECT_NOTE, text=f"party {party_id} was removed (by {by})")

    def _move(self, tx: Transaction, party_id: str, why: str, by: str) -> bool:
        """Return whether the party was not revoked before."""
        keys = _keys_of(tx, party_id)
        if keys.state is KeyState.REVOKED:
            return False
        if not tx.move_party_keys(party_id, keys.state, KeyState.REVOKED, by, self._context.clock()):
            raise Conflict(f"the key list of party {party_id} was changed just now: look at it first")
        record_act_in(self._context, tx, f"party {party_id} revoked", by, why)
        return True

    def _end(self, job_id: str, party_id: str, message: str) -> None:
        with unit_of_work(self._context) as unit:
            rows = [row for row in unit.tx.jobs_here(job_id) if not row.is_final]
            own = next((row for row in rows if row.is_initiator), None)
            if own is not None:
                self._initiator.request_stop(unit, job_id, _REASON, message, True, str(own.party))
                self._initiator.advance(unit, job_id)
            elif rows and rows[0].initiator.party_id == party_id:
                for row in rows:
                    end_job_here(unit, row, _REASON, message, caused_by=str(row.party))
                    close_tasks(unit, row, job_status_for(_REASON))     # the initiator cannot send their ends
            elif rows:
                ask_for_end(unit, rows[0], _REASON, message)


def _keys_of(tx: Transaction, party_id: str) -> PartyKeys:
    keys = tx.party_keys(party_id)
    if keys is None:
        raise NotFound(f"no key list of party {party_id} is saved here")
    if keys.state is KeyState.REMOVED:
        raise Conflict(f"party {party_id} was removed here")
    return keys


def _jobs_with(tx: Transaction, party_id: str) -> tuple[str, ...]:
    """Return the ids of the unfinished jobs in which a party takes part, each once."""
    open_rows = (*tx.unfinished_jobs(), *tx.waiting_jobs())
    job_ids = dict.fromkeys((*(row.job_id for row in open_rows), *tx.copies_that_wait("", _MOST_COPIES)))
    return tuple(one for one in job_ids if any(_has(row, party_id) for row in tx.jobs_here(one) if not row.is_final))


def _has(job: Job, party_id: str) -> bool:
    return any(one.party_id == party_id for one in (job.initiator, *job.parties))
