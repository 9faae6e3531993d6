"""Jobs and tasks as clients of FATE 2 read them (reference: client-api-v2, section 4), from view rows."""

from __future__ import annotations

import json
from typing import Any

from fate_flow.api.v1.rendering.job import latest_time
from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.model.status import TASK_BROKEN, JobStatus, TaskStatus
from fate_flow.jobspec.fate_v2.parties import as_list
from fate_flow.jobspec.fate_v2.reader import FATE_V2
from fate_flow.jobspec.fate_v2.shown import dag_of_fate_v1, shown_dag
from fate_flow.jobspec.text.blocks import seats_of
from fate_flow.store.views.columns import Row

_SHOWN = (
    "apply_resource_time", "cores", "create_time", "elapsed", "end_time", "engine_name", "initiator_party_id", "job_id",
    "memory", "party_id", "progress", "remaining_cores", "remaining_memory", "resource_in_use", "return_resource_time",
    "role", "start_time", "status_code",
)  # fmt: skip
JOB = (*_SHOWN, "description", "document", "dsl", "format", "roles", "runtime_conf", "status", "tag")
"""What `rendered_job` needs."""

_SHOWN_OF_TASK = (
    "cmd", "create_time", "elapsed", "end_time", "engine_conf", "job_id", "kill_status",
    "party_id", "role", "run_ip", "run_pid", "run_port", "start_time", "status_code", "task_id", "task_version",
    "worker_id",
)  # fmt: skip
TASK = (
    *_SHOWN_OF_TASK, "component_module", "component_name", "error_report", "initiator_party_id", "message",
    "party_status", "provider_info", "status",
)  # fmt: skip
"""What `rendered_task` needs."""

PROTOCOL = "fate"
_BROKEN = frozenset(status.value for status in TASK_BROKEN)
_RUNNING = {JobStatus.STOPPING.value: JobStatus.RUNNING.value, TaskStatus.STOPPING.value: TaskStatus.RUNNING.value}
_OF_JOB = {**_RUNNING, JobStatus.TIMEOUT.value: JobStatus.FAILED.value}
"""`pipeline` polls for ever if a job ends in any other way than success, failed or canceled."""


def meant_job_statuses(shown: str) -> tuple[str, ...]:
    """Return the statuses that a client means which names this one."""
    return (shown, *(status for status, seen in _OF_JOB.items() if seen == shown))


def meant_task_statuses(shown: str) -> tuple[str, ...]:
    return (shown, *(status for status, seen in _RUNNING.items() if seen == shown))


def _more(row: Row, status: str | None) -> dict[str, str]:
    """Return what FATE's answers do not have, if there is anything: a status that is more precise than the one that its
    clients know, and what the job or the task waits for."""
    detail, waits_for = row.get("status_detail", row["status"]), row.get("wait_reason")
    said = {"status_detail": "" if detail == status else detail, "wait_reason": waits_for}
    return {key: text for key, text in said.items() if text}


def dag_of(row: Row) -> dict[str, Any]:
    """Return the DAG of a job, of which this party may have its own part alone."""
    own = json.loads(row["document"].text)
    if row["format"] == FATE_V2 and "body" in own:
        return shown_dag(own["body"], own["defaults"])
    return dag_of_fate_v1(json.loads(row["dsl"].text), json.loads(row["runtime_conf"].text))


def rendered_job(row: Row) -> dict[str, Any]:
    """Return a job from a row with the fields `JOB`."""
    dag = dag_of(row)
    conf, status = dag["dag"]["conf"], _OF_JOB.get(row["status"], row["status"])
    return {
        **{key: row[key] for key in _SHOWN},
        **_more(row, status),
        "dag": dag,
        "description": row["description"] or "",
        "flow_id": "",
        "inheritance": conf.get("inheritance") or {},
        "model_id": conf["model_id"],
        "model_version": None if conf["model_version"] is None else str(conf["model_version"]),
        "parties": as_list(party for role, ids in row["roles"].items() for party in seats_of(role, ids)),
        "protocol": PROTOCOL,
        "scheduler_party_id": row["initiator_party_id"],
        "status": status,
        "tag": row["tag"] or "",
        "update_time": latest_time(row),
        "user_name": "",
    }


def rendered_in_list(row: Row) -> dict[str, Any]:
    """Return a job of a list, with the ids of the other parties beside it."""
    others = {str(one) for role, ids in row["roles"].items() for one in ids} - {row["party_id"]}
    return {**rendered_job(row), "partners": sorted(others)}


def rendered_task(row: Row, spec: JobSpec | None) -> dict[str, Any]:
    """Return a task from a row with the fields `TASK`; `spec`: its job, as far as this party can read it."""
    status, party_status = (_RUNNING.get(row[key], row[key]) for key in ("status", "party_status"))
    party = Party(row["role"], row["party_id"])
    task = None if spec is None else spec.tasks.get(row["component_name"])
    of_job = None if spec is None else spec.parameters.get(party)
    if spec is not None and task is not None and of_job is not None:
        of_job = spec.parameters_of(task, party)
    cores = 0 if of_job is None else of_job.task_cores
    component = str(row["component_module"]).rpartition(".")[2]
    provider = row["provider_info"] or {}
    execution_id = "_".join((row["task_id"], str(row["task_version"]), row["role"], row["party_id"]))
    given = {
        "component": component, "job_id": row["job_id"], "party_id": row["party_id"], "party_task_id": execution_id,
        "role": row["role"], "task_id": row["task_id"], "task_name": row["component_name"],
        "task_version": str(row["task_version"]),
    }  # fmt: skip
    if task is not None:
        given |= {"parameters": dict(task.parameters.get(party, {})), "stage": task.stage}
    return {
        **{key: row[key] for key in _SHOWN_OF_TASK},
        **_more(row, status),
        "cmd": json.loads(row["cmd"].text) or None,
        "component": component,
        "component_parameters": given,
        "error_report": row["error_report"] or (row["message"] or "" if party_status in _BROKEN else ""),
        "execution_id": execution_id,
        "launcher_name": "default",
        "memory": 0 if of_job is None else of_job.task_memory,
        "party_status": party_status,
        "protocol": PROTOCOL,
        "provider_name": f"{provider.get('name', '')}:{provider.get('version', '')}@local",
        "resource_in_use": party_status == TaskStatus.RUNNING.value,
        "scheduler_party_id": row["initiator_party_id"],
        "status": status,
        "sync_type": "callback",
        "task_cores": cores,
        "task_name": row["component_name"],
        "task_parameters": given,
        "task_run": {"cores": cores},
        "timeout": None if task is None or of_job is None else task.timeout_at(party) or of_job.timeout_seconds,
        "update_time": latest_time(row),
    }  # fmt: skip
