"""Statuses for clients of v1. They do not know the status `stopping`: they see `running`, and the real status beside
it, in `status_detail`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fate_flow.api.http.declared import Schema, one_of
from fate_flow.core.model.grammar import ROLES
from fate_flow.core.model.status import JobStatus, TaskStatus
from fate_flow.core.planning.condition import RESTARTING

_RUNNING, _STOPPING = TaskStatus.RUNNING.value, TaskStatus.STOPPING.value
_OF_TASKS = frozenset(status.value for status in TaskStatus)
_ALL = _OF_TASKS | {status.value for status in JobStatus}

SCHEMAS: Mapping[str, Schema] = {
    "status": one_of(_ALL - {_STOPPING}),
    "status_detail": one_of(_ALL | {RESTARTING}),
    "party_status": one_of(_OF_TASKS - {_STOPPING}),
    "party_status_detail": one_of(_OF_TASKS),
    "role": one_of(ROLES),
}
"""The schemas of fields with a status or a role, by name."""


def shown_status(status: str) -> str:
    return _RUNNING if status == _STOPPING else status


def meant_statuses(shown: Sequence[Any]) -> tuple[Any, ...]:
    """Return the statuses that a client means which names these."""
    return (*shown, _STOPPING) if _RUNNING in shown else tuple(shown)
