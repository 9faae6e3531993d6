"""Submitting a job, and checking it without a submit.

A submit waits until every party has accepted. This needs threads of other parties and this server's scheduler, but no
other request handler of this server. The number of submits and validations that wait at the same time is limited, so
that threads are always left for requests of other parties.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from fate_flow.core.model.errors import (
    Busy,
    JobNotFound,
    OperationFailed,
    PeerUnreachable,
    StorageFailed,
    StorageUnavailable,
)
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.wire.v1.retcodes import DecidedBefore
from fate_flow.records.operator_log.events import Event
from fate_flow.services.context.documents import ParsedJob
from fate_flow.services.context.space import check_space_for_client
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.initiator.unanswered import unanswered_text
from fate_flow.services.models.storing import note_chosen
from fate_flow.services.participant.admission import accept, check_early, check_keys, own_seats
from fate_flow.services.participant.stream_calls import StreamCalls
from fate_flow.services.use_cases.units import Units
from fate_flow.services.use_cases.who_asked import note_who_asked, record_tables_asked
from fate_flow.store.values import Document, Submission

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1      # seconds


class Submits:
    """New jobs of clients."""

    def __init__(
        self, units: Units, initiator: Coordinator, streams: StreamCalls, most_waiting: int, timeout: float,
        monotonic: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        """`most_waiting`: handlers that may wait for other parties at once; `timeout`: seconds that a submit waits."""
        self._units, self._initiator, self._streams = units, initiator, streams
        self._monotonic, self._sleep = monotonic, sleep
        self._slots = threading.Semaphore(most_waiting)
        self._timeout = timeout

    def submit(
        self, job_id: str, parsed: ParsedJob, request_id: str = "", by: str = "", whole: Collection[str] | None = None,
        trace: str = "",
    ) -> str:  # fmt: skip
        """Take a job, wait until every party has accepted it, and return its id.

        `by`: the client that has signed; `whole`: ids of the parties that get the whole document; None: all do;
        `trace`: of the request; empty: the job gets a new one.

        Raises BadDocument if this party cannot initiate the job; Refused, naming the party; OperationFailed if this
        party cannot open its streams; Busy; Conflict if the request id was used for other content.
        A refused submit leaves nothing at any party, and its request id is free again."""
        with self.waiting():
            check_early(self._units.context, parsed.spec)
            unopened = self._streams.why_not(parsed.spec, own_seats(self._units.context, parsed.spec))

            def take(unit: UnitOfWork) -> str:
                known = self._take(unit, job_id, parsed, request_id or job_id, by, whole, trace)
                if unopened and known == job_id:
                    raise OperationFailed(unopened)
                return known

            known = self._units.carry_out(take)
            decided = self._await_decision(known)
            if decided.retcode and known == job_id:
                self._forget(known)
        if decided.retcode:
            raise DecidedBefore(decided.retcode, decided.retmsg)
        self._units.context.record.emit(Event.SUBMITTED, job_id=known, model_id="")
        return known

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Take one of the slots for handlers that wait for other parties. Raises Busy if none is free."""
        if not self._slots.acquire(blocking=False):
            raise Busy("too many submits are waiting for other parties to accept; try again in a second")
        try:
            yield
        finally:
            self._slots.release()

    def examine(self, spec: JobSpec) -> None:
        """Check all that this server can check of a submit by itself, and store nothing.

        Raises BadDocument if this party cannot initiate the job; NoSpace if it takes nothing new; PermissionDenied if
        it lacks a key of another party; the errors of `accept` if it cannot take part."""
        check_space_for_client(self._units.context)
        check_early(self._units.context, spec)

        def check(unit: UnitOfWork) -> None:
            self._initiator.check_own(unit, spec)
            check_keys(unit, spec.initiator, spec)
            accept(unit, spec)

        self._units.carry_out(check)

    def why_not_opened(self, spec: JobSpec, seat: Party) -> str:
        """Return text about streams of the job that a worker of this party's seat cannot open now; empty if it can."""
        return self._streams.why_not(spec, (seat,))

    def _take(
        self, unit: UnitOfWork, job_id: str, parsed: ParsedJob, request_id: str, by: str, whole: Collection[str] | None,
        trace: str = "",
    ) -> str:  # fmt: skip
        is_begun_anew = unit.tx.job_here(job_id) is not None     # an earlier try was committed after all
        known = self._initiator.take_submit(unit, job_id, parsed, request_id, whole, trace, by)
        if known == job_id and not is_begun_anew:
            unit.note(Event.SUBMIT_ASKED, job_id=known, body=_summary(parsed.document))
            note_who_asked(unit, known, "submitted", by)
            record_tables_asked(unit, known, parsed.spec, own_seats(unit.context, parsed.spec), by)
            note_chosen(unit, known, parsed.chosen, parsed.spec.initiator)
            self._initiator.advance(unit, known)
        return known

    def _await_decision(self, job_id: str) -> Submission:
        deadline = self._monotonic() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            # The job is stored; a database that is gone for a moment does not change whether it is accepted.
            with suppress(StorageUnavailable):
                decided = self._submission(job_id)
                if decided is None:
                    message = f"job {job_id} was refused; the first submit with this request id got the reason"
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
        return self._units.context.read(lambda tx: tx.submission_of(job_id))

    def _forget(self, job_id: str) -> None:
        # If the database is gone, the next start removes the rest; the client must learn of the refusal now.
        with suppress(StorageFailed):
            self._units.context.write(lambda tx: tx.forget_submission(job_id), is_repeatable=True)

    def _give_up(self, job_id: str) -> Submission | str:
        """Return the decision if it came just in time; otherwise stop the job, and name the silent parties."""

        def give_up(unit: UnitOfWork) -> Submission | str:
            decided = unit.tx.submission_of(job_id)
            if decided is None or decided.retcode is None:
                unit.tx.forget_submission(job_id)
                decided = unit.tx.submission_of(job_id)     # there still: accepted since it was read (MySQL only)
            if decided is not None:
                return decided
            # The job may have been decided and forgotten since it was read: then nothing is left to stop.
            why = unanswered_text(unit.tx, job_id, f"within {self._timeout:g} s")
            with suppress(JobNotFound):
                self._initiator.request_stop(unit, job_id, Reason.PARTY_REFUSED, why, False, caused_by="")
            return why

        return self._units.carry_out(give_up)


def _summary(document: Document) -> str:
    text = json.dumps({"job_dsl": document.dsl, "job_runtime_conf": document.runtime_conf})
    return text if len(text) <= 20_000 else f"{text[:20_000]}..."
