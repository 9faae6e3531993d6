"""Who may say what about a job: one table, and one function that every route asks (docs/explanation/authority.md).

A job id is bound at its first `create` to its initiator, its parties and the digest of its document. Whatever another
party says later about this job, or asks of it, is held against that binding.
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
"""In a document: the server that it is submitted to."""


@dataclass(frozen=True)
class JobBinding:
    """What a job id stands for at this party, whatever seats the party has in the job."""

    job_id: str
    initiator: Party
    parties: frozenset[Party]
    digest: str                          # of the document that is in force
    revision: int = 0                    # how often its parameters were changed


class Query(Enum):
    """What a party asks or sends beside commands."""

    VALIDATE = "validate"
    HEARTBEAT = "heartbeat"
    HISTORY = "history"
    INTAKE = "intake"
    OUTPUT_TABLE = "output table"
    TASK_LOG = "task log"
    DELIVER = "exchange deliver"         # a chunk for the worker of a task


Statement = CommandKind | Query


class Speaker(Enum):
    """Who may make a statement."""

    FOUNDER = "founder"                  # the initiator that the document names; of a known job, its bound initiator
    INITIATOR = "initiator"              # the party that the job is bound to
    MEMBER = "member"                    # any party that sits in the job
    SEAT = "seat"                        # the party of the seat that the statement is about, if it sits in the job
    ANYONE = "anyone"                    # it is about the caller itself, and about no job


STATEMENTS: Mapping[Statement, Speaker] = {
    CommandKind.CREATE: Speaker.FOUNDER,
    CommandKind.STATUS: Speaker.INITIATOR,
    CommandKind.CHECK: Speaker.INITIATOR,
    CommandKind.APPLY: Speaker.INITIATOR,
    CommandKind.RETURN: Speaker.INITIATOR,
    CommandKind.START: Speaker.INITIATOR,
    CommandKind.UPDATE: Speaker.INITIATOR,
    CommandKind.PARAMETERS: Speaker.INITIATOR,
    CommandKind.ALIGN: Speaker.MEMBER,           # plain v1 servers say it to all others of a job
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
    Query.DELIVER: Speaker.SEAT,
}

TO_INITIATORS = frozenset({
    CommandKind.REPORT, CommandKind.ASK_STOP, CommandKind.ASK_RERUN, CommandKind.CAPACITY, CommandKind.LOOK_AGAIN,
    CommandKind.STANDING,
})  # fmt: skip
"""What a party says to the initiator of a job; all other commands go to a seat of the party that gets them."""


@dataclass(frozen=True)
class Said:
    """A statement as it came: by whom, where, and about which seat."""

    statement: Statement
    caller: str                          # the id of the party; the own one: this server itself
    own: str                             # the id of this server's party
    seat: Party | None = None
    offered: JobBinding | None = None    # with what a `create` would bind the job


def objection(said: Said, bound: JobBinding | None) -> str:
    """Why the caller may not say this about the job that is bound so; empty when it may.

    Of a job that is not known here (`bound` is None) there is nothing to protect: the handler says that."""
    speaker = STATEMENTS.get(said.statement)
    if speaker is None:
        return f"{said.statement.value}: nobody may say this"
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
        return "a job without a document is bound to nobody"
    if said.caller != party_id_of(offered.initiator, said.own):
        return f"initiator: {offered.initiator} is not party {said.caller}, which sent the job"
    return difference(bound, offered) if bound is not None else ""


def difference(bound: JobBinding, offered: JobBinding) -> str:
    """What speaks against it that both are the same job; empty: nothing. Of what is bound it says only who holds the
    id, and that only when the holder is a party of the offered job: whoever offers it knows this party.

    A later revision of the same initiator is the same job."""
    if offered.initiator != bound.initiator:
        is_known = bound.initiator.party_id in {party.party_id for party in offered.parties}
        holder = bound.initiator if is_known else "another initiator"
        return f"job {bound.job_id} is here already, created first by {holder}; submit it again: that takes a new id"
    if offered.parties != bound.parties:
        return f"job {bound.job_id} has other parties here: all its seats are created with the same ones"
    if offered.revision == bound.revision and offered.digest != bound.digest:
        return (
            f"job {bound.job_id} has another document here as revision {bound.revision} (dsl or runtime_conf): "
            "all its seats go by the same one"
        )
    return ""


def _sits_in(bound: JobBinding, said: Said) -> bool:
    """Whether the caller does; where the statement is about a seat of the caller's own, in that one."""
    if STATEMENTS[said.statement] is Speaker.SEAT:
        return said.seat in bound.parties
    return said.caller in {party_id_of(party, said.own) for party in bound.parties}


def is_local(party: Party) -> bool:
    """A seat that only the own server may speak about."""
    return party.role == "local" or party.party_id == PARTY_0


def party_id_of(party: Party, own: str) -> str:
    """Of a party in a document: party 0 is the server that it was submitted to, of which `own` is the party."""
    return own if party.party_id == PARTY_0 else party.party_id


def document_digest(dsl: Mapping[str, Any], runtime_conf: Mapping[str, Any]) -> str:
    """Of what a job is to do. Equal for equal JSON values, whatever the order of their keys; 1 and 1.0 are two."""
    content = json.dumps([dsl, runtime_conf], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode("ascii")).hexdigest()
