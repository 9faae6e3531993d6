"""The v1 wire between parties: paths to commands and back (party-api-v1), headers, envelopes.

Everything that comes in is checked by the strict grammar before it reaches a path, a log line or SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.errors import BadRequest, NotFound
from fate_flow.core.grammar import (
    check_component_name,
    check_job_id,
    check_party_id,
    check_role,
    check_task_id,
    check_version,
)
from fate_flow.core.job import Answer, Command, CommandKind
from fate_flow.core.spec import Party

SRC_PARTY_ID = "SRC-PARTY-ID"
FATE_VERSION = "1.11.2"
"""The release of FATE Flow whose wire this is; peers read it as SRC-FATE-VER."""

_ROLES = frozenset({"guest", "host", "arbiter", "local"})
_JOB_VERBS = {
    kind.value: kind
    for kind in (
        CommandKind.CREATE,
        CommandKind.CHECK,
        CommandKind.APPLY,
        CommandKind.RETURN,
        CommandKind.START,
        CommandKind.UPDATE,
        CommandKind.CLEAN,
    )
}
_JOB_VERBS["align"] = CommandKind.UPDATE       # merges named fields, as `update` does; also FATE's heartbeat
_JOB_VERBS["model"] = CommandKind.CLEAN        # nothing of ours keeps a model: answers 0, as FATE does for a local job
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


def headers(own_party_id: str, to: str, role: str = "") -> dict[str, str]:
    """What every request between parties carries; one hyphenated spelling serves all FATE versions."""
    return {
        SRC_PARTY_ID: own_party_id,
        "DEST-PARTY-ID": to,
        "SRC-ROLE": role,
        "SRC-FATE-VER": FATE_VERSION,
        "SERVICE": "fateflow",
        "USER-AGENT": f"fateflow/{FATE_VERSION}",
    }


def read_command(endpoint: str, body: object) -> Command:
    """The command that this path (without `/v1`) and body stand for.

    Raises NotFound for a path that is none, BadRequest for a piece that breaks the grammar."""
    parts = endpoint.strip("/").split("/")
    content: Mapping[str, Any] = body if isinstance(body, dict) else {}
    if parts[0] == "party" and len(parts) >= 5 and parts[2] in _ROLES and parts[3].isdigit():
        return _job_command(parts, content)
    if parts[0] == "party" and len(parts) >= 8:
        return _task_command(parts, content)
    if parts[0] == "initiator" and len(parts) >= 5:
        return _initiator_command(parts, content)
    raise NotFound(f"no such path: /v1/{'/'.join(parts)}")


def _job_command(parts: list[str], body: Mapping[str, Any]) -> Command:
    job_id, party = check_job_id(parts[1]), _party(parts[2], parts[3])
    verb = "/".join(parts[4:])
    run = _run(body)
    if verb in _JOB_VERBS:
        return Command(_JOB_VERBS[verb], job_id, party, run, body=body)
    if len(parts) == 6 and parts[4] in _JOB_VERBS_WITH_ARGUMENT:
        return Command(_JOB_VERBS_WITH_ARGUMENT[parts[4]], job_id, party, run, argument=_word(parts[5]), body=body)
    raise NotFound(f"no such path: /v1/{'/'.join(parts)}")


def _task_command(parts: list[str], body: Mapping[str, Any]) -> Command:
    job_id, name, party = check_job_id(parts[1]), check_component_name(parts[2]), _party(parts[5], parts[6])
    if check_task_id(parts[3]) != f"{job_id}_{name}":
        raise BadRequest(f"task_id: {parts[3]!r} is not {job_id}_{name}")
    version, verb = check_version(parts[4]), parts[7]
    if len(parts) == 8 and verb in _TASK_VERBS:
        return Command(_TASK_VERBS[verb], job_id, party, _run(body), name, version, body=body)
    if len(parts) == 9 and verb in _TASK_VERBS_WITH_ARGUMENT:
        return Command(
            _TASK_VERBS_WITH_ARGUMENT[verb], job_id, party, _run(body), name, version, _word(parts[8]), body
        )
    raise NotFound(f"no such path: /v1/{'/'.join(parts)}")


def _initiator_command(parts: list[str], body: Mapping[str, Any]) -> Command:
    job_id = check_job_id(parts[1])
    if len(parts) == 8 and parts[7] == "report":
        name, party = check_component_name(parts[2]), _party(parts[5], parts[6])
        version = check_version(parts[4])
        known = {**body, "job_id": job_id, "component_name": name, "task_version": version}
        known.update(role=party.role, party_id=party.party_id)
        return Command(CommandKind.REPORT, job_id, party, _run(body), name, version, body=known)
    if len(parts) == 6 and parts[4] == "stop":
        return Command(
            CommandKind.ASK_STOP, job_id, _party(parts[2], parts[3]), _run(body), argument=_word(parts[5]), body=body
        )
    raise NotFound(f"no such path: /v1/{'/'.join(parts)}")


def _party(role: str, party_id: str) -> Party:
    return Party(check_role(role), check_party_id(party_id))


def _word(text: str) -> str:
    if not text.isalpha() or len(text) > 20:
        raise BadRequest(f"status: {text!r} is not a status")
    return text


def _run(body: Mapping[str, Any]) -> int:
    """Our own peers say which run they mean; a plain v1 peer does not, and means the present one."""
    run = body.get("run")
    return run if isinstance(run, int) and not isinstance(run, bool) else ANY_RUN


ANY_RUN = 1 << 30


def body_of(command: Command) -> dict[str, Any]:
    return {**command.body, "run": command.run}


def read_answer(document: object) -> Answer:
    """The v1 envelope as an answer; what is not one counts as a failure of the peer."""
    if not isinstance(document, dict) or not isinstance(document.get("retcode"), int):
        return Answer(100, f"the answer is not an envelope: {str(document)[:200]}")
    return Answer(document["retcode"], str(document.get("retmsg", "")), document.get("data"))
