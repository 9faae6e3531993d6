"""The columns of a row for clients: their types and their names.

Clients of the v1 API do not know the status `stopping`: they see `running`, and the real status in `f_status_detail`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from peewee import BooleanField, DateTimeField, IntegerField

from fate_flow.core.model.status import TaskStatus
from fate_flow.jobspec.text.json_text import JsonText

Row = dict[str, Any]

_JSON_OBJECTS = frozenset({
    "f_dsl", "f_runtime_conf", "f_runtime_conf_on_party", "f_train_runtime_conf", "f_roles", "f_user",
    "f_inheritance_info", "f_policy_timers", "f_cmd", "f_provider_info", "f_component_parameters", "f_engine_conf",
    "f_engine_config",
})  # fmt: skip
_JSON_LISTS = frozenset({"f_unconfirmed_parties", "f_missing_parties", "f_without_parties", "f_changed_components"})
DOCUMENTS = frozenset({
    "f_dsl", "f_runtime_conf", "f_runtime_conf_on_party", "f_train_runtime_conf", "f_cmd", "f_component_parameters",
    "f_error_report",
})  # fmt: skip


@dataclass(frozen=True)
class Column:
    """The type of a column for clients."""

    kind: type                       # str, int, bool, datetime, dict or list
    may_be_null: bool


def columns_of(model: Any, *, with_documents: bool = True) -> dict[str, Column]:
    """Return the columns that rows of this model have for clients, as `as_seen` makes them."""
    found = {
        name: Column(_kind_of(name, field), field.null and name not in _NEVER_NULL)
        for name, field in model._meta.fields.items()
        if with_documents or name not in DOCUMENTS
    }
    details = {f"{name}_detail": Column(str, False) for name in _STATUSES if name in found}
    return {**found, **details}


_STATUSES = ("f_status", "f_party_status")
_NEVER_NULL = _JSON_OBJECTS | _JSON_LISTS | {"f_update_time", "f_error_report"}


def filters_of(model: Any) -> dict[str, type]:
    """Return the filters of clients with the type of their values: str, int, bool or datetime."""
    return {name.removeprefix("f_"): _kind_of_field(field) for name, field in model._meta.fields.items()}


def _kind_of(name: str, field: Any) -> type:
    if name in _JSON_OBJECTS:
        return dict
    return list if name in _JSON_LISTS else _kind_of_field(field)


def _kind_of_field(field: Any) -> type:
    if isinstance(field, DateTimeField):
        return datetime
    if isinstance(field, BooleanField):
        return bool
    return int if isinstance(field, IntegerField) else str


def as_seen(rows: Iterable[Row]) -> list[Row]:
    """Return rows with a status in the form for clients."""
    return [_with_statuses(decoded(row)) for row in rows]


def decoded(row: Row) -> Row:
    """Turn JSON columns into values, but keep whole documents as text. An empty column becomes {}, as in FATE."""
    for name in row.keys() & _JSON_OBJECTS:
        text = row[name] or "{}"
        row[name] = JsonText(text) if name in DOCUMENTS else json.loads(text)
    for name in row.keys() & _JSON_LISTS:
        row[name] = json.loads(row[name]) if row[name] else []
    return row


def _with_statuses(row: Row) -> Row:
    for name in _STATUSES:
        if name in row:
            row[f"{name}_detail"] = row[name]
            if row[name] == TaskStatus.STOPPING.value:
                row[name] = TaskStatus.RUNNING.value
    if "f_update_time" in row:       # clients need it, but the column is not written otherwise
        row["f_update_time"] = max(row[name] or 0 for name in ("f_create_time", "f_start_time", "f_end_time"))
    if "f_error_report" in row:
        row["f_error_report"] = row["f_error_report"] or row["f_message"] or ""
    return row
