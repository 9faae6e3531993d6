"""Read values from the body of a client's request: each reader returns the value of a key, or raises BadRequest.

Values that may become part of a path are checked here, and only here, by `core/model/grammar.py`. The schemas in
capitals document for clients what the readers accept; a `format` names a rule that no other keyword can express.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fate_flow.api.http.declared import Arguments, Schema, described
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import (
    ROLES,
    TABLE_PIECE,
    check_component_name,
    check_job_id,
    check_party_id,
    check_role,
    check_table_piece,
    check_text,
    check_whole,
    shown,
)
from fate_flow.core.model.spec import Party

Body = Mapping[str, Any]

MOST_PAGES = 2**31
MOST_WHOLE = 10**25 - 1          # the largest job id, and the largest whole number in a filter
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_FLAGS = {"1": True, "0": False, "true": True, "false": False}

JOB_ID: Schema = {
    "type": ["string", "integer"], "format": "job-id", "pattern": "^[0-9]{14,25}$", "minimum": 10**13,
    "maximum": MOST_WHOLE, "description": "A job: 14 to 25 digits; as text when they are many.",
}  # fmt: skip
ROLE: Schema = {"type": "string", "enum": list(ROLES), "description": "The role of a party in the job."}
PARTY_ID: Schema = {
    "type": ["string", "integer"], "format": "party-id", "pattern": "^[0-9]{1,10}$", "minimum": 0,
    "maximum": 10**10 - 1, "description": "The number of a party.",
}  # fmt: skip
COMPONENT_NAME: Schema = {
    "type": "string", "format": "component-name", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_-]{0,29}$",
    "description": "A component of the job's DAG.",
}  # fmt: skip
_PIECE: Schema = {"type": "string", "format": "table-piece", "minLength": 1, "maxLength": 200}
NAMESPACE = described(_PIECE, f"The namespace of a table: {TABLE_PIECE}.")
TABLE_NAME = described(_PIECE, f"The name of a table: {TABLE_PIECE}.")
CONNECTOR_NAME = described(_PIECE, f"The name of a connector: {TABLE_PIECE}.")
FLAG: Schema = {"enum": [True, False, 1, 0, "true", "false", "1", "0"]}

FILE_NAME: Schema = {
    "type": "string", "pattern": f"^({_FILE_NAME.pattern})?$", "description": "Of a file; none: as data.",
}  # fmt: skip

JOB: Arguments = {"job_id": JOB_ID}
SEAT: Arguments = {"role": ROLE, "party_id": PARTY_ID}
COMPONENT: Arguments = {**JOB, **SEAT, "component_name": COMPONENT_NAME}
TABLE: Arguments = {"namespace": NAMESPACE, "table_name": TABLE_NAME}


def line(what: str, most: int) -> Schema:
    """Return the schema of what `read_line` accepts."""
    return {"type": "string", "format": "line", "minLength": 1, "maxLength": most, "description": what}


def whole(what: str, minimum: int = 0, maximum: int = MOST_PAGES, default: int | None = None) -> Schema:
    """Return the schema of what `read_whole` accepts."""
    few = len(str(maximum)) - 1      # in text: only as many digits as keep every number below the maximum
    digits = f"[1-9][0-9]{{0,{few - 1}}}" if minimum > 0 else f"{'-?' if minimum < -1 else ''}[0-9]{{1,{few}}}"
    found = {
        "type": ["integer", "string"], "minimum": minimum, "maximum": maximum, "pattern": f"^{digits}$",
        "description": what,
    }  # fmt: skip
    return found if default is None else {**found, "default": default}


def read_job_id(body: Body) -> str:
    """Return the job id; an SDK may send its digits as a number."""
    value = body.get("job_id")
    return check_job_id(str(value) if type(value) is int and abs(value) <= MOST_WHOLE else value)


def read_party(body: Body) -> Party:
    return Party(check_role(body.get("role")), check_party_id(body.get("party_id")))


def read_component(body: Body) -> str:
    return check_component_name(body.get("component_name"))


def read_table(body: Body) -> tuple[str, str]:
    """Return the namespace and the name of a table."""
    return read_table_piece(body, "namespace"), read_table_piece(body, "table_name")


def read_table_piece(body: Body, key: str) -> str:
    """Return a valid name of a table or a namespace."""
    return check_table_piece(body.get(key), key)


def read_text(body: Body, key: str, default: str = "") -> str:
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, str):
        raise BadRequest(f"{key}: {shown(value)} is not text")
    return check_text(value, key)


def read_file_name(body: Body, key: str) -> str:
    """Return a file name without folders; "" if there is none. Raise BadRequest."""
    name = read_text(body, key)
    if name and not _FILE_NAME.fullmatch(name):
        raise BadRequest(f"{key}: {shown(name)} is not a plain file name")
    return name


def read_line(body: Body, key: str, most: int, default: str = "") -> str:
    """Return a person's text of one line. Raise BadRequest."""
    text = read_text(body, key, default).strip()
    if not text:
        raise BadRequest(f"{key}: is missing or empty")
    if len(text) > most or not text.isprintable():
        raise BadRequest(f"{key}: {shown(text)} is not one line of up to {most} characters")
    return text


def read_whole(body: Body, key: str, default: int, minimum: int = 0, maximum: int = MOST_PAGES) -> int:
    """Return a whole number, given as a number or as text."""
    value = body.get(key)
    return default if value is None else check_whole(value, key, minimum, maximum)


def read_task_version(body: Body) -> int | None:
    """Return the version of a task that is asked for; None: the newest one."""
    return None if body.get("task_version") is None else read_whole(body, "task_version", 0)


def read_flag(body: Body, key: str, default: bool = False) -> bool:
    """Return a truth value; clients also write it as 1, 0 or text."""
    value = body.get(key)
    if value is None:
        return default
    if isinstance(value, (bool, int)) and value in (0, 1):
        return bool(value)
    if isinstance(value, str) and value.lower() in _FLAGS:
        return _FLAGS[value.lower()]
    raise BadRequest(f"{key}: {shown(value)} is not 0 or 1")
