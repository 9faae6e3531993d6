"""The span of a command between parties: at the sender for each try, and at the receiver."""

from __future__ import annotations

from fate_flow.core.metrics.spans import (
    FATE_FLOW,
    JOB_ID,
    PARTY_ID,
    PEER_ID,
    RETCODE,
    ROLE,
    RPC_METHOD,
    RPC_SYSTEM,
    TASK,
    TASK_VERSION,
    Span,
    SpanId,
    SpanKind,
    span_of_job,
)
from fate_flow.core.model.job import Answer, Command


def sent_span(
    command: Command, span: str, peer_id: str, own_party_id: str, begun: int, ended: int, answer: Answer | None,
    error: str = "",
) -> Span:  # fmt: skip
    """Return the span of one try to send a command. `answer`: None if there was none, but this class of `error`."""
    return Span(
        f"send {command.kind.value}", SpanId(command.trace, span), begun, ended,
        span_of_job(command.job_id, own_party_id), kind=SpanKind.CLIENT,
        attributes=_attributes(command, peer_id, answer), error=error,
    )  # fmt: skip


def received_span(
    command: Command, span: str, sender_span: str, caller: str, begun: int, ended: int, answer: Answer | None,
    error: str = "",
) -> Span:  # fmt: skip
    """Return the span of a command that was carried out. `sender_span`: the id of the sender's; empty: not known.
    `answer`: None if it was not carried out, because of this class of `error`."""
    return Span(
        f"receive {command.kind.value}", SpanId(command.trace, span), begun, ended, sender_span, kind=SpanKind.SERVER,
        attributes=_attributes(command, caller, answer), error=error,
    )  # fmt: skip


def _attributes(command: Command, peer_id: str, answer: Answer | None) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        RPC_SYSTEM: FATE_FLOW, RPC_METHOD: command.kind.value, PEER_ID: peer_id, JOB_ID: command.job_id,
        ROLE: command.to.role, PARTY_ID: command.to.party_id,
    }  # fmt: skip
    if command.task:
        found |= {TASK: command.task, TASK_VERSION: command.version}
    if answer is not None and not answer.is_ok:
        found[RETCODE] = answer.retcode
    return found
