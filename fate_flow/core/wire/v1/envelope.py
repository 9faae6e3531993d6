"""The common parts of v1 requests and answers: headers, the run of a command, the envelope of an answer, batches."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fate_flow.core.model.errors import BadRequest, FlowError
from fate_flow.core.model.job import Answer, Command
from fate_flow.core.text.phrases import sanitized
from fate_flow.core.text.trace import TRACEPARENT, trace_id_in
from fate_flow.core.wire.v1.fields import RECORD_SALT
from fate_flow.core.wire.v1.paths import read_command
from fate_flow.core.wire.v1.retcodes import TooOld, retcode_of

SRC_PARTY_ID = "SRC-PARTY-ID"
"""The header with the sender's party id, in requests and in answers. Plain v1 servers send none in answers."""

DEST_PARTY_ID = "DEST-PARTY-ID"
SRC_FATE_VER = "SRC-FATE-VER"
FATE_VERSION = "1.11.2"
"""The release of FATE Flow with this wire format; it is sent as SRC-FATE-VER."""

_OLDEST = (1, 7, 0)
_ENCODER = json.JSONEncoder(separators=(",", ":"))      # `json.dumps` would make one for each call
_MOST_IN_A_BATCH = 1_000
LONGEST_MESSAGE, _LONGEST_PARTY_ID = 1_000, 20
RECORDED = "recorded"
"""The key of an answer: its party has recorded the command and this answer."""


MOST_VALUES = 1_000_000
"""In one JSON text of another server: a value takes a hundred bytes of memory, but perhaps only three of text. A
document has at most 100,000, and travels in at most three forms."""

# A string without an end goes to the end of the text: otherwise each quote in it would begin another search to the end.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)


_FEW_VALUES = MOST_VALUES // 64       # a request has at most 64 commands


def values_in(text: bytes) -> int:
    """Return how many values a JSON text has, perhaps a malformed one; somewhat more if they are few."""
    found = _separators(text)
    return found if found <= _FEW_VALUES else _separators(_STRING.sub(b"", text))


def _separators(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))


def headers(own_party_id: str, to: str, role: str = "") -> dict[str, str]:
    """Return the headers of every request between parties; all FATE versions read the names with hyphens."""
    return {
        SRC_PARTY_ID: own_party_id,
        DEST_PARTY_ID: to,
        "SRC-ROLE": role,
        SRC_FATE_VER: FATE_VERSION,
        "SERVICE": "fateflow",
        "USER-AGENT": f"fateflow/{FATE_VERSION}",
    }


def check_fate_version(text: str) -> None:
    """Check the sender's version in its header; FATE accepts a request without one.

    Raises BadRequest for text that is no version; TooOld for one before 1.7.0, which creates jobs in another
    way."""
    if not text:
        return
    try:
        version = tuple(int(piece) for piece in text.split(".")[:3])
    except ValueError:
        raise BadRequest(f"SRC-FATE-VER: {text!r} is not a version such as {FATE_VERSION}") from None
    if version < _OLDEST:
        raise TooOld(f"FATE Flow {text} is older than 1.7.0, which this server needs")


def stranger(said_by: str, party_id: str, url: str) -> str:
    """Return text that names the server if its answer names another party than `party_id`; otherwise empty."""
    if said_by in ("", party_id):
        return ""
    return f"another server, that of party {sanitized(said_by, _LONGEST_PARTY_ID)}, answers at {url}"


def body_of(command: Command) -> dict[str, Any]:
    """Return the body of a command, with its run, and with its salt if it is recorded."""
    body = {**command.body, "run": command.run}
    return {**body, RECORD_SALT: command.salt} if command.salt else body


def to_json(body: object) -> str:
    return _ENCODER.encode(body)


def document_of(answer: Answer) -> dict[str, Any]:
    """Return the v1 envelope of an answer, without `data` if it is null."""
    document: dict[str, Any] = {"retcode": answer.retcode, "retmsg": answer.retmsg}
    if answer.is_recorded:
        document[RECORDED] = True
    return document if answer.data is None else {**document, "data": answer.data}


def read_answer(document: object) -> Answer:
    """Return the v1 envelope as an answer. Raises ValueError if it is not an envelope: the outcome is unknown then."""
    retcode = document.get("retcode") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(retcode, int) or isinstance(retcode, bool):
        raise ValueError(f"the answer is not an envelope: {str(document)[:200]!r}")
    retmsg, is_recorded = sanitized(document.get("retmsg"), LONGEST_MESSAGE), document.get(RECORDED) is True
    return Answer(retcode, retmsg, document.get("data"), is_recorded=is_recorded)


@dataclass(frozen=True)
class Asked:
    """A command with its path, sent or received."""

    endpoint: str
    command: Command
    traceparent: str = ""            # names its trace, and the sender's span; empty: none is known


def asked_with(endpoint: str, command: Command, given: object) -> Asked:
    """Return a received command with the trace that its `traceparent` names, if that can be read."""
    trace = trace_id_in(given)
    return Asked(endpoint, replace(command, trace=trace), str(given) if trace else "")


def batch_of(asked: Sequence[Asked]) -> dict[str, Any]:
    """Return the body of one request with several commands."""
    return {"commands": [
        {"endpoint": one.endpoint, "body": body_of(one.command),
         **({TRACEPARENT: one.traceparent} if one.traceparent else {})}
        for one in asked
    ]}  # fmt: skip


def read_batch(body: Mapping[str, Any]) -> list[Asked | Answer]:
    """Return the commands of a batch, in order. An entry that cannot be read is replaced by the answer to it.

    Raises BadRequest if there is no list, or if it is too long."""
    listed = body.get("commands")
    if not isinstance(listed, list) or len(listed) > _MOST_IN_A_BATCH:
        raise BadRequest(f"commands: must be a list of up to {_MOST_IN_A_BATCH} commands")
    return [_read_entry(one) for one in listed]


def _read_entry(entry: object) -> Asked | Answer:
    try:
        if not isinstance(entry, dict) or not isinstance(entry.get("endpoint"), str):
            raise BadRequest("commands: each needs an endpoint and a body")
        endpoint = entry["endpoint"]
        command = read_command(endpoint, entry.get("body"))
        return asked_with(endpoint, command, entry.get(TRACEPARENT))
    except FlowError as error:
        return Answer(retcode_of(error), error.message)


def read_batch_answers(document: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Return the envelopes in the answer to a batch of `count` commands. Raises ValueError if one is missing."""
    data = document.get("data")
    is_whole = isinstance(data, list) and len(data) == count and all(isinstance(one, dict) for one in data)
    if not isinstance(data, list) or not is_whole:
        raise ValueError(f"the answer to a batch of {count} is {str(document)[:200]}")
    return data
