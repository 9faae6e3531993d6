"""The initiator of a job: it submits and advances, and other parties answer, when the test says so."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fate_flow.core.model.job import Answer, Command, Report
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus, SeatStatus, TaskStatus
from fate_flow.services.initiator.initiator import Coordinator
from fate_flow.services.participant import participant as participant
from fate_flow.services.participant.participant import Participant
from tests.kit.job_documents import BOTH
from tests.kit.services.ahead import drop_what_goes_ahead
from tests.kit.services.hand_server import HandServer
from tests.kit.values import GUEST, HOST, JOB_ID


class Initiator(HandServer):
    """The server of guest 9999; what other parties would answer is said by the test."""

    def __init__(self, **server: Any) -> None:
        super().__init__("9999", **server)
        self.side = Coordinator(Participant(), "owner")

    def submit(
        self, document: Any = BOTH, request_id: str = JOB_ID, job_id: str = JOB_ID,
        whole: Collection[str] | None = None, asks_ahead: bool = False,
    ) -> str:  # fmt: skip
        """`whole`: the parties that get the whole document; None: all do. `asks_ahead`: another party is asked to
        reserve in the request with `create`."""
        parsed = self.parsed(document)
        with self.unit() as unit:
            known = self.side.take_submit(unit, job_id, parsed, request_id, whole)
            self.side.advance(unit, known)
            if not asks_ahead:
                drop_what_goes_ahead(unit.tx)
        return known

    def advance(self, may_begin_round: bool = False) -> None:
        with self.unit() as unit:
            self.side.advance(unit, JOB_ID, may_begin_round)

    def answer(self, kind: K, answer: Answer | None = None, to: Party = HOST) -> Command:
        """Another party answers the oldest command of this kind, and the initiator goes on."""
        sent = next(one for one in self.outbox() if one.kind is kind and one.to == to)
        with self.unit() as unit:
            assert unit.tx.take_command(sent.id)
            self.side.on_answer(unit, sent, answer or Answer())
            self.settle(unit)
        return sent

    def sent(self) -> list[str]:
        return [f"{one.to.party_id} {one.kind.value} {one.argument}".strip() for one in self.outbox()]

    def seat(self, party: Party = HOST) -> SeatStatus:
        with self.store.reading() as tx:
            return next(seat.status for seat in tx.seats(JOB_ID) if seat.party == party)

    def submission(self) -> Any:
        with self.store.reading() as tx:
            return tx.submission_of(JOB_ID)

    @property
    def status(self) -> JobStatus:
        return self.job(GUEST).status


def accepted(**server: Any) -> Initiator:
    guest = Initiator(**server)
    guest.submit()
    guest.answer(K.CREATE, Answer(data={"extensions": {}}))
    guest.answer(K.STATUS)
    return guest


def running(**server: Any) -> Initiator:
    guest = accepted(**server)
    guest.advance(may_begin_round=True)
    for kind in (K.CHECK, K.APPLY, K.START):
        guest.answer(kind)
    return guest


def report(guest: Initiator, status: TaskStatus, **fields: Any) -> bool:
    """The host says how its share stands."""
    with guest.unit() as unit:
        task = guest.task("work_0", HOST)
        said = Report(task.key, task.incarnation, status, **{"start_time": 5, "end_time": 9, **fields})
        taken = guest.side.take_report(unit, said)
        guest.settle(unit)
    return taken
