"""A party task as clients of v1 read it: alone, in a list, and in a report."""

from __future__ import annotations

from typing import Any

from fate_flow.api.http.declared import TEXT, Arguments, an_object, described
from fate_flow.api.v1.rendering.fields import Field, fields_of, prefixed, rendering, schemas_of, without
from fate_flow.api.v1.rendering.job import latest_time
from fate_flow.api.v1.rendering.statuses import SCHEMAS, shown_status
from fate_flow.store.views.columns import Row

TASK = fields_of(
    text="job_id task_id role party_id component_name initiator_role initiator_party_id federated_mode "
    "federated_status_collect_type status party_status error_report incarnation caused_by policy federated_caused_by",
    text_or_null="component_module worker_id run_ip reason message target federated_reason federated_message",
    whole="task_version update_time auto_retries auto_retry_delay retry_at errors interruptions tried_since "
    "failed_workers",
    whole_or_null="create_time status_code run_port run_pid start_time end_time elapsed exit_code federated_exit_code "
    "federated_end_time",
    flags="run_on_this_party kill_status",
    dates_or_null="create_date update_date start_date end_date",
    objects="cmd provider_info component_parameters engine_conf",
    lists="without_parties",
)
LISTED_TASK = without(TASK, ("cmd", "component_parameters", "error_report"))
"""A list leaves out what may be long."""
REPORT = ("component_name", "role", "party_id", "start_time", "end_time", "elapsed", "status")
"""What `rendered_report` needs."""

_DETAILS = {"status_detail": Field(str), "party_status_detail": Field(str)}
_WAITS: Arguments = {"wait_reason": described(TEXT, "What the task waits for while it runs, or before a retry.")}

TASK_SCHEMA = an_object(schemas_of({**TASK, **_DETAILS}, SCHEMAS) | prefixed(_WAITS), title="Task")
LISTED_TASK_SCHEMA = an_object(schemas_of({**LISTED_TASK, **_DETAILS}, SCHEMAS, "") | _WAITS, title="ListedTask")

_task = rendering((*TASK, *_WAITS))
_listed_task = rendering((*LISTED_TASK, *_WAITS), "")
_report = rendering(REPORT, "")


def rendered_task(row: Row) -> dict[str, Any]:
    """Return a task from a row with the fields `TASK`, to which `conditions.py` has added the wait reason."""
    task = _with_statuses(_task(row), row, "f_")
    task["f_error_report"] = row["error_report"] or row["message"] or ""
    return task


def rendered_in_list(row: Row) -> dict[str, Any]:
    """Return a task of a list from a row with the fields `LISTED_TASK`, and its wait reason."""
    return _with_statuses(_listed_task(row), row, "")


def rendered_report(row: Row, place: int) -> dict[str, Any]:
    """Return when a task ran, from a row with the fields `REPORT`, and its place in the report."""
    return {**_report(row), "status": shown_status(row["status"]), "index": place}


def _with_statuses(task: dict[str, Any], row: Row, prefix: str) -> dict[str, Any]:
    """Set in a task what clients see of its statuses and its times; return the task."""
    task[f"{prefix}status"] = shown_status(row["status"])
    task[f"{prefix}status_detail"] = row.get("status_detail", row["status"])
    task[f"{prefix}party_status"] = shown_status(row["party_status"])
    task[f"{prefix}party_status_detail"] = row["party_status"]
    task[f"{prefix}update_time"] = latest_time(row)
    return task
