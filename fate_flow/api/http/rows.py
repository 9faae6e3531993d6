"""The schemas of database rows in the OpenAPI document, derived from the columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fate_flow.api.http.arguments import FLAG
from fate_flow.api.http.declared import DIGEST, TEXT, Arguments, Schema, a_list, an_object, described, one_of, or_null
from fate_flow.core.model.grammar import ROLES
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.condition import RESTARTING
from fate_flow.store.database.models import EngineRow, JobRow, OutputRow, TaskRow
from fate_flow.store.views.columns import Column, columns_of, filters_of
from fate_flow.store.views.filters import MOST_VALUES

_SEEN: Mapping[type, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"},
    dict: {"type": "object"},
    list: {"type": "array"},
}


_TEXT: Arguments = {
    "f_status": one_of({status.value for status in (*JobStatus, *TaskStatus)} - {JobStatus.STOPPING.value}),
    "f_status_detail": one_of({status.value for status in (*JobStatus, *TaskStatus)} | {RESTARTING}),
    "f_party_status": one_of({status.value for status in TaskStatus} - {TaskStatus.STOPPING.value}),
    "f_party_status_detail": one_of({status.value for status in TaskStatus}),
    "f_role": one_of(ROLES),
}


def seen(columns: Mapping[str, Column]) -> Arguments:
    """Return the schema of each column."""
    found = {name: (_SEEN[one.kind], one.may_be_null) for name, one in columns.items()}
    by_kind = {name: or_null(schema) if may_be_null else schema for name, (schema, may_be_null) in found.items()}
    return {**by_kind, **{name: text for name, text in _TEXT.items() if name in columns}}


def unprefixed(schemas: Arguments) -> Arguments:
    return {name.removeprefix("f_"): schema for name, schema in schemas.items()}


_LISTED_JOB = unprefixed(seen(columns_of(JobRow, with_documents=False)))
_APPROVABLE: Arguments = {"f_document_digest": described(DIGEST, "Only for a job that this party has to approve.")}
JOB_ROW = an_object(seen(columns_of(JobRow)), _APPROVABLE, title="Job")
LISTED_JOB = an_object(
    {**_LISTED_JOB, "party_id": {"type": "integer"}, "partners": {"type": "array", "items": {"type": "integer"}}},
    unprefixed(_APPROVABLE), title="ListedJob",
)
_WAITS: Arguments = {"f_wait_reason": described(TEXT, "What the task waits for while it runs, or before a retry.")}
TASK_ROW = an_object(seen(columns_of(TaskRow)) | _WAITS, title="Task")
LISTED_TASK = an_object(unprefixed(seen(columns_of(TaskRow, with_documents=False)) | _WAITS), title="ListedTask")
OUTPUT_ROW = an_object(seen(columns_of(OutputRow)), title="OutputTable")
ENGINE_ROW = an_object({}, seen(columns_of(EngineRow)), title="Engine", description="Empty if there is no engine.")


# ---------------------------------------------------------------------- filters

_NUMBER: Schema = {
    "type": ["integer", "string"], "minimum": -(2**63) + 1, "maximum": 2**63 - 1, "pattern": "^-?[0-9]{1,18}$"
}  # fmt: skip
_DATE: Schema = {"type": "string", "format": "moment"}
_ASKED: Mapping[type, Schema] = {str: {"type": ["string", "integer"]}, int: _NUMBER, bool: FLAG, datetime: _DATE}


def filters(model: Any, *names: str) -> Arguments:
    """Return the schemas of filters by these columns of the model, or by all of them."""
    known = filters_of(model)
    return {name: _filter(name, known[name]) for name in names or known}


def _filter(name: str, kind: type) -> Schema:
    one = _ASKED[kind]
    is_time = kind is int and name.endswith("_time")
    if is_time:
        one = {"anyOf": [_NUMBER, _DATE]}
    title = f"FilterBy{'Time' if is_time else _KINDS[kind]}"
    several = a_list(one, maxItems=MOST_VALUES)
    if kind not in (int, datetime):
        return {"anyOf": [one, several], "title": title, "description": "One value, or a list of choices."}
    span = a_list(or_null(one), minItems=2, maxItems=2)
    text = "One value, two for a range (null: no bound), or a list of choices."
    dates = " A date is written 2026-01-31 or 2026-01-31 12:00:00." if one is not _NUMBER else ""
    return {"anyOf": [one, several, span], "title": title, "description": text + dates}


_KINDS: Mapping[type, str] = {str: "Text", int: "Number", bool: "Flag", datetime: "Date"}
