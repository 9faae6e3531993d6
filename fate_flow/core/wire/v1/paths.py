"""The v1 paths between parties (party-api-v1), from commands and back to commands.

All parts of a path from outside pass the strict grammar before they reach a file path, a log line or SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.model.errors import BadRequest, FlowError, NotFound, NotOffered
from fate_flow.core.model.grammar import (
    ROLES,
    check_component_name,
    check_job_id,
    check_party_id,
    check_role,
    check_task_id,
    check_version,
    shown,
)
from fate_flow.core.model.job import ANY_RUN, Command, CommandKind, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.fields import RECORD_SALT, salt_in

BATCH = "/party/batch"
HEARTBEAT = "/party/heartbeat"
VALIDATE = "/party/validate"
HISTORY = "/party/history"
INTAKE = "/party/intake"
KEYS = "/party/keys"
ADD_CHECKPOINT = "/party/record/add-checkpoint"
HELD = "/party/record/held"
RECORD_LOG = "/party/record/log"
TASK_LOG = "/party/task/log"
"""Paths of our extensions that are not commands about one job. No path here has the leading `/v1`."""

LISTED = "/party/list"
"""Which parties this one knows, for other parties."""

OUTPUT_TABLE = "/tracker/{job_id}/{component}/{role}/{party_id}/output/table"
"""FATE's query for the output tables of a component at a party of the same job (party-api-v1, section 5)."""

EXCHANGE = "/exchange"
DELIVER = "/deliver/{job_id}/{task_id}/{version}/{incarnation}/{from_role}/{from_party}/{to_role}/{to_party}"
"""Below `EXCHANGE`: a chunk of a message from a worker of one party to a worker of another, of one task."""

STREAM = "/stream/{job_id}/{task_id}/{version}/{incarnation}/{from_role}/{from_party}/{to_role}/{to_party}/{port}"
"""Below `EXCHANGE`: opens a stream from a worker of one party to a worker of another, of one task."""
STREAM_CALL = "/stream/call/{from_role}/{from_party}/{to_role}/{to_party}"
"""Below `EXCHANGE`: asks whether streams could be opened, and opens none."""
DOCUMENT = "document"
"""In the query of a stream or a chunk: the name of the document that the sender runs."""

_UNRECORDED = {
    HEARTBEAT: "heartbeat", INTAKE: "intake", KEYS: "key list", LISTED: "list", ADD_CHECKPOINT: "checkpoint",
    HELD: "held", RECORD_LOG: "record log",
}  # fmt: skip
_STREAM_CALLS = EXCHANGE + STREAM_CALL.partition("{")[0]


def kind_without_entry(path: str) -> str:
    """Return of which kind a request between parties is that has no entry of its own in the record; empty for others.
    `path`: without the leading `/v1`."""
    return "stream call" if path.startswith(_STREAM_CALLS) else _UNRECORDED.get(path, "")


_JOB_VERBS = {
    kind.value: kind
    for kind in (
        CommandKind.CREATE,
        CommandKind.CHECK,
        CommandKind.APPLY,
        CommandKind.RETURN,
        CommandKind.START,
        CommandKind.UPDATE,
        CommandKind.PARAMETERS,
        CommandKind.ALIGN,
        CommandKind.COMPARE,
        CommandKind.MODEL,
        CommandKind.CLEAN,
        CommandKind.FIND_REUSABLE,
    )
}
_JOB_VERBS["component/rerun/check"] = CommandKind.FIND_REUSABLE
_JOB_VERBS_WITH_ARGUMENT = {"status": CommandKind.STATUS, "stop": CommandKind.STOP}
_TASK_VERBS = {
    "create": CommandKind.TASK_CREATE,
    "start": CommandKind.TASK_START,
    "collect": CommandKind.TASK_COLLECT,
    "update": CommandKind.CLEAN,
}
_TASK_VERBS_WITH_ARGUMENT = {
    "status": CommandKind.TASK_STATUS,
    "stop": CommandKind.TASK_STOP,
    "clean": CommandKind.CLEAN,
}
_CLEANED = ("metrics", "table")     # party-api-v1; stored by version here, so a new version never sees old ones

_NOT_OFFERED = {
    "report": ("the report of a worker", "a worker reports where its task configuration says"),
}
"""By last part of a path of party-api-v1 that has no command here: what it is for, and what to use instead."""


def output_table_path(job_id: str, component: str, party: Party) -> str:
    return OUTPUT_TABLE.format(job_id=job_id, component=component, role=party.role, party_id=party.party_id)


def route_of(path: str) -> str:
    """Return a path of this module as a route of the server, with its variables in angle brackets."""
    return path.replace("{", "<").replace("}", ">")


def deliver_path(job_id: str, task_id: str, version: int, incarnation: str, sender: Party, receiver: Party) -> str:
    """Return the path of a chunk from a worker of one party to that of another, without the leading `/v1`."""
    return EXCHANGE + DELIVER.format(
        job_id=job_id, task_id=task_id, version=version, incarnation=incarnation, from_role=sender.role,
        from_party=sender.party_id, to_role=receiver.role, to_party=receiver.party_id,
    )  # fmt: skip


def stream_path(
    job_id: str, task_id: str, version: int, incarnation: str, sender: Party, receiver: Party, port: str
) -> str:  # fmt: skip
    """Return the path that opens a stream, without the leading `/v1`."""
    return EXCHANGE + STREAM.format(
        job_id=job_id, task_id=task_id, version=version, incarnation=incarnation, from_role=sender.role,
        from_party=sender.party_id, to_role=receiver.role, to_party=receiver.party_id, port=port,
    )  # fmt: skip


def stream_call_path(sender: Party, receiver: Party) -> str:
    """Return the path that asks whether streams from one party could be opened to another, without the leading
    `/v1`."""
    return EXCHANGE + STREAM_CALL.format(
        from_role=sender.role, from_party=sender.party_id, to_role=receiver.role, to_party=receiver.party_id
    )


def endpoint_of(command: Command) -> str:
    """Return the path of a command, without the leading `/v1`."""
    role, party_id = command.to.role, command.to.party_id
    if command.kind in _SEAT_IN_BODY:
        role, party_id = command.body["role"], command.body["party_id"]
    if command.kind is CommandKind.REPORT:
        return f"/initiator/{_task_part(command)}/{role}/{party_id}/report"
    if command.kind in _INITIATOR_VERBS:
        return f"/initiator/{command.job_id}/{role}/{party_id}/{_tail(_INITIATOR_VERBS[command.kind], command)}"
    if command.task:
        tail = _tail(command.kind.value.removeprefix("task "), command)
        return f"/party/{_task_part(command)}/{role}/{party_id}/{tail}"
    return f"/party/{command.job_id}/{role}/{party_id}/{_tail(command.kind.value, command)}"


_SEAT_IN_BODY = frozenset({CommandKind.REPORT, CommandKind.CAPACITY})
"""These paths name the sender's seat, as the body does; all others name the addressed seat."""

_INITIATOR_VERBS = {
    CommandKind.ASK_STOP: "stop",
    CommandKind.ASK_RERUN: "rerun",
    CommandKind.CAPACITY: "room",
    CommandKind.STANDING: "standing",
    CommandKind.LOOK_AGAIN: "ready",
}


def _task_part(command: Command) -> str:
    return f"{command.job_id}/{command.task}/{command.job_id}_{command.task}/{command.version}"


def _tail(verb: str, command: Command) -> str:
    return f"{verb}/{command.argument}" if command.argument else verb


def read_command(endpoint: str, body: object) -> Command:
    """Return the command that this path (without `/v1`) and body mean.

    Raises NotFound for an unknown path; NotOffered for a path that only other servers have; BadRequest for a part that
    violates the grammar."""
    parts = endpoint.strip("/").split("/")
    content: Mapping[str, Any] = body if isinstance(body, dict) else {}
    if RECORD_SALT not in content:
        return _read_command(parts, content)
    command = _read_command(parts, {key: value for key, value in content.items() if key != RECORD_SALT})
    return replace(command, salt=salt_in(content))


def _read_command(parts: list[str], content: Mapping[str, Any]) -> Command:
    if parts[0] == "party" and len(parts) >= 5 and parts[2] in ROLES and parts[3].isdigit():
        return _job_command(parts, content)
    if parts[0] == "party" and len(parts) >= 8:
        return _task_command(parts, content)
    if parts[0] == "initiator" and len(parts) >= 5:
        return _initiator_command(parts, content)
    raise _unknown(parts)


def _job_command(parts: list[str], body: Mapping[str, Any]) -> Command:
    job_id, party = check_job_id(parts[1]), _party(parts[2], parts[3])
    verb = "/".join(parts[4:])
    run = _run(body)
    if verb in _JOB_VERBS:
        return Command(_JOB_VERBS[verb], job_id, party, run, body=body)
    if len(parts) == 6 and parts[4] in _JOB_VERBS_WITH_ARGUMENT:
        return Command(_JOB_VERBS_WITH_ARGUMENT[parts[4]], job_id, party, run, argument=_word(parts[5]), body=body)
    raise _no_command(parts, verb)


def _task_command(parts: list[str], body: Mapping[str, Any]) -> Command:
    key, verb, run = _task_key(parts), parts[7], _run(body)
    if len(parts) == 8 and verb in _TASK_VERBS:
        if verb == "create":
            key = _new_version(key, body)
        return Command(_TASK_VERBS[verb], key.job_id, key.party, run, key.name, key.version, body=body)
    if len(parts) == 9 and verb in _TASK_VERBS_WITH_ARGUMENT:
        kind = _TASK_VERBS_WITH_ARGUMENT[verb]
        if kind is CommandKind.CLEAN and parts[8] not in _CLEANED:
            raise BadRequest(f"content type: {shown(parts[8])} is not one of {', '.join(_CLEANED)}")
        return Command(kind, key.job_id, key.party, run, key.name, key.version, _word(parts[8]), body)
    raise _no_command(parts, "/".join(parts[7:]))


def _new_version(key: TaskKey, body: Mapping[str, Any]) -> TaskKey:
    """Return the key with the new version, which is in the body: FATE makes the path from the old version's row."""
    given = body.get("task_version")
    return key if given is None else replace(key, version=check_version(given, "task_version"))


def _initiator_command(parts: list[str], body: Mapping[str, Any]) -> Command:
    if len(parts) == 8 and parts[7] == "report":
        key = _task_key(parts)
        known = {**body, "job_id": key.job_id, "component_name": key.name, "task_version": key.version}
        known.update(role=key.party.role, party_id=key.party.party_id)
        return Command(CommandKind.REPORT, key.job_id, key.party, _run(body), key.name, key.version, body=known)
    if len(parts) == 6 and parts[4] == "stop":
        job_id, party = check_job_id(parts[1]), _party(parts[2], parts[3])
        return Command(CommandKind.ASK_STOP, job_id, party, _run(body), argument=_word(parts[5]), body=body)
    if len(parts) == 5 and parts[4] == "rerun":
        return Command(CommandKind.ASK_RERUN, check_job_id(parts[1]), _party(parts[2], parts[3]), _run(body), body=body)
    if len(parts) == 5 and parts[4] == "room":
        party = _party(parts[2], parts[3])
        known = {**body, "role": party.role, "party_id": party.party_id}
        return Command(CommandKind.CAPACITY, check_job_id(parts[1]), party, _run(body), body=known)
    if len(parts) == 5 and parts[4] == "standing":
        return Command(CommandKind.STANDING, check_job_id(parts[1]), _party(parts[2], parts[3]), _run(body))
    if len(parts) == 5 and parts[4] == "ready":
        return Command(CommandKind.LOOK_AGAIN, check_job_id(parts[1]), _party(parts[2], parts[3]), _run(body))
    raise _no_command(parts, "/".join(parts[4:]))


def _task_key(parts: list[str]) -> TaskKey:
    """Read `.../<job id>/<component>/<task id>/<version>/<role>/<party id>/...`. Raises BadRequest."""
    job_id, name, party = check_job_id(parts[1]), check_component_name(parts[2]), _party(parts[5], parts[6])
    key = TaskKey(job_id, name, check_version(parts[4]), party)
    if check_task_id(parts[3]) != key.task_id:
        raise BadRequest(f"task_id: {shown(parts[3])} is not {key.task_id}")
    return key


def _party(role: str, party_id: str) -> Party:
    return Party(check_role(role), check_party_id(party_id))


def _word(text: str) -> str:
    if not (text.isascii() and text.isalpha()) or len(text) > 20:
        raise BadRequest(f"status: {shown(text)} is not a status")
    return text


def _no_command(parts: list[str], verb: str) -> FlowError:
    if verb not in _NOT_OFFERED:
        return _unknown(parts)
    what, instead = _NOT_OFFERED[verb]
    return NotOffered(f"this server does not offer {what} (/v1/{parts[0]}/.../{verb}); instead: {instead}")


def _unknown(parts: list[str]) -> NotFound:
    return NotFound(f"no such path: {shown('/v1/' + '/'.join(parts))}")


def _run(body: Mapping[str, Any]) -> int:
    """Return the run of the command. A plain v1 peer sends none and means the present one."""
    run = body.get("run")
    return run if isinstance(run, int) and not isinstance(run, bool) else ANY_RUN
