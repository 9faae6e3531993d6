"""Paths of commands and envelopes of answers (party-api-v1), as they are written.

`peers/wire.py` reads both. The body of a command comes from its sender, mostly a plan (`core/planning/`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.job import Answer, Command, CommandKind


def endpoint_of(command: Command) -> str:
    """Return the v1 path of a command, without the leading `/v1` (party-api-v1)."""
    role, party_id = command.to.role, command.to.party_id
    if command.kind is CommandKind.REPORT:
        body = command.body
        task = f"{command.job_id}/{command.task}/{command.job_id}_{command.task}/{command.version}"
        return f"/initiator/{task}/{body['role']}/{body['party_id']}/report"
    if command.kind is CommandKind.ASK_STOP:
        return f"/initiator/{command.job_id}/{role}/{party_id}/stop/{command.argument}"
    if command.kind is CommandKind.ASK_RERUN:
        return f"/initiator/{command.job_id}/{role}/{party_id}/rerun"
    if command.kind is CommandKind.CAPACITY:
        return f"/initiator/{command.job_id}/{command.body['role']}/{command.body['party_id']}/room"
    if command.kind is CommandKind.STANDING:
        return f"/initiator/{command.job_id}/{role}/{party_id}/standing"
    if command.kind is CommandKind.LOOK_AGAIN:
        return f"/initiator/{command.job_id}/{role}/{party_id}/ready"
    if command.task:
        word = command.kind.value.removeprefix("task ")
        tail = f"{word}/{command.argument}" if command.argument else word
        task = f"{command.job_id}/{command.task}/{command.job_id}_{command.task}/{command.version}"
        return f"/party/{task}/{role}/{party_id}/{tail}"
    tail = f"{command.kind.value}/{command.argument}" if command.argument else command.kind.value
    return f"/party/{command.job_id}/{role}/{party_id}/{tail}"


def body_of(answer: Answer) -> dict[str, Any]:
    """Return the v1 envelope of an answer, without `data` if it is null."""
    body: dict[str, Any] = {"retcode": answer.retcode, "retmsg": answer.retmsg}
    return body if answer.data is None else {**body, "data": answer.data}


def to_json(body: Mapping[str, Any]) -> str:
    return json.dumps(body, separators=(",", ":"))
