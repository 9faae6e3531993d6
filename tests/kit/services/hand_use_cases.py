"""The use cases of a server of a test, without a scheduler behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import JobStatus
from fate_flow.services.context.pending import CapacityNotice
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.store.values import Document, Submission
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import DOCUMENT
from tests.kit.values import GUEST, JOB_ID, a_job


class Harness:
    """The use cases, and what they told the scheduler. Time passes only when it sleeps, and then `meanwhile`
    happens."""

    def __init__(self, server: HandServer | None = None, slots: int = 2, timeout: float = 30.0) -> None:
        self.server = server or HandServer("9999")
        self.wakeups: list[tuple[Any, ...]] = []
        self.informed_party, self.capacity_notices = "", list[CapacityNotice]()
        self.slept: list[float] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.use_cases = UseCases(self.server.context, self._wake, slots, timeout, lambda: sum(self.slept), self._sleep)

    def _wake(self, *described: Any) -> None:
        *common, self.informed_party, self.capacity_notices = described
        self.wakeups.append(tuple(common))

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.meanwhile()

    def submit(self, job_id: str, document: Document, request_id: str = "") -> str:
        """A submit of a client, which waits for its decision."""
        return self.use_cases.submits.submit(job_id, self.server.parsed(document), request_id)

    def examine(self, document: Document) -> None:
        self.use_cases.submits.examine(self.server.parsed(document).spec)

    def decide(self, retcode: int, message: str) -> None:
        """What the scheduler writes when the parties have answered."""
        with self.server.store.transaction() as tx:
            tx.decide_submission(JOB_ID, retcode, message)

    def submission(self) -> Submission | None:
        with self.server.store.reading() as tx:
            return tx.submission_of(JOB_ID)

    def forget_submission(self) -> None:
        with self.server.store.transaction() as tx:
            tx.forget_submission(JOB_ID)

    def with_job(self, status: JobStatus = JobStatus.WAITING, party: Party = GUEST, **fields: Any) -> Harness:
        with self.server.store.transaction() as tx:
            tx.add_job(a_job(status, party, **fields), DOCUMENT)
        return self

    def reason(self) -> Reason | None:
        return self.server.job(GUEST).reason
