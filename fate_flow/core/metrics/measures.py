"""What a server counts and times while it works, for `/metrics`: the names, and the values that each label may have.

Every label has a closed set of values: those of an enum, of HTTP, or the parties to which there is a route
(`tests/unit/api/monitoring/test_closed_labels.py` names them). So the number of series does not grow with the jobs, the
callers or the time. Names follow Kueue where they mean the same.

What can be read in the database at any moment is not counted here: `store/views/server_state.py` reads that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fate_flow.core.model.job import Blocker


@dataclass(frozen=True)
class Measure:
    """A counter; or a histogram, if it has buckets: the upper bounds, in the unit of its name, without infinity."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_REQUEST = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)
_DATABASE = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0)
_WAIT = (0.1, 0.5, 1.0, 5.0, 30.0, 120.0, 600.0, 3600.0, 21600.0, 86400.0)

HTTP_REQUESTS = Measure(
    "fate_flow_http_requests", "Requests that this server has answered, by API and HTTP status.", ("api", "code")
)
HTTP_SECONDS = Measure(
    "fate_flow_http_request_duration_seconds", "Time until the answer of a request began.", ("api",), _REQUEST
)
PEER_REQUESTS = Measure(
    "fate_flow_peer_requests", "Requests to the server of another party, by what came of them.", ("peer", "outcome")
)
PEER_SECONDS = Measure(
    "fate_flow_peer_request_duration_seconds", "Time of requests that another party has answered.", ("peer",), _REQUEST
)
EXCHANGE_BYTES = Measure(
    "fate_flow_exchange_bytes", "Bytes of messages between the workers of two parties.", ("peer", "direction")
)
JOB_ENDS = Measure(
    "fate_flow_job_ends", "Seats of this party in jobs that ended, by status and reason.", ("role", "status", "reason")
)
TASK_ENDS = Measure(
    "fate_flow_task_ends", "Shares of this party in attempts of tasks that ended, by status and reason.",
    ("role", "status", "reason"),
)  # fmt: skip
WORKER_ENDS = Measure("fate_flow_worker_ends", "Workers of this party that ended, by reason.", ("reason",))
ADMISSION_SECONDS = Measure(
    "fate_flow_admission_wait_time_seconds",
    "Time from the moment when a job of this coordinator began to wait until it ran, with cores at every party.",
    (), _WAIT,
)  # fmt: skip
RESERVATION_ROUNDS = Measure(
    "fate_flow_reservation_rounds",
    "Rounds in which this coordinator asked all parties of a job for its cores, by what came of them.", ("outcome",),
)  # fmt: skip
SCHEDULER_SECONDS = Measure(
    "fate_flow_scheduler_step_duration_seconds", "Time that one step of the scheduler's loop took.", (), _REQUEST
)
DATABASE_SECONDS = Measure(
    "fate_flow_database_transaction_duration_seconds", "Time that a transaction of a use case took.", ("kind",),
    _DATABASE,
)  # fmt: skip
NOTIFICATIONS = Measure(
    "fate_flow_notifications", "Notifications that were sent, tried without success, or dropped.",
    ("channel", "outcome"),
)  # fmt: skip

MEASURES = (
    HTTP_REQUESTS, HTTP_SECONDS, PEER_REQUESTS, PEER_SECONDS, EXCHANGE_BYTES, JOB_ENDS, TASK_ENDS, WORKER_ENDS,
    ADMISSION_SECONDS, RESERVATION_ROUNDS, SCHEDULER_SECONDS, DATABASE_SECONDS, NOTIFICATIONS,
)  # fmt: skip

SENT, RECEIVED = "sent", "received"
READ, WRITE = "read", "write"
ANSWERED = "answered"
NO_PEER = "other"            # in place of a party to which there is no route
BLOCKED_BY = {
    Blocker.CAPACITY: "capacity", Blocker.SIZE: "size", Blocker.ANSWER: "party", Blocker.APPROVAL: "approval",
}  # fmt: skip
"""Why a party did not reserve, in the words of metrics."""
RESERVED, GIVEN_UP = "reserved", "given_up"
ROUND_OUTCOMES = (RESERVED, *BLOCKED_BY.values(), GIVEN_UP)
"""How a round ends: with cores at all parties, by a party that did not reserve, or because the job ended meanwhile."""


class Measures(Protocol):
    """Where a process counts. Threads may share it; a lost count must never end what is counted."""

    def count(self, measure: Measure, *labels: str, by: float = 1.0) -> None:
        """Add to a counter."""

    def observe(self, measure: Measure, *labels: str, value: float) -> None:
        """Add a value to a histogram."""


class Unmeasured:
    """Counts nothing: for commands and tests."""

    def count(self, measure: Measure, *labels: str, by: float = 1.0) -> None: ...

    def observe(self, measure: Measure, *labels: str, value: float) -> None: ...
