"""Which party may send which statement about a job: one table, and one function that every route calls.

The first `create` binds a job id to its initiator, its parties and the digest of its document. Every later statement
of another party about the job is checked against this binding. See docs/explanation/authority.md.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from fate_flow.core.model.job import CommandKind
from fate_flow.core.model.spec import Party

PARTY_0 = "0"
"""In a document, this party id means the server that the document is submitted to."""


@dataclass(frozen=True)
class JobBinding:
    """What a job id is bound to at this party; one binding for all seats of the party in the job."""

    job_id: str
    initiator: Party
    parties: frozenset[Party]
    digest: str                          # of the current document
    revision: int = 0                    # how often its parameters were changed


class Query(Enum):
    """A statement of another party that is not a command."""

    VALIDATE = "validate"
    HEARTBEAT = "heartbeat"
    HISTORY = "history"
    INTAKE = "intake"
    OUTPUT_TABLE = "output table"
    TASK_LOG = "task log"
    RECORD = "record"                    # a checkpoint of the sender's log, or the question which one is held here
    DELIVER = "exchange deliver"         # a chunk for the worker of a task
    STREAM = "stream"                    # bytes for the worker of a task, and back


Statement = CommandKind | Query


class Speaker(Enum):
    """Which party may make a statement."""

    FOUNDER = "founder"                  # the initiator that the document names; for a known job, its bound initiator
    INITIATOR = "initiator"              # the initiator that the job is bound to
    MEMBER = "member"                    # any party with a seat in the job
    SEAT = "seat"                        # the party of the seat that the statement is about; the job has this seat
    ANYONE = "anyone"                    # any party: the statement is about the caller itself, not about a job


STATEMENTS: Mapping[Statement, Speaker] = {
    CommandKind.CREATE: Speaker.FOUNDER,
    CommandKind.STATUS: Speaker.INITIATOR,
    CommandKind.CHECK: Speaker.INITIATOR,
    CommandKind.APPLY: Speaker.INITIATOR,
    CommandKind.RETURN: Speaker.INITIATOR,
    CommandKind.START: Speaker.INITIATOR,
    CommandKind.UPDATE: Speaker.INITIATOR,
    CommandKind.PARAMETERS: Speaker.INITIATOR,
    CommandKind.ALIGN: Speaker.MEMBER,           # a plain v1 server sends it to all other parties of a job
    CommandKind.COMPARE: Speaker.MEMBER,
    CommandKind.STOP: Speaker.INITIATOR,
    CommandKind.CLEAN: Speaker.INITIATOR,
    CommandKind.MODEL: Speaker.INITIATOR,
    CommandKind.FIND_REUSABLE: Speaker.INITIATOR,
    CommandKind.TASK_CREATE: Speaker.INITIATOR,
    CommandKind.TASK_START: Speaker.INITIATOR,
    CommandKind.TASK_STATUS: Speaker.INITIATOR,
    CommandKind.TASK_STOP: Speaker.INITIATOR,
    CommandKind.TASK_COLLECT: Speaker.INITIATOR,
    CommandKind.REPORT: Speaker.SEAT,
    CommandKind.ASK_STOP: Speaker.MEMBER,
    CommandKind.ASK_RERUN: Speaker.MEMBER,
    CommandKind.CAPACITY: Speaker.SEAT,
    CommandKind.LOOK_AGAIN: Speaker.MEMBER,
    CommandKind.STANDING: Speaker.MEMBER,
    Query.VALIDATE: Speaker.FOUNDER,
    Query.HEARTBEAT: Speaker.ANYONE,
    Query.HISTORY: Speaker.INITIATOR,
    Query.INTAKE: Speaker.ANYONE,
    Query.OUTPUT_TABLE: Speaker.MEMBER,
    Query.TASK_LOG: Speaker.INITIATOR,
    Query.RECORD: Speaker.ANYONE,
    Query.DELIVER: Speaker.SEAT,
    Query.STREAM: Speaker.SEAT,
}

TO_INITIATORS = frozenset({
    CommandKind.REPORT, CommandKind.ASK_STOP, CommandKind.ASK_RERUN, CommandKind.CAPACITY, CommandKind.LOOK_AGAIN,
    CommandKind.STANDING,
})  # fmt: skip
"""Commands that a party sends to the initiator of a job. All other commands go to a seat of the receiving party."""


@dataclass(frozen=True)
class Said:
    """A received statement, its sender, and the seat that it is about."""

    statement: Statement
    caller: str                          # the sender's party id; equal to `own` if this server itself is the sender
    own: str                             # the party id of this server
    seat: Party | None = None
    offered: JobBinding | None = None    # the binding that a `create` would make


def objection(said: Said, bound: JobBinding | None) -> str:
    """Return why the caller may not make this statement about the job; empty if it may.

    `bound` is None if the job is not known here. Then there is nothing to protect, and the statement passes: its
    handler answers that the job is not known."""
    speaker = STATEMENTS.get(said.statement)
    if speaker is None:
        return f"{said.statement.value}: no party may send this"
    if speaker is Speaker.ANYONE:
        return ""
    if said.seat is not None and is_local(said.seat) and said.caller != said.own:
        return "role local and party 0 are taken from the own server only"
    if speaker is Speaker.FOUNDER:
        return _founder_objection(said, bound)
    if speaker is Speaker.SEAT and (said.seat is None or party_id_of(said.seat, said.own) != said.caller):
        return f"party {said.caller} may not speak for {said.seat or 'no party'}"
    if bound is None:
        return ""
    if speaker is Speaker.INITIATOR:
        is_it = said.caller == party_id_of(bound.initiator, said.own)
        return "" if is_it else f"party {said.caller} is not the initiator of job {bound.job_id}"
    return "" if _sits_in(bound, said) else f"party {said.caller} has no seat in job {bound.job_id}"


def _founder_objection(said: Said, bound: JobBinding | None) -> str:
    offered = said.offered
    if offered is None:
        return "a job without a document has no initiator"
    if said.caller != party_id_of(offered.initiator, said.own):
        return f"initiator: {offered.initiator} is not party {said.caller}, which sent the job"
    return difference(bound, offered) if bound is not None else ""


def difference(bound: JobBinding, offered: JobBinding) -> str:
    """Return why the two bindings are not the same job; empty if they are.

    A later revision by the same initiator is the same job. The text names the bound initiator only if it is also a
    party of the offered job, because then the caller knows it already. It tells nothing else about the bound job."""
    if offered.initiator != bound.initiator:
        is_known = bound.initiator.party_id in {party.party_id for party in offered.parties}
        holder = bound.initiator if is_known else "another initiator"
        return f"job {bound.job_id} is here already, created first by {holder}; submit it again: that takes a new id"
    if offered.parties != bound.parties:
        return f"job {bound.job_id} has other parties here: every create must name the same ones"
    if offered.revision == bound.revision and offered.digest != bound.digest:
        return (
            f"job {bound.job_id} has another document here as revision {bound.revision} (dsl or runtime_conf): "
            "every create must have the same one"
        )
    return ""


def _sits_in(bound: JobBinding, said: Said) -> bool:
    """Return whether the caller has a seat in the job. A statement about the caller's own seat needs that very seat."""
    if STATEMENTS[said.statement] is Speaker.SEAT:
        return said.seat in bound.parties
    return said.caller in {party_id_of(party, said.own) for party in bound.parties}


def is_local(party: Party) -> bool:
    """Return whether only this server itself may make statements about this seat."""
    return party.role == "local" or party.party_id == PARTY_0


def party_id_of(party: Party, own: str) -> str:
    """Return the real party id of a party in a document; `own` if the document says party 0."""
    return own if party.party_id == PARTY_0 else party.party_id


def document_digest(dsl: Mapping[str, Any], runtime_conf: Mapping[str, Any]) -> str:
    """Return the digest of a document in FATE v1, as hex digits.

    Equal JSON values give equal digests, in any order of keys; 1 and 1.0 are different values."""
    return content_digest([dsl, runtime_conf])


def content_digest(content: object) -> str:
    """Return the SHA-256 of a JSON value, as hex digits."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
