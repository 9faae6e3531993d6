"""Spans: what a server did for a request, a command or a job, from when to when, for a collector of traces.

A span is known only once it has ended, so each is short: a request, a command, a transition. A job of three days is
many of them, joined by the trace of the job. The parent of a span may have ended long ago, in another process or at
another party. All names, and all keys of attributes, are in this module or follow from the enums of the core; a span
has no parameters, tables, texts or people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import Protocol

from fate_flow.core.model.spec import Party

JOB_ID = "fate_flow.job.id"
ROLE, PARTY_ID = "fate_flow.party.role", "fate_flow.party.id"      # of the seat, the share or the worker
TASK, TASK_VERSION = "fate_flow.task.name", "fate_flow.task.version"
REASON = "fate_flow.reason"
PEER_ID = "fate_flow.peer.id"                                      # the party at the other end
RETCODE = "fate_flow.retcode"                                      # of FATE's envelope; absent: it succeeded
# Of the semantic conventions of OpenTelemetry:
METHOD, ROUTE, STATUS = "http.request.method", "http.route", "http.response.status_code"
RPC_SYSTEM, RPC_METHOD = "rpc.system.name", "rpc.method"
ERROR = "error.type"
FATE_FLOW = "fate_flow"


class SpanKind(Enum):
    INTERNAL = "internal"
    SERVER = "server"      # a request that was answered
    CLIENT = "client"      # a request that was sent


class StepName(Enum):
    """What is done for a job without a move of a status that would show it."""

    ROUND_BEGUN = "reservation round begun"
    ROUND_RESERVED = "reservation round: reserved"
    ROUND_FAILED = "reservation round: not reserved"
    WORKER_STARTED = "worker started"
    WORKER_ENDED = "worker ended"


@dataclass(frozen=True)
class Step:
    """One such thing. `span`: the id of its span, if others have to know it; `after`: of the span that it follows."""

    name: StepName
    job_id: str
    party: Party
    task: str = ""
    version: int = 0
    reason: str = ""
    span: str = ""
    after: str = ""


@dataclass(frozen=True)
class SpanId:
    """A span, as other spans name it."""

    trace: str             # 32 hex digits
    span: str              # 16 hex digits


@dataclass(frozen=True)
class Span:
    """A span that has ended."""

    name: str
    id: SpanId
    begun: int             # nanoseconds since the epoch
    ended: int
    parent: str = ""       # the id of a span of the same trace; empty: it has none
    links: tuple[SpanId, ...] = ()
    kind: SpanKind = SpanKind.INTERNAL
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    error: str = ""        # a class of errors; empty: it did not fail


class Spans(Protocol):
    """Where a process leaves its spans. Threads may share it; it neither waits nor raises."""

    @property
    def is_on(self) -> bool:
        """Return whether anybody wants spans: without, nobody needs to make them."""

    def add(self, span: Span) -> None:
        """Take a span. It may be lost, if the collector does not answer."""


class NoSpans:
    """Takes no spans: for commands and tests, and for servers without a collector."""

    is_on = False

    def add(self, span: Span) -> None: ...


def span_of(*names: str) -> str:
    """Return the id of the span that these names stand for: whoever knows the names need not be told it."""
    return sha256("\x1f".join(names).encode()).hexdigest()[:16]


def span_of_job(job_id: str, own_party_id: str) -> str:
    """Return the id of the span in which a party got its first seat in the job: the parent of what it does for the job
    later, at whichever of its seats."""
    return span_of("job", job_id, own_party_id)


def span_of_worker(worker_id: str) -> str:
    """Return the id of the span in which a worker was started; the worker is told it in its environment."""
    return worker_id[:16].rjust(16, "0")
