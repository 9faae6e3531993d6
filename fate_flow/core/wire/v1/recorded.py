"""What both parties of a message commit to in their records: the same bytes, whoever makes them.

A command reaches its receiver by several ways: alone or in a batch, and with what a FATE server would need. The
receiver reads some of its fields out of the path. So the bytes are made of what the command means, at both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fate_flow.core.model.job import Answer, Command, CommandKind
from fate_flow.core.text.json_writer import json_writer
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.envelope import LONGEST_MESSAGE
from fate_flow.core.wire.v1.fields import RECORD_SALT
from fate_flow.core.wire.v1.paths import endpoint_of

_sorted_json = json_writer(sort_keys=True)
_NOT_MEANT = ("run", "runtime_conf_on_party", RECORD_SALT)
_WITHOUT_BODY = (CommandKind.STANDING, CommandKind.LOOK_AGAIN)       # which nobody reads


def request_content(command: Command) -> bytes:
    """Return the path and body of a command, as JSON with sorted keys, in ASCII.

    Without `runtime_conf_on_party`, which only FATE servers read; with the fields of the path in the body of a report,
    and with the run."""
    given = {} if command.kind in _WITHOUT_BODY else command.body
    body = {key: value for key, value in given.items() if key not in _NOT_MEANT}
    if command.kind is CommandKind.REPORT:
        body |= {
            "job_id": command.job_id, "component_name": command.task, "task_version": command.version,
            "role": command.body.get("role", command.to.role),
            "party_id": command.body.get("party_id", command.to.party_id),
        }  # fmt: skip
    return _json({"path": endpoint_of(command), "body": {**body, "run": command.run}})


def question_content(path: str, body: Mapping[str, Any]) -> bytes:
    """Return the path and body of a question that is no command, in the same form."""
    return _json({"path": path, "body": body})


def answer_content(answer: Answer) -> bytes:
    """Return what its reader takes of an answer, as JSON with sorted keys, in ASCII."""
    return _json({"retcode": answer.retcode, "retmsg": sanitized(answer.retmsg, LONGEST_MESSAGE), "data": answer.data})


def _json(value: object) -> bytes:
    return _sorted_json(value).encode()
