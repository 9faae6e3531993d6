"""The spans of a unit of work: one for each move that it has stored, and for each step that it has noted."""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from fate_flow.core.metrics.spans import (
    JOB_ID,
    PARTY_ID,
    REASON,
    ROLE,
    TASK,
    TASK_VERSION,
    Span,
    SpanId,
    Spans,
    Step,
    span_of_job,
)
from fate_flow.core.model.history import HistoryEntry, HistoryLevel
from fate_flow.core.model.spec import Party
from fate_flow.services.context.counting import LOCAL_ROLE
from fate_flow.services.context.pending import Pending

_AROUND: ContextVar[tuple[SpanId, ...]] = ContextVar("spans of what is carried out", default=())
_MOVES = frozenset({HistoryLevel.JOB, HistoryLevel.SEAT, HistoryLevel.TASK, HistoryLevel.PARTY_TASK})
"""Levels whose moves become spans. Those of workers are steps; the others are no moves."""


class HasPending(Protocol):
    """A unit of work."""

    pending: Pending


def did(unit: HasPending, step: Step) -> None:
    """Note what was done for a job; it becomes a span once the unit is stored."""
    unit.pending = unit.pending.with_step(step)


def begin_command(unit: HasPending) -> None:
    """Note that what follows is done for the next command of a request."""
    unit.pending = unit.pending.with_next_command()


@contextmanager
def within(*spans: SpanId) -> Iterator[None]:
    """Let what this thread stores in the block belong to these spans: of a request, or of its commands in their order.
    The trace of one that has no span is empty."""
    token = _AROUND.set(spans)
    try:
        yield
    finally:
        _AROUND.reset(token)


def jobs_of(pending: Pending) -> set[str]:
    """Return the jobs that spans of a unit would be about."""
    return {one.job_id for one in pending.moved} | {one.job_id for one in pending.steps}


def add_spans(
    spans: Spans, pending: Pending, traces: Mapping[str, str], own_party_id: str, begun: int, ended: int
) -> None:
    """Add the spans of a stored unit of work. `traces`: by job, of those that have one. Times are nanoseconds."""
    given: set[str] = set()

    def add(
        name: str, job_id: str, cause: SpanId | None, attributes: Mapping[str, str | int], own: str = "",
        after: str = "",
    ) -> None:  # fmt: skip
        trace = traces.get(job_id, "")
        if not trace:
            return
        parent = cause.span if cause is not None and cause.trace == trace else ""
        links = [SpanId(trace, after)] if after else []
        if cause is not None and cause.trace and not parent:
            links.append(cause)          # a request that has a trace of its own, such as a stop
        if own != (of_job := span_of_job(job_id, own_party_id)):
            parent = parent or of_job
        span_id = own if own and own not in given else secrets.token_hex(8)
        given.add(span_id)
        spans.add(Span(name, SpanId(trace, span_id), begun, ended, parent, tuple(links), attributes=attributes))

    for place, entry in enumerate(pending.moved):
        if _is_shown(entry, own_party_id):
            is_new = entry.level is HistoryLevel.JOB and not entry.old
            is_first = is_new and entry.job_id in pending.bound        # a party may have several seats
            own = span_of_job(entry.job_id, own_party_id) if is_first else ""
            shown = _attributes(entry.job_id, entry.party, entry.task, entry.version, entry.reason)
            cause = _cause([moves for moves, _ in pending.begins], place)
            add(f"{entry.level.value} {entry.new}", entry.job_id, cause, shown, own)
    for place, step in enumerate(pending.steps):
        cause = _cause([steps for _, steps in pending.begins], place)
        shown = _attributes(step.job_id, step.party, step.task, step.version, step.reason)
        add(step.name.value, step.job_id, cause, shown, step.span, step.after)


def _cause(begins: Sequence[int], place: int) -> SpanId | None:
    """Return the span that something belongs to: of its command, or of the request; None if there is none. `begins`:
    how many such things were there when each command began."""
    around = _AROUND.get()
    if begins and len(begins) == len(around):
        return around[bisect_right(begins, place) - 1] if place >= begins[0] else None
    return around[0] if len(around) == 1 else None


def _is_shown(entry: HistoryEntry, own_party_id: str) -> bool:
    """Return whether a move becomes a span here: a coordinator also has the shares of other parties."""
    if entry.level not in _MOVES or entry.new == entry.old:
        return False
    if entry.level is not HistoryLevel.PARTY_TASK or entry.party is None:
        return True
    return entry.party.party_id == own_party_id or entry.party.role == LOCAL_ROLE


def _attributes(job_id: str, party: Party | None, task: str, version: int, reason: str) -> dict[str, str | int]:
    found: dict[str, str | int] = {JOB_ID: job_id}
    if party is not None:
        found |= {ROLE: party.role, PARTY_ID: party.party_id}
    if task:
        found |= {TASK: task, TASK_VERSION: version}
    if reason:
        found[REASON] = reason
    return found
